#include "cli/port_forward.h"

#include <charconv>

#include "cli/output.h"

namespace space::cli {

namespace {

std::optional<std::uint16_t> parse_number(std::string_view text) {
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Task<void> carry(const ApiClient& api, std::shared_ptr<const Target> target, std::uint16_t port,
                 StreamPtr client) {
  auto guest = co_await api.open_port(*target, port);
  if (guest) co_return co_await splice(std::move(client), *std::move(guest));
  client->reset();
  note(fmt::format("port {}: {}", port, printable(guest.error().message)));
}

Task<void> accept_all(const ApiClient& api, std::shared_ptr<const Target> target, std::uint16_t port,
                      std::shared_ptr<Listener> listener) {
  const Executor executor = co_await boost::asio::this_coro::executor;
  while (true) {
    auto client = co_await listener->accept();
    if (!client) co_return;
    spawn(executor, "forwarded connection", carry(api, target, port, *std::move(client)));
  }
}

}  // namespace

Result<Forward> parse_forward(std::string_view text) {
  const auto colon = text.find(':');
  const auto remote = parse_number(colon == std::string_view::npos ? text : text.substr(colon + 1));
  const auto local = colon == std::string_view::npos ? remote : parse_number(text.substr(0, colon));
  if (!remote || *remote == 0 || !local)
    return fail(Code::invalid_argument, "'{}' must look like 8000 or 9000:8000 (LOCAL:REMOTE)", text);
  return Forward{*local, *remote};
}

Result<std::unique_ptr<PortForward>> PortForward::start(const Executor& executor, const ApiClient& api,
                                                        std::shared_ptr<const Target> target,
                                                        Forward forward) {
  auto listener = listen_tcp(executor, "127.0.0.1", forward.local);
  if (!listener)
    return fail(listener.error().code, "{}. Another local port: space port-forward ID OTHER:{}",
                listener.error().message, forward.remote);
  std::unique_ptr<PortForward> started(new PortForward(*std::move(listener)));
  spawn(executor, "port forward", accept_all(api, std::move(target), forward.remote, started->listener_));
  return started;
}

}  // namespace space::cli
