#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "base/bytes.h"
#include "base/log.h"
#include "base/unix_address.h"
#include "cli/api_client.h"
#include "cli/config_file.h"
#include "cli/egress_text.h"
#include "cli/install.h"
#include "cli/isolation_command.h"
#include "cli/output.h"
#include "cli/platform_commands.h"
#include "cli/supervisor.h"
#include "cli/up_lock.h"

namespace space::cli {

namespace {

struct Account {
  uid_t uid = 0;
  gid_t gid = 0;
};

Result<Account> account(const std::string& name) {
  const passwd* entry = ::getpwnam(name.c_str());
  if (entry == nullptr) {
    SPACE_TRY([[maybe_unused]] const std::string output,
              run_program_capture({"useradd", "--system", "--user-group", "--no-create-home", "--home-dir",
                                   "/nonexistent", "--shell", "/usr/sbin/nologin", name}));
    entry = ::getpwnam(name.c_str());
  }
  if (entry == nullptr) return fail(Code::internal, "there is no user '{}' and it could not be made", name);
  return Account{entry->pw_uid, entry->pw_gid};
}

Result<void> make_folder(const std::string& path, mode_t mode, uid_t uid, gid_t gid) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno(errno, "make folder " + path);
  if (::chown(path.c_str(), uid, gid) != 0) return fail_errno(errno, "chown " + path);
  if (::chmod(path.c_str(), mode) != 0) return fail_errno(errno, "chmod " + path);
  return {};
}

Result<void> make_parents(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    const std::string parent = path.substr(0, at);
    if (::mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST)
      return fail_errno(errno, "make folder " + parent);
  }
  return {};
}

struct Accounts {
  Account control;
  Account sandboxd;
  Account netd;
};

// The few folders every daemon finds in place; what is in them is each daemon's own.
Result<void> prepare_folders(const Directories& directories, const Accounts& accounts) {
  SPACE_CHECK(make_parents(directories.state + "/"));
  SPACE_CHECK(make_parents(directories.run + "/"));
  for (const std::string& root : {directories.state, directories.run})
    SPACE_CHECK(make_folder(root, 0755, 0, 0));
  SPACE_CHECK(make_folder(directories.state + "/images", 0755, 0, 0));
  SPACE_CHECK(make_folder(directories.state + "/control", 0700, accounts.control.uid, accounts.control.gid));
  SPACE_CHECK(
      make_folder(directories.state + "/sandboxd", 0700, accounts.sandboxd.uid, accounts.sandboxd.gid));
  SPACE_CHECK(make_folder(directories.state + "/netd", 0700, accounts.netd.uid, accounts.netd.gid));
  SPACE_CHECK(make_folder(directories.run + "/netd", 02750, accounts.netd.uid, accounts.sandboxd.gid));
  SPACE_CHECK(make_folder(directories.run + "/noded", 0751, 0, 0));
  SPACE_CHECK(make_folder(directories.run + "/control", 02750, accounts.control.uid, accounts.sandboxd.gid));
  return make_folder(directories.run + "/sandboxd", 0700, accounts.sandboxd.uid, accounts.sandboxd.gid);
}

bool accepts(int domain, int type, const sockaddr* address, socklen_t length) {
  const Fd socket(::socket(domain, type | SOCK_CLOEXEC, 0));
  return ::connect(socket.get(), address, length) == 0;
}

bool unix_accepts(const std::string& path, int type) {
  const auto address = UnixAddress::of(path);
  return address && accepts(AF_UNIX, type, address->get(), address->size());
}

// The key space-control made at its first start.
Result<Settings> bootstrap_settings(const Directories& directories, const std::string& listen) {
  SPACE_TRY(const std::string text, read_file(directories.state + "/control/bootstrap.json", 64 * 1024));
  SPACE_TRY(const JsonObject bootstrap, parse_json_object(text, "bootstrap.json"));
  SPACE_TRY(std::string key, require_text(bootstrap, "api_key"));
  SPACE_TRY(Settings settings, parse_api_url("http://" + listen));
  settings.api_key = SecretText(std::move(key));
  return settings;
}

