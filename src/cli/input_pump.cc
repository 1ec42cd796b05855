#include "cli/input_pump.h"

#include <unistd.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "cli/output.h"

namespace space::cli {

namespace {

namespace asio = boost::asio;

constexpr std::size_t piece_bytes = 64 * 1024;
constexpr std::size_t pending_max = 256 * 1024;
constexpr Millis retry_pause{200};
constexpr std::string_view end_of_transmission = "\x04";

}  // namespace

InputPump::InputPump(const Executor& executor, const ApiClient& api, std::shared_ptr<const Target> target,
                     Selector selector, bool terminal, std::function<void()> on_detach)
    : executor_(executor),
      api_(api),
      target_(std::move(target)),
      selector_(std::move(selector)),
      terminal_(terminal),
      on_detach_(std::move(on_detach)),
      changed_(executor),
      input_(executor) {}

void InputPump::start() {
  Fd input = open_stdin();
  boost::system::error_code error;
  input_.assign(input.get(), error);
  if (error) {
    // A regular file cannot be polled: it is read as it is sent.
    spawn(executor_, "stdin", read_file(std::move(input)));
  } else {
    (void)input.release();
    spawn(executor_, "stdin", read_stream());
  }
  spawn(executor_, "input", send_all());
}

void InputPump::stop() {
  stopped_ = true;
  boost::system::error_code ignored;
  input_.cancel(ignored);
  changed_.notify_all();
}

void InputPump::set_connected(bool connected) {
  connected_ = connected;
  changed_.notify_all();
}

void InputPump::take(std::string_view typed) {
  pending_ += on_detach_ ? keys_.filter(typed) : std::string(typed);
  changed_.notify_all();
}

Task<void> InputPump::read_stream() {
  const auto self = shared_from_this();
  std::array<char, 16384> buffer;
  while (!stopped_) {
    const auto [error, n] =
        co_await input_.async_read_some(asio::buffer(buffer), asio::as_tuple(asio::use_awaitable));
    if (error || n == 0) break;
    take({buffer.data(), n});
    while (pending_.size() > pending_max && !stopped_) co_await changed_.wait();
  }
  ended_ = true;
  changed_.notify_all();
}

Task<void> InputPump::read_file(Fd file) {
  const auto self = shared_from_this();
  std::string buffer(piece_bytes, '\0');
  while (!stopped_) {
    const ssize_t n = ::read(file.get(), buffer.data(), buffer.size());
    if (n <= 0) break;
    take({buffer.data(), static_cast<std::size_t>(n)});
    while (pending_.size() > pending_max && !stopped_) co_await changed_.wait();
  }
  ended_ = true;
  changed_.notify_all();
}

Task<void> InputPump::send_all() {
  const auto self = shared_from_this();
  while (!stopped_) {
    if (keys_.detached() && (pending_.empty() || !connected_)) {
      co_return leave();
    } else if (!connected_ || (pending_.empty() && !ended_)) {
      co_await changed_.wait();
    } else if (pending_.empty()) {
      co_return co_await end_input();
    } else if (!co_await send_piece(pending_.substr(0, piece_bytes))) {
      co_return;
    }
  }
}

// What was typed before the keys went first, if there was a way.
void InputPump::leave() {
  if (!pending_.empty())
    note_on_terminal(fmt::format("the last {} bytes of input did not arrive", pending_.size()));
  on_detach_();
}

// False: the program takes no more.
Task<bool> InputPump::send_piece(std::string piece) {
  const std::size_t size = piece.size();
  const Delivery delivery = co_await deliver(std::move(piece));
  if (delivery == Delivery::not_sent) {
    co_await sleep_for(retry_pause);
    co_return true;
  }
  pending_.erase(0, size);
  changed_.notify_all();
  if (delivery == Delivery::doubtful && !stopped_)
    note_on_terminal(fmt::format("the last {} bytes of input may not have arrived", size));
  co_return delivery != Delivery::refused;
}

Task<InputPump::Delivery> InputPump::deliver(std::string piece) {
  JsonObject request;
  request["process"] = to_json(selector_);
  request["input"] = JsonObject{{terminal_ ? "pty" : "stdin", to_base64(as_bytes(piece))}};
  bool sent = false;
  const auto answer =
      co_await api_.daemon_call(*target_, "/process.Process/SendInput", std::move(request), &sent);
  if (answer) co_return Delivery::done;
  const Code code = answer.error().code;
  // The edge answers a conflict before it opens a tunnel: the sandbox is in transition.
  if (!sent || code == Code::conflict) co_return Delivery::not_sent;
  co_return code == Code::unavailable || code == Code::deadline ? Delivery::doubtful : Delivery::refused;
}

Task<void> InputPump::end_input() {
  if (terminal_) {
    co_await deliver(std::string(end_of_transmission));
    co_return;
  }
  JsonObject request;
  request["process"] = to_json(selector_);
  co_await api_.daemon_call(*target_, "/process.Process/CloseStdin", std::move(request));
}

}  // namespace space::cli
