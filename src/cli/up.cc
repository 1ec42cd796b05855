#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

#include "base/bytes.h"
#include "base/log.h"
#include "base/unix_address.h"
#include "cli/api_client.h"
#include "cli/config_file.h"
#include "cli/install.h"
#include "cli/isolation_command.h"
#include "cli/output.h"
#include "cli/platform_commands.h"
#include "cli/supervisor.h"

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

Result<std::vector<DaemonSpec>> daemons(const UpOptions& options, const Accounts& accounts) {
  SPACE_TRY(const std::string noded, sibling_program("space-noded"));
  SPACE_TRY(const std::string control, sibling_program("space-control"));
  SPACE_TRY(const std::string sandboxd, sibling_program("space-sandboxd"));
  const Directories& directories = options.directories;
  const std::vector<std::string> where = {"--state", directories.state, "--run", directories.run};
  const auto with = [&](const std::string& program, std::vector<std::string> more) {
    std::vector<std::string> argv = {program};
    argv.insert(argv.end(), where.begin(), where.end());
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  };
  std::vector<std::string> for_noded = {"--sandboxd-uid", std::to_string(accounts.sandboxd.uid)};
  std::vector<std::string> for_sandboxd;
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
  if (options.allow_tcg_multitenant) for_sandboxd.emplace_back("--allow-tcg-multitenant");
  return std::vector<DaemonSpec>{
      {"space-noded", with(noded, for_noded), 0, 0,
       [directories] { return unix_accepts(directories.run + "/noded/noded.sock", SOCK_SEQPACKET); }},
      {"space-control",
       with(control, {"--listen", options.listen, "--node-uid", std::to_string(accounts.sandboxd.uid)}),
       accounts.control.uid, accounts.control.gid,
       [directories, listen = options.listen] { return node_connected(directories, listen).has_value(); }},
      {"space-sandboxd", with(sandboxd, for_sandboxd), accounts.sandboxd.uid, accounts.sandboxd.gid,
       [directories, listen = options.listen] {
         return node_connected(directories, listen).value_or(false);
       }},
  };
}

// One supervisor for a run directory: the lock goes with the process, whatever ends it.
Result<Fd> take_lock(const std::string& run) {
  SPACE_TRY(Fd lock, open_fd(run + "/up.lock", O_RDWR | O_CREAT, 0600));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(Code::conflict, "SPACE is already up (run directory {})", run);
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock.get(), 0) != 0) return fail_errno(errno, "write lock file");
  SPACE_CHECK(write_all(lock.get(), as_bytes(pid)));
  return lock;
}

// The supervisor's life. `progress` lines and the final result go to the caller's terminal.
Result<void> serve(const UpOptions& options, const std::function<void(std::string)>& progress,
                   const std::function<void()>& started) {
  SPACE_TRY(const Account control, account("space-control"));
  SPACE_TRY(const Account sandboxd, account("space-sandboxd"));
  const Accounts accounts{control, sandboxd};
  SPACE_CHECK(prepare_folders(options.directories, accounts));
  SPACE_TRY(const Fd lock, take_lock(options.directories.run));
  SPACE_TRY(const Fd log,
            open_fd(options.directories.state + "/space.log", O_WRONLY | O_CREAT | O_APPEND, 0640));
  SPACE_TRY(auto specs, daemons(options, accounts));
  Supervisor supervisor(std::move(specs), log.get());
  SPACE_CHECK(supervisor.start(progress));
  SPACE_TRY(const Settings settings, bootstrap_settings(options.directories, options.listen));
  SPACE_CHECK(save_settings(settings, options.listen));
  started();
  ::dup2(log.get(), STDERR_FILENO);  // from here on the supervisor's own words go to the one log
  auto result = supervisor.run();
  supervisor.stop();
  return result;
}

