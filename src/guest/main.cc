// space-daemon: the one program of SPACE inside a sandbox. Serves the private channel as process 1 or beside
// another init (--agent), or its HTTP API alone on TCP (--listen), without a VM.
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "base/log.h"
#include "guest/daemon.h"
#include "guest/init.h"

namespace {

using namespace space;
using namespace space::guest;

constexpr const char* usage =
    "usage: space-daemon                  as process 1 of a sandbox\n"
    "       space-daemon --version\n"
    "       space-daemon --agent          beside another init, serves the virtio port space.0\n"
    "       space-daemon --listen ADDRESS:PORT [--default-user NAME] [--token TOKEN]\n";

struct Options {
  bool agent = false;
  std::string address;
  std::uint16_t port = 0;
  std::string default_user = "user";
  std::string token;
};

bool parse_listen(std::string_view text, Options& options) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  options.address = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), options.port);
  return error == std::errc() && end == port.data() + port.size() && !options.address.empty();
}

std::optional<Options> parse_arguments(int count, char** values) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view name = values[i];
    if (name == "--agent") {
      options.agent = true;
      continue;
    }
    if (i + 1 == count) return std::nullopt;
    const std::string_view value = values[++i];
    if (name == "--listen") {
      if (!parse_listen(value, options)) return std::nullopt;
    } else if (name == "--default-user") {
      options.default_user = value;
    } else if (name == "--token") {
      options.token = value;
    } else {
      return std::nullopt;
    }
  }
  if (options.agent == !options.address.empty()) return std::nullopt;
  return options;
}

int fail_to_start(const Error& error) {
  log::error("cannot start", {log::Field(error)});
  return 1;
}

int run_in_machine(bool is_init) {
  if (const auto done = protect_daemon(); !done)
    log::warn("daemon not protected", {log::Field(done.error())});
  boost::asio::io_context loop(1);
  Daemon daemon(loop);
  daemon.state().daemon_version = SPACE_VERSION;
  const auto serving = daemon.serve_channel(is_init ? "/sys/fs/cgroup" : "/sys/fs/cgroup/space", is_init);
  if (!serving) return fail_to_start(serving.error());
  loop.run();
  return 1;
}

int run_on_tcp(Options options) {
  boost::asio::io_context loop(1);
  Daemon daemon(loop);
  daemon.state().daemon_version = SPACE_VERSION;
  daemon.state().default_user = std::move(options.default_user);
  daemon.state().access_token = SecretText(std::move(options.token));
  if (const char* path = std::getenv("PATH")) daemon.state().path = path;
  if (const auto serving = daemon.serve_tcp(options.address, options.port); !serving)
    return fail_to_start(serving.error());
  loop.run();
  return 1;
}

}  // namespace

int main(int count, char** values) {
  log::init("space-daemon");
  if (::getpid() == 1) {
    const auto started = start_machine();
    if (!started) {
      fail_to_start(started.error());
      stop_machine(false, true);
      return 1;
    }
    return run_in_machine(true);
  }
  if (count == 2 && std::string_view(values[1]) == "--version") {
    std::puts(SPACE_VERSION);
    return 0;
  }
  auto options = parse_arguments(count, values);
  if (!options) {
    std::fputs(usage, stderr);
    return 2;
  }
  return options->agent ? run_in_machine(false) : run_on_tcp(*std::move(options));
}
