#include "net/channel_acceptor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "net/frame_scan.h"

namespace space::channel {
namespace {

constexpr std::size_t read_bytes = 16 * 1024;
constexpr std::string_view http2_preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::uint16_t choose_version(const Sync& sync) {
  const std::uint16_t highest = std::min(sync.version_highest, version_max);
  return highest >= std::max(sync.version_lowest, version_min) ? highest : std::uint16_t{0};
}

}  // namespace

struct Acceptor::State {
  std::shared_ptr<Stream> transport;  // empty: closed
  Bytes bytes;                        // that were read and that nobody has taken yet
  std::optional<FrameScan> frames;    // of the last session, until its host hangs up or another one comes

  // What comes next is of another connection.
  void forget_host() {
    bytes.clear();
    frames.reset();
    transport.reset();
  }
};

// A session's view of the transport: ends where the session does, and leaves the transport to the next one.
class Acceptor::SessionStream final : public Stream {
 public:
  explicit SessionStream(std::shared_ptr<State> state)
      : state_(std::move(state)), transport_(state_->transport) {}
  ~SessionStream() override { reset(); }

  Task<Result<std::size_t>> read(std::span<std::byte> into) override {
    const auto state = state_;
    if (over_ || !state->frames || state->frames->ended()) co_return another_host();
    Bytes& held = state->bytes;
    std::size_t count = std::min(into.size(), held.size());
    std::memcpy(into.data(), held.data(), count);
    held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(count));
    if (count == 0) {
      SPACE_CO_TRY(count, co_await transport_->read(into));
      if (over_) co_return another_host();
      if (count == 0) state->forget_host();
      if (count == 0) co_return std::size_t{0};
    }
    const auto got = into.first(count);
    const std::size_t taken = state->frames->take(got);
    held.insert(held.begin(), got.begin() + static_cast<std::ptrdiff_t>(taken), got.end());
    if (taken == 0) co_return another_host();
    co_return taken;
  }
  Task<Result<void>> write(std::span<const std::byte> bytes) override {
    if (over_) co_return another_host();
    const auto transport = transport_;
    ++writing_;
    auto written = co_await transport->write(bytes);
    --writing_;
    co_return written;
  }
  Task<Result<void>> finish() override { return transport_->finish(); }
  void reset() noexcept override {
    if (std::exchange(over_, true)) return;
    const bool goes_on =
        state_->transport == transport_ && writing_ == 0 && state_->frames && state_->frames->ended();
    if (goes_on) return;
    if (state_->transport == transport_) state_->transport.reset();
    transport_->reset();
  }

 private:
  static std::unexpected<Error> another_host() {
    return fail(Code::unavailable, "another host begins a session");
  }

  std::shared_ptr<State> state_;
  std::shared_ptr<Stream> transport_;
  int writing_ = 0;
  bool over_ = false;
};

Acceptor::Acceptor(StreamPtr transport) : state_(std::make_shared<State>()) {
  reopen(std::move(transport));
}

bool Acceptor::is_open() const {
  return state_->transport != nullptr;
}

bool Acceptor::has_more() const {
  return !state_->bytes.empty();
}

void Acceptor::reopen(StreamPtr transport) {
  state_->transport = std::move(transport);
}

Task<Result<void>> Acceptor::read_more(State& state) {
  const auto transport = state.transport;
  Bytes more(read_bytes);
  auto count = co_await transport->read(more);
  if (count && *count > 0) {
    state.bytes.insert(state.bytes.end(), more.begin(), more.begin() + static_cast<std::ptrdiff_t>(*count));
    co_return Result<void>();
  }
  if (!count) co_return std::unexpected(std::move(count).error());
  co_return fail(Code::unavailable, "the channel was closed");
}

// A session that failed ends, like any other, where a frame's place holds none.
Task<Result<void>> Acceptor::skip_session(State& state) {
  while (state.frames) {
    state.bytes.erase(state.bytes.begin(),
                      state.bytes.begin() + static_cast<std::ptrdiff_t>(state.frames->take(state.bytes)));
    if (state.frames->ended()) {
      state.frames.reset();
    } else {
      SPACE_CO_CHECK(co_await read_more(state));
    }
  }
  co_return Result<void>();
}

Task<Result<StreamPtr>> Acceptor::accept(std::function<void(const Sync&)> on_sync) {
  const auto state = state_;
  if (!state->transport) co_return fail(Code::unavailable, "the channel is closed");
  auto accepted = co_await next_session(state, std::move(on_sync));
  if (!accepted) state->forget_host();
  co_return accepted;
}

Task<Result<StreamPtr>> Acceptor::next_session(std::shared_ptr<State> state,
                                               std::function<void(const Sync&)> on_sync) {
  SPACE_CO_CHECK(co_await skip_session(*state));
  const auto preface = as_bytes(http2_preface);
  Scanner<Sync> scanner;
  bool answered = false;  // what comes next follows an answered SYNC: HTTP/2, or one more SYNC
  while (true) {
    Bytes& bytes = state->bytes;
    const std::size_t compared = std::min(bytes.size(), preface.size());
    const bool http2 =
        answered && std::ranges::equal(std::span(bytes).first(compared), preface.first(compared));
    if (http2 && compared == preface.size()) {
      state->frames.emplace();
      co_return std::make_unique<SessionStream>(state);
    }
    if (!http2 && !bytes.empty()) {
      SPACE_CO_TRY(const auto sync, scanner.feed(std::exchange(bytes, {})));
      answered = sync.has_value();
      if (sync) {
        on_sync(*sync);
        const SyncAck ack{.version = choose_version(*sync), .nonce = sync->nonce};
        const Bytes message = encode(ack);
        SPACE_CO_CHECK(co_await state->transport->write(message));
        if (ack.version == 0)
          co_return fail(Code::conflict, "the host speaks channel versions {} to {}, this guest {} to {}",
                         sync->version_lowest, sync->version_highest, version_min, version_max);
        bytes = scanner.take_rest();
        continue;
      }
    }
    SPACE_CO_CHECK(co_await read_more(*state));
  }
}

Task<Result<StreamPtr>> accept(StreamPtr transport, std::function<void(const Sync&)> on_sync) {
  Acceptor acceptor(std::move(transport));
  co_return co_await acceptor.accept(std::move(on_sync));
}

}  // namespace space::channel