void say_ready(const UpOptions& options) {
  print_line(fmt::format("SPACE is up: API on http://{}   log: {}/space.log", options.listen,
                         options.directories.state));
  const auto node = node_info(options.directories, options.listen);
  if (const std::string notice = node ? wall_notice(*node) : ""; !notice.empty()) print_line(notice);
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

Result<pid_t> running_supervisor(const std::string& run) {
  SPACE_TRY(const Fd lock, open_fd(run + "/up.lock", O_RDWR));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0)
    return fail(Code::not_found, "SPACE is not up (run directory {})", run);
  SPACE_TRY(const std::string text, read_file(run + "/up.lock", 64));
  const int pid = std::atoi(text.c_str());
  if (pid <= 1) return fail(Code::internal, "{}/up.lock holds no process id", run);
  return pid;
}

Result<int> kill_all_sandboxes(const CommonOptions& common) {
  SPACE_TRY(Settings settings, load_settings(common.api_url, common.api_key));
  const ApiClient api(std::move(settings));
  int killed = 0;
  while (true) {
    SPACE_TRY(const Answer page, run_loop(api.call("GET", "/v2/sandboxes?limit=100", std::nullopt)));
    if (!page.body.is_array() || page.body.get_array().empty()) return killed;
    for (const Json& sandbox : page.body.get_array()) {
      if (!sandbox.is_object()) continue;
      SPACE_TRY(const std::string id, require_text(sandbox.get_object(), "sandboxID"));
      auto answer = run_loop(api.call("DELETE", "/sandboxes/" + id, std::nullopt));
      if (!answer && answer.error().code != Code::not_found) return std::unexpected(answer.error());
      ++killed;
    }
  }
}

Result<void> down(const CommonOptions& common, const DownOptions& options) {
  const auto pid = running_supervisor(options.directories.run);
  if (!pid && !options.all) return std::unexpected(pid.error());
  if (pid) {
    if (options.all) {
      SPACE_TRY(const int killed, kill_all_sandboxes(common));
      if (killed > 0) note(fmt::format("killed {} sandbox{}", killed, killed == 1 ? "" : "es"));
    }
    ::kill(*pid, SIGTERM);
    const Deadline deadline = Deadline::after(Millis(20'000));
    while (running_supervisor(options.directories.run)) {
      if (deadline.passed())
        return fail(Code::deadline, "the supervisor (process {}) did not end within 20 s", *pid);
      std::this_thread::sleep_for(Millis(20));
    }
  }
  if (!options.all) return {};
  SPACE_TRY(const std::string noded, sibling_program("space-noded"));
  SPACE_TRY([[maybe_unused]] const std::string output,
            run_program_capture({noded, "--unmount-pool", "--kill-vms", "--state", options.directories.state,
                                 "--run", options.directories.run}));
  return {};
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
  options.allow_tcg_multitenant = options.allow_tcg_multitenant || config->allow_tcg_multitenant;
  if (auto lock = running_supervisor(options.directories.run)) {
    print_line(fmt::format("SPACE is already up (process {})", *lock));
    return 0;
  }
  if (options.detach) return serve_detached(options);
  const auto result = serve(options, note, [&] {
    say_ready(options);
    note("Ctrl-C stops the daemons; sandboxes keep running until 'space down --all'.");
    std::fflush(stdout);
  });
  if (result) return 0;
  print_error(result.error());
  return exit_failed;
}

int command_down(const CommonOptions& common, const DownOptions& options) {
  if (::geteuid() != 0) {
    print_error(Error{Code::permission_denied, "'space down' needs root: sudo space down"});
    return exit_failed;
  }
  const auto result = down(common, options);
  if (!result) {
    print_error(result.error());
    return exit_failed;
  }
  print_line(options.all ? "SPACE is down; no sandbox runs, the pool is unmounted."
                         : "SPACE is down; running sandboxes go on ('space up' finds them again, 'space down "
                           "--all' ends them).");
  return 0;
}

}  // namespace space::cli
