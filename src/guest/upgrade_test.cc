// The daemon replaced in place: the built program as a plain process with children, its channel on a unix
// socket.
#include "guest/upgrade.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "net/channel.h"
#include "net/connect.h"
#include "net/h2_session.h"
#include "net/test_loop.h"

namespace space::guest {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t piece_bytes = 500'000;

std::string content(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class UpgradeTest : public LoopTest {
 protected:
  void SetUp() override {
    ASSERT_LE(fs::file_size(SPACE_DAEMON_PROGRAM), program_bytes_max);
    char path[] = "/tmp/space-guest-XXXXXX";
    folder_ = ::mkdtemp(path);
  }
  ~UpgradeTest() override {
    if (daemon_ > 0) {
      ::kill(daemon_, SIGKILL);
      ::waitpid(daemon_, nullptr, 0);
    }
    for (const int pid : programs_) ::kill(pid, SIGKILL);
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  std::string socket() const { return folder_ / "channel"; }
  // `keep` stays open in the daemon.
  void start_daemon(std::vector<std::string> more = {}, std::vector<int> keep = {}) {
    const passwd* me = ::getpwuid(::geteuid());
    std::vector<std::string> arguments{"space-daemon", "--channel", socket(), "--default-user", me->pw_name};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    daemon_ = ::fork();
    if (daemon_ != 0) return;
    for (const int fd : keep) ::fcntl(fd, F_SETFD, 0);
    ::execv(SPACE_DAEMON_PROGRAM, pointers.data());
    ::_exit(127);
  }
  // Also again, after the daemon hung up.
  Task<void> attach() {
    for (int i = 0; i < 2000; ++i) {
      auto wire = co_await connect_unix(socket(), soon());
      if (wire) {
        auto stream =
            co_await channel::attach(*std::move(wire), channel::Sync{}, Deadline::after(Millis(2000)));
        if (stream) {
          session_ = H2Session::client(*std::move(stream));
          spawn(executor(), "host",
                [](std::shared_ptr<H2Session> s) -> Task<void> { (void)co_await s->run(); }(session_));
          co_return;
        }
      }
      co_await sleep_for(Millis(5));
    }
    ADD_FAILURE() << "the daemon does not answer";
  }
  Task<CallResponse> ask(std::string name, JsonObject message) {
    const auto answer = co_await session_->call({"POST", "/control/" + name, to_text(message)}, soon());
    EXPECT_TRUE(answer) << answer.error().message;
    co_return answer.value_or(CallResponse{.status = -1, .body = ""});
  }
  // The status of the last piece.
  Task<int> send_program(std::string program, std::string digest) {
    for (std::size_t at = 0; at < program.size(); at += piece_bytes) {
      const JsonObject piece{
          {"sha256", digest},
          {"size", program.size()},
          {"offset", at},
          {"data", to_base64(as_bytes(std::string_view(program).substr(at, piece_bytes)))}};
      const auto answer = co_await ask("upgrade", piece);
      if (answer.status != 200 || at + piece_bytes >= program.size()) co_return answer.status;
      EXPECT_EQ((co_await ask("upgrade", piece)).body, answer.body);  // as often as you like
    }
    co_return 0;
  }
  Task<void> upgrade() {
    const auto program = content(SPACE_DAEMON_PROGRAM);
    EXPECT_EQ(co_await send_program(program, sha256_hex(program)), 200);
    for (int i = 0; i < 10'000 && !session_->closed(); ++i) co_await sleep_for(Millis(1));
    EXPECT_TRUE(session_->closed());
    co_await attach();
  }
  // The whole body of an answer of the HTTP API; with `until`, what came until it is in it.
  Task<std::string> http(std::string method, std::string body, std::string until = "", bool streams = false) {
    auto stream = co_await session_->connect("localhost:49983", soon());
    if (!stream) co_return "no tunnel";
    if (streams) body = std::string(as_text(connect::envelope(0, body)));
    const std::string request = fmt::format(
        "POST /process.Process/{} HTTP/1.1\r\nHost: x\r\nX-Access-Token: secret\r\nConnection: close\r\n"
        "Content-Length: {}\r\n\r\n{}",
        method, body.size(), body);
    EXPECT_TRUE(co_await (*stream)->write(as_bytes(request)));
    std::string answer;
    std::array<std::byte, 4096> buffer;
    while (until.empty() || !answer.contains(until)) {
      const auto count = co_await with_deadline((*stream)->read(buffer), soon(), "the answer");
      if (!count || *count == 0) break;
      answer += as_text(std::span(buffer).first(*count));
    }
    co_return answer;
  }
  // A program whose stream is left at once; its pid.
  Task<int> start(std::string script, std::string more, bool terminal = false) {
    const std::string request =
        fmt::format(R"({{"process":{{"cmd":"/bin/sh","args":["-c","{}"]}},{}{}}})", script,
                    terminal ? R"("pty":{"size":{"cols":80,"rows":24}},)" : "", more);
    const std::string answer = co_await http("Start", request, R"("pid":)", true);
    const std::size_t at = answer.find(R"("pid":)");
    EXPECT_NE(at, std::string::npos) << answer;
    const int pid = at == std::string::npos ? 0 : std::stoi(answer.substr(at + 6));
    if (pid > 0) programs_.push_back(pid);
    co_return pid;
  }
  std::size_t open_descriptors() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(fmt::format("/proc/{}/fd", daemon_)), fs::directory_iterator()));
  }

  fs::path folder_;
  pid_t daemon_ = -1;
  std::vector<int> programs_;
  std::shared_ptr<H2Session> session_;
};

TEST_F(UpgradeTest, ProgramsAndSettingsGoOnUnderANewDaemon) {
  start_daemon();
  run([&]() -> Task<void> {
    co_await attach();
    co_await ask("init", {{"access_token", "secret"}, {"env", JsonObject{{"KEPT", "yes"}}}});
    const std::string said = folder_ / "said";
    const int reader = co_await start("read x; echo got $x; exit 7", R"("tag":"reader","stdin":true)");
    const int terminal = co_await start("stty -echo; echo on-screen; read x", R"("tag":"screen")", true);
    const int doomed = co_await start("sleep 0.3; exit 5", R"("tag":"doomed","stdin":false)");
    // Ends, and leaves something that holds its outputs and writes more than they hold.
    co_await http(
        "Start",
        fmt::format(
            R"({{"process":{{"cmd":"/bin/sh","args":["-c","(sleep 1; head -c 300000 /dev/zero; : > {}) & :"]}},"tag":"left","stdin":false}})",
            said),
        "", true);
    const std::string exe = fmt::format("/proc/{}/exe", daemon_);
    EXPECT_THAT(fs::read_symlink(exe).string(), Not(HasSubstr("memfd")));
    for (int i = 0; i < 2000 && !fs::exists(fmt::format("/proc/{}", terminal)); ++i)
      co_await sleep_for(Millis(1));
    co_await sleep_for(Millis(100));

    co_await upgrade();
    EXPECT_THAT(fs::read_symlink(exe).string(), HasSubstr("memfd:space-daemon"));
    EXPECT_EQ(::waitpid(daemon_, nullptr, WNOHANG), 0);
    const std::string list = co_await http("List", "{}");
    EXPECT_THAT(list, HasSubstr(fmt::format(R"("pid":{},"tag":"reader")", reader)));
    EXPECT_THAT(list, HasSubstr(R"("tag":"screen")"));
    EXPECT_THAT(list, Not(HasSubstr(R"("tag":"left")")));
    EXPECT_THAT(co_await http("Connect", R"({"process":{"tag":"left"}})", "", true),
                HasSubstr("exit status 0"));
    EXPECT_THAT(co_await http("Connect", R"({"process":{"tag":"screen"}})", "data", true),
                HasSubstr(to_base64(as_bytes("on-screen\r\n"))));
    EXPECT_THAT(co_await http("Connect", fmt::format(R"({{"process":{{"pid":{}}}}})", doomed), "", true),
                HasSubstr("exit status 5"));

    // Its input, its output and its end are still ours.
    EXPECT_THAT(co_await http("SendInput", R"({"process":{"tag":"reader"},"input":{"stdin":"aGkK"}})"),
                HasSubstr("200"));
    EXPECT_THAT(co_await http("Connect", R"({"process":{"tag":"reader"}})", "", true),
                HasSubstr("exit status 7"));
    const std::string fresh = co_await http(
        "Start", R"({"process":{"cmd":"/bin/sh","args":["-c","echo $KEPT"]},"stdin":false})", "", true);
    EXPECT_THAT(fresh, HasSubstr(to_base64(as_bytes("yes\n"))));
    for (int i = 0; i < 10'000 && !fs::exists(said); ++i) co_await sleep_for(Millis(1));
    EXPECT_TRUE(fs::exists(said));
  });
}

TEST_F(UpgradeTest, NothingIsLeftOpenByOneUpgradeAfterTheOther) {
  start_daemon();
  run([&]() -> Task<void> {
    co_await attach();
    co_await ask("init", {{"access_token", "secret"}});
    co_await start("exec sleep 600", R"("tag":"sleeper","stdin":true)");
    co_await upgrade();
    const std::size_t open = open_descriptors();
    for (int i = 0; i < 3; ++i) co_await upgrade();
    // Of connections that end, some are still being closed.
    for (int i = 0; i < 2000 && open_descriptors() > open; ++i) co_await sleep_for(Millis(1));
    EXPECT_LE(open_descriptors(), open);
    EXPECT_THAT(co_await http("List", "{}"), HasSubstr("sleeper"));
    EXPECT_THAT(co_await http("SendSignal", R"({"process":{"tag":"sleeper"},"signal":"SIGNAL_SIGKILL"})"),
                HasSubstr("200"));
    EXPECT_THAT(co_await http("Connect", R"({"process":{"tag":"sleeper"}})", "", true),
                HasSubstr("signal: killed"));
  });
}

TEST_F(UpgradeTest, AProgramThatIsNoneChangesNothing) {
  start_daemon();
  run([&]() -> Task<void> {
    co_await attach();
    const std::string text = "#!/no/such/interpreter\n";
    EXPECT_EQ(co_await send_program(text, sha256_hex(text)), 400);
    EXPECT_EQ(co_await send_program(text, std::string(64, '0')), 400);
    EXPECT_EQ(
        (co_await ask("upgrade",
                      {{"sha256", std::string(64, '0')}, {"size", 10}, {"offset", 5}, {"data", "AAAA"}}))
            .status,
        409);
    EXPECT_EQ((co_await ask("upgrade",
                            {{"sha256", std::string(64, '0')}, {"size", 1}, {"offset", 0}, {"data", "AAAA"}}))
                  .status,
              400);
    EXPECT_EQ(
        (co_await ask("upgrade",
                      {{"sha256", std::string(64, '0')}, {"size", 1 << 25}, {"offset", 0}, {"data", ""}}))
            .status,
        400);
    EXPECT_EQ((co_await ask("ping", {})).status, 200);
    EXPECT_THAT(fs::read_symlink(fmt::format("/proc/{}/exe", daemon_)).string(), Not(HasSubstr("memfd")));
  });
}

#ifdef NDEBUG  // of the release only
// It is in every guest's memory, and every upgrade sends it.
TEST_F(UpgradeTest, TheDaemonIsSmall) {
  EXPECT_LE(fs::file_size(SPACE_DAEMON_PROGRAM), 4U << 20);
}
#endif

// A newer or broken daemon's: what runs goes on, unknown, and none of it stands still or is ended.
TEST_F(UpgradeTest, AHandoverThatIsNotUnderstoodHarmsNoProgram) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  Fd reader(ends[0]), writer(ends[1]);
  const int handover = ::memfd_create("handover", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  const std::string text = R"({"version":1000000})";
  ASSERT_EQ(::write(handover, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  start_daemon({"--resume", std::to_string(handover)}, {handover, reader.get()});
  reader.reset();
  ::close(handover);
  run([&]() -> Task<void> {
    co_await attach();
    EXPECT_EQ((co_await ask("ping", {})).status, 200);
    const auto written =
        co_await run_blocking([fd = writer.get()] { return write_all(fd, Bytes(1'000'000)); });
    EXPECT_TRUE(written) << "nobody reads it, or it is closed: " << written.error().message;
    EXPECT_EQ(::waitpid(daemon_, nullptr, WNOHANG), 0);
  });
}

}  // namespace
}  // namespace space::guest
