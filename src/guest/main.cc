// space-daemon: the one program of SPACE inside a sandbox. Serves the private channel as process 1 or beside
// another init (--agent), or its HTTP API alone on TCP (--listen), without a VM.
#include <sys/prctl.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <functional>
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
    "       space-daemon --listen ADDRESS:PORT [--default-user NAME] [--token TOKEN]\n"
    "       space-daemon --channel SOCKET [--default-user NAME]   the private channel without a VM, for "
    "tests\n"
    "--resume N: as a daemon says that is replaced by this one (api/channel.md, upgrade)\n";

struct Options {
  bool agent = false;
  std::string address;
  std::uint16_t port = 0;
  std::string channel;
  std::string default_user = "user";
  std::string token;
  int resume = -1;
};

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_listen(std::string_view text, Options& options) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  options.address = text.substr(0, colon);
  return parse_number(text.substr(colon + 1), options.port) && !options.address.empty();
}

bool take_option(std::string_view name, std::string_view value, Options& options) {
  if (name == "--listen") return parse_listen(value, options);
  if (name == "--resume") return parse_number(value, options.resume) && options.resume > 2;
  if (name == "--channel") {
    options.channel = value;
  } else if (name == "--default-user") {
    options.default_user = value;
  } else if (name == "--token") {
    options.token = value;
  } else {
    return false;
  }
  return true;
}

std::optional<Options> parse_arguments(int count, char** values) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view name = values[i];
    if (name == "--agent") {
      options.agent = true;
      continue;
    }
    if (i + 1 == count || !take_option(name, values[++i], options)) return std::nullopt;
  }
  return options;
}

int fail_to_start(const Error& error) {
  log::error("cannot start", {log::Field(error)});
  return 1;
}

// Of the daemon that takes this one's place.
std::vector<std::string> next_arguments(const Options& options) {
  std::vector<std::string> result{"space-daemon"};
  if (options.agent) result.emplace_back("--agent");
  if (!options.channel.empty())
    result.insert(result.end(), {"--channel", options.channel, "--default-user", options.default_user});
  return result;
}

int run(const Options& options, const std::function<Result<void>(Daemon&)>& serve) {
  boost::asio::io_context loop(1);
  Daemon daemon(loop);
  daemon.state().daemon_version = SPACE_VERSION;
  if (options.resume >= 0) daemon.resume(Fd(options.resume));
  if (const auto serving = serve(daemon); !serving) return fail_to_start(serving.error());
  loop.run();
  return 1;
}

int run_in_machine(const Options& options, bool is_init) {
  if (const auto done = protect_daemon(); !done)
    log::warn("daemon not protected", {log::Field(done.error())});
  return run(options, [&](Daemon& daemon) {
    return daemon.serve_channel(is_init ? "/sys/fs/cgroup" : "/sys/fs/cgroup/space", is_init,
                                next_arguments(options));
  });
}

int run_without_machine(const Options& options) {
  return run(options, [&](Daemon& daemon) {
    if (options.resume < 0) {
      daemon.state().default_user = options.default_user;
      daemon.state().access_token = SecretText(options.token);
      if (const char* path = std::getenv("PATH")) daemon.state().path = path;
    }
    return options.channel.empty() ? daemon.serve_tcp(options.address, options.port)
                                   : daemon.serve_channel_socket(options.channel, next_arguments(options));
  });
}

// What the kernel gives process 1 beyond its name is none of ours, unless we are a daemon's successor.
int run_as_init(int count, char** values) {
  Options options;
  if (count == 3 && std::string_view(values[1]) == "--resume" && take_option(values[1], values[2], options))
    return run_in_machine(options, true);
  if (const auto started = start_machine(); !started) {
    fail_to_start(started.error());
    stop_machine(false, true);
    return 1;
  }
  return run_in_machine({}, true);
}

}  // namespace

int main(int count, char** values) {
  log::init("space-daemon");
  ::prctl(PR_SET_NAME, "space-daemon");  // an exec of a memory file has another
  if (::getpid() == 1) return run_as_init(count, values);
  if (count == 2 && std::string_view(values[1]) == "--version") {
    std::puts(SPACE_VERSION);
    return 0;
  }
  const auto options = parse_arguments(count, values);
  const int modes =
      options ? int{options->agent} + int{!options->address.empty()} + int{!options->channel.empty()} : 0;
  if (modes != 1) {
    std::fputs(usage, stderr);
    return 2;
  }
  return options->agent ? run_in_machine(*options, false) : run_without_machine(*options);
}