// The operator's own configuration, so that every later command finds the API.
Result<void> save_settings(const Settings& settings, const std::string& listen) {
  const std::string path = config_path();
  SPACE_CHECK(make_parents(path));
  const JsonObject config{{"api_url", "http://" + listen}, {"api_key", settings.api_key.reveal()}};
  return write_file_durably(path, to_text(config) + "\n", 0600);
}

// What the API says of its node; nothing while it does not answer.
std::optional<JsonObject> node_info(const Directories& directories, const std::string& listen) {
  auto settings = bootstrap_settings(directories, listen);
  if (!settings) return std::nullopt;
  const ApiClient api(*std::move(settings));
  auto node = run_loop(api.call("GET", "/v1/node", std::nullopt, Millis(2'000)));
  if (!node || !node->body.is_object()) return std::nullopt;
  return std::move(node->body.get_object());
}

// Whether the node has dialled in; nothing while the API does not answer.
std::optional<bool> node_connected(const Directories& directories, const std::string& listen) {
  const auto node = node_info(directories, listen);
  if (!node) return std::nullopt;
  const auto connected = bool_member(*node, "connected");
  return connected ? *connected : std::nullopt;
}

// For tests: more words for space-sandboxd's command line.
std::vector<std::string> words_of(const char* text) {
  std::istringstream stream(text == nullptr ? "" : text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// Ends last of all its wait for guests that do not answer.
Millis sandboxd_stop_limit(const UpOptions& options) {
  constexpr std::int64_t shutdown_limit_s = 60;
  constexpr Millis margin{15'000};
  return std::chrono::seconds(options.shutdown_limit_s.value_or(shutdown_limit_s)) + margin;
}

// A create that finds one takes milliseconds; two are 1.3 GiB of promised memory at the base template's
// shape.
constexpr std::int64_t warm_pool_default = 2;

// A connection of a guest takes two, and it refuses some before it has none left.
constexpr rlim_t netd_open_files = 1'048'576;

std::vector<std::string> words_for_netd(const UpOptions& options, const Accounts& accounts) {
  std::vector<std::string> words = {"--sandboxd-uid", std::to_string(accounts.sandboxd.uid)};
  for (const std::string& resolver : options.resolvers) words.insert(words.end(), {"--resolver", resolver});
  for (const std::string& cidr : options.deny) words.insert(words.end(), {"--deny", cidr});
  return words;
}

Result<std::vector<DaemonSpec>> daemons(const UpOptions& options, const Accounts& accounts) {
  SPACE_TRY(const std::string noded, sibling_program("space-noded"));
  SPACE_TRY(const std::string control, sibling_program("space-control"));
  SPACE_TRY(const std::string sandboxd, sibling_program("space-sandboxd"));
  SPACE_TRY(const std::string netd, sibling_program("space-netd"));
  const Directories& directories = options.directories;
  const std::vector<std::string> where = {"--state", directories.state, "--run", directories.run};
  const auto with = [&](const std::string& program, std::vector<std::string> more) {
    std::vector<std::string> argv = {program};
    argv.insert(argv.end(), where.begin(), where.end());
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  };
  std::vector<std::string> for_noded = {"--sandboxd-uid", std::to_string(accounts.sandboxd.uid), "--netd-uid",
                                        std::to_string(accounts.netd.uid)};
  SPACE_TRY(const std::string daemon, sibling_program("space-daemon"));
  std::vector<std::string> for_sandboxd = {"--daemon", daemon};
  std::vector<std::string> for_control = {"--listen", options.listen, "--node-uid",
                                          std::to_string(accounts.sandboxd.uid)};
  if (!options.egress_default.empty())
    for_control.insert(for_control.end(), {"--egress-default", options.egress_default});
  if (options.egress_internal) for_control.emplace_back("--egress-internal");
  const auto add = [](std::vector<std::string>& words, const char* flag, std::optional<std::int64_t> value) {
    if (value) words.insert(words.end(), {flag, std::to_string(*value)});
  };
  add(for_noded, "--pool-mib", options.pool_mib);
  for (const std::string& layer : options.allow_missing_layers)
    for_noded.insert(for_noded.end(), {"--allow-missing", layer});
  add(for_sandboxd, "--memory-limit-mib", options.memory_limit_mib);
  add(for_sandboxd, "--disk-mib-per-s", options.disk_mib_per_s);
  add(for_sandboxd, "--disk-iops", options.disk_iops);
  add(for_sandboxd, "--network-mbit-per-s", options.network_mbit_per_s);
  add(for_sandboxd, "--warm-pool", options.warm_pool.value_or(warm_pool_default));
  add(for_sandboxd, "--warm-pool-max", options.warm_pool_max);
  add(for_sandboxd, "--hot-keep-s", options.hot_keep_s);
  add(for_sandboxd, "--shutdown-limit-s", options.shutdown_limit_s);
  if (options.allow_tcg_multitenant) for_sandboxd.emplace_back("--allow-tcg-multitenant");
  for (std::string& word : words_of(std::getenv("SPACE_SANDBOXD_OPTIONS")))
    for_sandboxd.push_back(std::move(word));
  return std::vector<DaemonSpec>{
      {.name = "space-noded",
       .argv = with(noded, for_noded),
       .ready =
           [directories] { return unix_accepts(directories.run + "/noded/noded.sock", SOCK_SEQPACKET); }},
      {.name = "space-netd",
       .argv = with(netd, words_for_netd(options, accounts)),
       .uid = accounts.netd.uid,
       .gid = accounts.netd.gid,
       .ready = [directories] { return unix_accepts(directories.run + "/netd/netd.sock", SOCK_STREAM); },
       .open_files = netd_open_files},
      {.name = "space-control",
       .argv = with(control, for_control),
       .uid = accounts.control.uid,
       .gid = accounts.control.gid,
       .ready = [directories,
                 listen = options.listen] { return node_connected(directories, listen).has_value(); }},
      // SIGTERM asks it to keep what runs, SIGQUIT to leave it alone.
      {.name = "space-sandboxd",
       .argv = with(sandboxd, for_sandboxd),
       .uid = accounts.sandboxd.uid,
       .gid = accounts.sandboxd.gid,
       .ready = [directories,
                 listen = options.listen] { return node_connected(directories, listen).value_or(false); },
       .leave_signal = SIGQUIT,
       .stop_limit = sandboxd_stop_limit(options)},
  };
}

// The supervisor's life. `progress` lines and the final result go to the caller's terminal.
Result<void> serve(const UpOptions& options, const std::function<void(std::string)>& progress,
                   const std::function<void()>& started) {
  SPACE_TRY(const Account control, account("space-control"));
  SPACE_TRY(const Account sandboxd, account("space-sandboxd"));
  SPACE_TRY(const Account netd, account("space-netd"));
  const Accounts accounts{control, sandboxd, netd};
  SPACE_CHECK(prepare_folders(options.directories, accounts));
  SPACE_TRY(const Fd lock, take_up_lock(options.directories.run, sandboxd_stop_limit(options)));
  SPACE_TRY(const Fd log,
            open_fd(options.directories.state + "/space.log", O_WRONLY | O_CREAT | O_APPEND, 0640));
  SPACE_TRY(auto specs, daemons(options, accounts));
  Supervisor supervisor(std::move(specs), log.get());
  SPACE_CHECK(supervisor.start(progress));
  SPACE_TRY(const Settings settings, bootstrap_settings(options.directories, options.listen));
  SPACE_CHECK(save_settings(settings, options.listen));
  started();
  KeepingLine keeping(options.directories.run, ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  ::dup2(log.get(), STDERR_FILENO);  // from here on the supervisor's own words go to the one log
  SPACE_TRY(const Supervisor::Ending ending, supervisor.run());
  supervisor.stop(ending, [&] { keeping.draw(); });
  return {};
}

void say_ready(const UpOptions& options) {
  print_line(fmt::format("SPACE is up: API on http://{}   log: {}/space.log", options.listen,
                         options.directories.state));
  const auto node = node_info(options.directories, options.listen);
  if (const std::string notice = node ? wall_notice(*node) : ""; !notice.empty()) print_line(notice);
  print_line(egress_notice(options.egress_default));
}

// Detached: the child serves; its progress reaches us through a pipe whose last line says how it went.
int serve_detached(const UpOptions& options) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return exit_failed;
  const pid_t child = ::fork();
  if (child < 0) return exit_failed;
  if (child == 0) {
    ::close(ends[0]);
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
    int pipe = ends[1];
    const auto send = [&](const std::string& line) {
      if (pipe >= 0) static_cast<void>(write_all(pipe, as_bytes(line + "\n")));
    };
    const auto result = serve(
        options, [&](const std::string& line) { send("  " + line); },
        [&] {
          send("ready");
          ::close(std::exchange(pipe, -1));
        });
    if (!result) send("failed " + result.error().message);
    ::_exit(result ? 0 : exit_failed);
  }
  ::close(ends[1]);
  ::waitpid(child, nullptr, 0);
  FILE* lines = ::fdopen(ends[0], "r");
  std::array<char, 4096> buffer;
  bool ready = false;
  while (std::fgets(buffer.data(), buffer.size(), lines) != nullptr) {
    std::string line(buffer.data());
    if (line.ends_with('\n')) line.pop_back();
    if (line == "ready")
      ready = true;
    else if (line.starts_with("failed "))
      print_error(Error{Code::internal, line.substr(7)});
    else
      note(line);
  }
  std::fclose(lines);
  if (!ready) return exit_failed;
  say_ready(options);
  return 0;
}

}  // namespace

int command_up(const CommonOptions&, UpOptions options, bool state_given, bool run_given, bool listen_given) {
  log::init("space-up");
  if (::geteuid() != 0) {
    print_error(
        Error{Code::permission_denied, "'space up' makes virtual machines and needs root: sudo space up"});
    return exit_failed;
  }
  const auto config = read_config_file(options.config);
  if (!config) {
    print_error(config.error());
    return exit_usage;
  }
  if (!state_given && !config->state.empty()) options.directories.state = config->state;
  if (!run_given && !config->run.empty()) options.directories.run = config->run;
  if (!listen_given && !config->listen.empty()) options.listen = config->listen;
  if (!options.pool_mib) options.pool_mib = config->pool_mib;
  if (!options.memory_limit_mib) options.memory_limit_mib = config->memory_limit_mib;
  if (!options.disk_mib_per_s) options.disk_mib_per_s = config->disk_mib_per_s;
  if (!options.disk_iops) options.disk_iops = config->disk_iops;
  if (!options.network_mbit_per_s) options.network_mbit_per_s = config->network_mbit_per_s;
  if (options.allow_missing_layers.empty()) options.allow_missing_layers = config->allow_missing_layers;
  if (!options.warm_pool) options.warm_pool = config->warm_pool;
  if (!options.warm_pool_max) options.warm_pool_max = config->warm_pool_max;
  if (!options.hot_keep_s) options.hot_keep_s = config->hot_keep_s;
  if (!options.shutdown_limit_s) options.shutdown_limit_s = config->shutdown_limit_s;
  if (options.resolvers.empty()) options.resolvers = config->resolvers;
  if (options.deny.empty()) options.deny = config->deny;
  if (options.egress_default.empty()) options.egress_default = config->egress_default;
  options.egress_internal = options.egress_internal || config->egress_internal;
  options.allow_tcg_multitenant = options.allow_tcg_multitenant || config->allow_tcg_multitenant;
  if (auto lock = running_supervisor(options.directories.run)) {
    print_line(fmt::format("SPACE is already up (process {})", lock->pid));
    return 0;
  }
  if (options.detach) return serve_detached(options);
  const auto result = serve(options, note, [&] {
    say_ready(options);
    note("Ctrl-C keeps every sandbox on the disk and stops; the next 'space up' brings them back.");
    std::fflush(stdout);
  });
  if (result) return 0;
  print_error(result.error());
  return exit_failed;
}

}  // namespace space::cli
