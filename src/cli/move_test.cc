// Rest and return on the command line: what reaches the API, how the platform is stopped.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/bytes.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/fake_sandbox.h"
#include "cli/supervisor.h"
#include "cli/up_lock.h"
#include "cli/waiting.h"
#include "net/test_loop.h"

namespace space::cli {
namespace {

using testing::HasSubstr;

class Folder {
 public:
  Folder() {
    char pattern[] = "/tmp/space_cli_XXXXXX";
    path = mkdtemp(pattern);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(path + "/" + name) << text;
  }
  std::string text(const std::string& name) const { return read_file(path + "/" + name, 4096).value_or(""); }
  std::string path;
};

class MoveTest : public LoopTest {
 protected:
  MoveTest() : sandbox(executor()) {}
  FakeSandbox sandbox;
};

// T60: a look shortens nothing, and a sandbox that was brought back for a command does not end under it.
TEST_F(MoveTest, T60ConnectingLooksOrGivesALifeToBeUsedIn) {
  const ApiClient api = sandbox.client();
  run([&]() -> Task<void> {
    EXPECT_TRUE(co_await api.connect_sandbox(FakeSandbox::id));
    EXPECT_EQ(sandbox.connected_with.at("timeout"), 1);
    sandbox.paused = true;
    EXPECT_TRUE(co_await api.connect_sandbox(FakeSandbox::id));
    EXPECT_EQ(sandbox.connected_with.at("timeout"), 3600);
  });
}

TEST(Life, SecondsOrNever) {
  EXPECT_EQ(life_json("60"), 60);
  EXPECT_EQ(life_json("never"), "never");
}

TEST(Words, OfWaitingAndKeeping) {
  EXPECT_EQ(waiting_text("pausing i1", 3), "pausing i1 3 s");
  EXPECT_EQ(keeping_text("1 3\n"), "keeping 3 sandboxes: 1 of 3");
  EXPECT_EQ(keeping_text("0 1\n"), "keeping 1 sandbox: 0 of 1");
  for (const char* none : {"", "x", "3", "3 1", "-1 2", "0 0"}) EXPECT_FALSE(keeping_text(none)) << none;
}

TEST(UpLock, SaysWhoHasItAndHowLongItsEndMayTake) {
  const Folder folder;
  EXPECT_FALSE(running_supervisor(folder.path));
  {
    const auto lock = take_up_lock(folder.path, Millis(75'000));
    ASSERT_TRUE(lock);
    const auto running = running_supervisor(folder.path);
    ASSERT_TRUE(running) << running.error().message;
    EXPECT_EQ(running->pid, ::getpid());
    EXPECT_EQ(running->stop_limit, Millis(75'000));
    EXPECT_EQ(take_up_lock(folder.path, Millis(1)).error().code, Code::conflict);
  }
  EXPECT_EQ(running_supervisor(folder.path).error().code, Code::not_found);
}

TEST(ConfigFile, RestAndWarmth) {
  const auto config =
      parse_config("warm_pool = 4\nwarm_pool_max = 16\nhot_keep_s = 0\nshutdown_limit_s = 30\n", "c");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->warm_pool, 4);
  EXPECT_EQ(config->warm_pool_max, 16);
  EXPECT_EQ(config->hot_keep_s, 0);
  EXPECT_EQ(config->shutdown_limit_s, 30);
  for (const char* wrong : {"warm_pool = -1", "warm_pool = \"2\"", "shutdown_limit_s = 0"})
    EXPECT_THAT(parse_config(wrong, "c").error().message, HasSubstr("must be a number")) << wrong;
}

TEST(ConfigFile, Network) {
  const auto config = parse_config(
      "warm_pool = 4\n[network]\nresolvers = [\"9.9.9.9\", \"[2620:fe::fe]:5353\"]\n"
      "deny = [\"198.18.0.0/15\"]\negress_default = \"deny_all\"\negress_internal = true\n",
      "c");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->warm_pool, 4);
  EXPECT_EQ(config->resolvers, (std::vector<std::string>{"9.9.9.9", "[2620:fe::fe]:5353"}));
  EXPECT_EQ(config->deny, std::vector<std::string>{"198.18.0.0/15"});
  EXPECT_EQ(config->egress_default, "deny_all");
  EXPECT_TRUE(config->egress_internal);
  const std::pair<const char*, const char*> wrong[] = {
      {"[network]\nresolver = []", "c line 2: unknown setting 'resolver' of [network] (known: resolvers"},
      {"[network]\nresolvers = \"9.9.9.9\"", "c line 2: 'resolvers' must be a list"},
      {"[network]\negress_default = \"open\"", "c line 2: 'egress_default' must be \"allow_all\""},
      {"[network]\npool_mib = 1", "unknown setting 'pool_mib' of [network]"},
      {"network = 5", "unknown setting 'network'"},
  };
  for (const auto& [text, message] : wrong)
    EXPECT_THAT(parse_config(text, "c").error().message, HasSubstr(message)) << text;
}

TEST(ConfigFile, DirectoriesThatWereNotSaid) {
  const Folder folder;
  folder.put("c.toml", "state = \"/of/file\"\nrun = \"/run/of/file\"\n");
  Directories directories{.state = "/said", .run = "/default"};
  ASSERT_TRUE(read_directories(folder.path + "/c.toml", true, false, directories));
  EXPECT_EQ(directories.state, "/said");
  EXPECT_EQ(directories.run, "/run/of/file");
  ASSERT_TRUE(read_directories(folder.path + "/none", false, false, directories));
  EXPECT_EQ(directories.run, "/run/of/file");
  folder.put("c.toml", "stat = 1\n");
  EXPECT_FALSE(read_directories(folder.path + "/c.toml", false, true, directories));
  EXPECT_TRUE(read_directories(folder.path + "/c.toml", true, true, directories));  // not asked
}

// A supervisor in a process of its own, with one daemon that notes which signal ended it.
class SupervisorTest : public testing::Test {
 protected:
  void begin(const std::string& daemon_script) {
    pid_ = ::fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) ::_exit(supervise(daemon_script));
    ASSERT_TRUE(until([this] { return folder_.text("ready") == "yes\n"; }));
  }
  int supervise(const std::string& script) const {
    DaemonSpec spec{.name = "daemon",
                    .argv = {"/bin/sh", "-c", "cd " + folder_.path + "; " + script},
                    .ready = [this] { return std::filesystem::exists(folder_.path + "/up"); },
                    .leave_signal = SIGQUIT,
                    .stop_limit = Millis(5'000)};
    Supervisor supervisor({std::move(spec)}, ::open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (!supervisor.start([](const std::string&) {})) return 1;
    folder_.put("ready", "yes\n");
    const auto ending = supervisor.run();
    if (!ending) return 1;
    int waited = 0;
    supervisor.stop(*ending, [&] { ++waited; });
    folder_.put("waited", std::to_string(waited));
    return 0;
  }
  template <class F>
  static bool until(F happened) {
    const Deadline deadline = Deadline::after(Millis(10'000));
    while (!happened()) {
      if (deadline.passed()) return false;
      std::this_thread::sleep_for(Millis(5));
    }
    return true;
  }
  int end_with(int signal) {
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return status;
  }
  Folder folder_;
  pid_t pid_ = -1;
};

constexpr const char* notes_its_signal =
    "trap 'sleep 0.2; echo TERM > end; exit 0' TERM; trap 'echo QUIT > end; exit 0' QUIT; touch up; "
    "while :; do sleep 0.02; done";

TEST_F(SupervisorTest, AskedToEndItWaitsForADaemonThatKeepsWhatRuns) {
  begin(notes_its_signal);
  EXPECT_EQ(end_with(SIGTERM), 0);
  EXPECT_EQ(folder_.text("end"), "TERM\n");
  EXPECT_GT(std::atoi(folder_.text("waited").c_str()), 1);
}

TEST_F(SupervisorTest, AskedToLeaveItTellsTheDaemonSo) {
  begin(notes_its_signal);
  EXPECT_EQ(end_with(SIGQUIT), 0);
  EXPECT_EQ(folder_.text("end"), "QUIT\n");
}

TEST_F(SupervisorTest, KilledItLeavesWhatRunsAlone) {
  begin(notes_its_signal);
  EXPECT_TRUE(WIFSIGNALED(end_with(SIGKILL)));
  EXPECT_TRUE(until([this] { return folder_.text("end") == "QUIT\n"; }));
}

}  // namespace
}  // namespace space::cli
