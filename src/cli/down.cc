#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "cli/api_client.h"
#include "cli/install.h"
#include "cli/output.h"
#include "cli/platform_commands.h"
#include "cli/up_lock.h"

namespace space::cli {

namespace {

constexpr Millis look_pause{20};
constexpr Millis daemons_stop_limit{20'000};  // beside what keeping the sandboxes takes

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

struct Down {
  std::optional<int> kept;  // sandboxes, as far as the node said
};

// SIGTERM has the supervisor keep what runs; SIGQUIT has it leave the virtual machines alone.
Result<Down> end_supervisor(const DownOptions& options, const RunningSupervisor& supervisor) {
  const std::string& run = options.directories.run;
  const bool keeps = !options.all && !options.keep_running;
  KeepingLine keeping(run, ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  ::kill(supervisor.pid, keeps ? SIGTERM : SIGQUIT);
  const Millis limit = daemons_stop_limit + (keeps ? supervisor.stop_limit : Millis(0));
  const Deadline deadline = Deadline::after(limit);
  while (running_supervisor(run)) {
    if (deadline.passed())
      return fail(Code::deadline, "the supervisor (process {}) did not end within {} s", supervisor.pid,
                  limit.count() / 1000);
    if (keeps) keeping.draw();
    std::this_thread::sleep_for(look_pause);
  }
  if (keeps) keeping.draw();
  return Down{keeping.total()};
}

Result<Down> down(const CommonOptions& common, const DownOptions& options) {
  const auto supervisor = running_supervisor(options.directories.run);
  if (!supervisor && !options.all) return std::unexpected(supervisor.error());
  Down done;
  if (supervisor) {
    if (options.all) {
      SPACE_TRY(const int killed, kill_all_sandboxes(common));
      if (killed > 0) note(fmt::format("killed {} sandbox{}", killed, killed == 1 ? "" : "es"));
    }
    SPACE_TRY(done, end_supervisor(options, *supervisor));
  }
  if (!options.all) return done;
  SPACE_TRY(const std::string noded, sibling_program("space-noded"));
  SPACE_TRY([[maybe_unused]] const std::string output,
            run_program_capture({noded, "--unmount-pool", "--kill-vms", "--state", options.directories.state,
                                 "--run", options.directories.run}));
  return done;
}

std::string last_word(const DownOptions& options, const Down& done) {
  if (options.all) return "SPACE is down; no sandbox runs, the pool is unmounted.";
  if (options.keep_running)
    return "SPACE is down; virtual machines run on ('space up' finds them again, 'space down --all' ends "
           "them).";
  if (!done.kept || *done.kept == 0) return "SPACE is down; 'space up' brings every sandbox back.";
  return fmt::format("SPACE is down; {} sandbox{} kept, 'space up' brings {} back.", *done.kept,
                     *done.kept == 1 ? " is" : "es are", *done.kept == 1 ? "it" : "them");
}

}  // namespace

int command_down(const CommonOptions& common, const DownOptions& options) {
  if (::geteuid() != 0) {
    print_error(Error{Code::permission_denied, "'space down' needs root: sudo space down"});
    return exit_failed;
  }
  const auto done = down(common, options);
  if (!done) {
    print_error(done.error());
    return exit_failed;
  }
  print_line(last_word(options, *done));
  return 0;
}

}  // namespace space::cli
