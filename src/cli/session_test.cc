// A terminal joined to a program over connections that break, against a sandbox in memory.
#include "cli/session.h"

#include <fcntl.h>
#include <unistd.h>

#include "cli/fake_sandbox.h"
#include "cli/output.h"
#include "cli/port_forward.h"
#include "cli/process_client.h"
#include "cli/sandbox_lookup.h"
#include "cli/terminal.h"
#include "net/test_loop.h"

namespace space::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Standard input is a pipe of the test's, standard output a file.
class SessionTest : public LoopTest {
 protected:
  SessionTest() : sandbox(executor()) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    saved_ = Fd(::dup(STDIN_FILENO));
    ::dup2(ends[0], STDIN_FILENO);
    ::close(ends[0]);
    keyboard.reset(ends[1]);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
  }
  ~SessionTest() override { ::dup2(saved_.get(), STDIN_FILENO); }

  void type(std::string_view text) {
    ASSERT_EQ(::write(keyboard.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  // Lets the session and the sandbox go on until `happened`.
  template <class F>
  static Task<void> until(F happened) {
    for (int i = 0; i < 4000 && !happened(); ++i) co_await sleep_for(Millis(5));
    EXPECT_TRUE(happened());
  }
  // A shell, driven by `test` meanwhile.
  template <class F>
  Result<int> shell(F test) {
    const ApiClient api = sandbox.client();
    Result<int> code;
    run([&]() -> Task<void> {
      ProgramSpec spec{.argv = {"bash"}, .tag = "shell-1", .terminal = true};
      bool done = false;
      spawn(executor(), "driver", drive(test, &done));
      code = co_await run_program(api, *co_await api.connect_sandbox(FakeSandbox::id), spec);
      co_await until([&] { return done; });
    });
    out = testing::internal::GetCapturedStdout();
    err = testing::internal::GetCapturedStderr();
    return code;
  }

  FakeSandbox sandbox;
  Fd keyboard;
  std::string out, err;

 private:
  template <class F>
  static Task<void> drive(F& test, bool* done) {
    co_await test();
    *done = true;
  }
  Fd saved_;
};

TEST_F(SessionTest, OutputInputAndExitCode) {
  const auto code = shell([this]() -> Task<void> {
    co_await until([this] { return sandbox.open_streams() == 1; });
    type("echo hi\n");
    co_await until([this] { return sandbox.input == "echo hi\n"; });
    sandbox.print("hi\r\n");
    sandbox.end_program(3);
  });
  EXPECT_EQ(code, 3);
  EXPECT_EQ(out, "hi\r\n");
  EXPECT_EQ(err, "");
}

TEST_F(SessionTest, ALostConnectionIsMadeAgainAndSaysSo) {
  const auto code = shell([this]() -> Task<void> {
    co_await until([this] { return sandbox.open_streams() == 1; });
    sandbox.print("before ");
    co_await sleep_for(Millis(20));
    sandbox.refuse_streams = true;
    sandbox.cut_streams();
    co_await sleep_for(Millis(500));
    type("typed while away\n");
    co_await sleep_for(Millis(50));
    EXPECT_EQ(sandbox.input, "");  // nobody would see its echo
    sandbox.refuse_streams = false;
    co_await until([this] { return sandbox.input == "typed while away\n"; });
    sandbox.print("after");
    sandbox.end_program(0);
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(out, "before after");
  EXPECT_EQ(sandbox.connects, 1);
  EXPECT_EQ(sandbox.resizes, 2);  // so that the program draws its screen again
  EXPECT_THAT(err, HasSubstr("connection lost"));
  EXPECT_THAT(err, HasSubstr("connected again"));
}

// Whether it arrived cannot be known: it is not sent twice, and not dropped in silence.
TEST_F(SessionTest, DoubtfulInputIsNotRepeated) {
  const auto code = shell([this]() -> Task<void> {
    co_await until([this] { return sandbox.open_streams() == 1; });
    sandbox.lose_input_answer = true;
    type("once");
    co_await until([this] { return sandbox.input == "once"; });
    co_await sleep_for(Millis(300));
    type(" more");
    co_await until([this] { return sandbox.input == "once more"; });
    sandbox.end_program(0);
  });
  EXPECT_EQ(code, 0);
  EXPECT_THAT(err, HasSubstr("the last 4 bytes of input may not have arrived"));
}

TEST_F(SessionTest, AKilledSandboxEndsTheShell) {
  const auto code = shell([this]() -> Task<void> {
    co_await until([this] { return sandbox.open_streams() == 1; });
    sandbox.gone = true;
    sandbox.cut_streams();
  });
  ASSERT_FALSE(code);
  EXPECT_THAT(code.error().message, HasSubstr("it was killed"));
}

// Whoever paused it does not want it back because a terminal is open.
TEST_F(SessionTest, APausedSandboxEndsTheShellAndIsNotBroughtBack) {
  const auto code = shell([this]() -> Task<void> {
    co_await until([this] { return sandbox.open_streams() == 1; });
    sandbox.paused = true;
    sandbox.cut_streams();
  });
  ASSERT_FALSE(code);
  EXPECT_THAT(code.error().message, HasSubstr("was paused; 'space attach"));
  EXPECT_TRUE(sandbox.paused);
}

TEST_F(SessionTest, TheEndOfPipedInputReachesTheProgram) {
  const auto code = shell([this]() -> Task<void> {
    type("exit\n");
    keyboard.reset();
    co_await until([this] { return sandbox.input == "exit\n\x04"; });
    sandbox.end_program(0);
  });
  EXPECT_EQ(code, 0);
}

TEST(DetachKeys, TheyAreTakenOutAndNothingElse) {
  DetachKeys keys;
  EXPECT_EQ(keys.filter("ls\r"), "ls\r");
  EXPECT_EQ(keys.filter("\x10"), "");    // held back
  EXPECT_EQ(keys.filter("x"), "\x10x");  // it was for the program
  EXPECT_EQ(keys.filter("\x10\x10\x10"), "\x10\x10");
  EXPECT_FALSE(keys.detached());
  EXPECT_EQ(keys.filter("\x11 too late"), "");  // after the one held back
  EXPECT_TRUE(keys.detached());
  EXPECT_EQ(keys.filter("x"), "");
  DetachKeys other;
  EXPECT_EQ(other.filter("\x11 alone, a\x10 b"), "\x11 alone, a\x10 b");
  EXPECT_FALSE(other.detached());
}

TEST(Selector, DigitsAreAPid) {
  EXPECT_EQ(parse_selector("17")->pid, 17U);
  EXPECT_EQ(parse_selector("web")->tag, "web");
  EXPECT_EQ(parse_selector("17web")->tag, "17web");
  for (const char* wrong : {"", "0", "99999999999999"}) EXPECT_FALSE(parse_selector(wrong)) << wrong;
}

TEST(Forward, Ports) {
  EXPECT_EQ(parse_forward("8000")->local, 8000);
  EXPECT_EQ(parse_forward("9000:8000")->local, 9000);
  EXPECT_EQ(parse_forward("0:8000")->local, 0);
  for (const char* wrong : {"", "0", "8000:0", "a", "1:2:3", "70000", ":80", "80:"})
    EXPECT_FALSE(parse_forward(wrong)) << wrong;
}

TEST(Output, AGuestDoesNotRuleTheTerminal) {
  EXPECT_EQ(printable("a\x1b[31mb\n\x7f"), "a\\x1b[31mb\\x0a\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m \xc3\xa9"),
            "\\x9b31m \xc3\xa9");
}

TEST(Lookup, ABeginningThatNoOtherHas) {
  const std::vector<std::string> ids{"iaaaa00000000000000x", "iaabb00000000000000x", "ibbbb00000000000000x"};
  EXPECT_EQ(choose_sandbox("iaaa", ids), ids[0]);
  EXPECT_EQ(choose_sandbox(ids[1], ids), ids[1]);
  EXPECT_THAT(choose_sandbox("iaa", ids).error().message, HasSubstr(ids[0] + ", " + ids[1]));
  EXPECT_THAT(choose_sandbox("ibbcb", ids).error().message, HasSubstr("did you mean " + ids[2]));
  EXPECT_THAT(choose_sandbox("zzzz", ids).error().message, HasSubstr("space ls"));
  EXPECT_THAT(choose_sandbox("", ids).error().message, HasSubstr("did you mean"));
}

}  // namespace
}  // namespace space::cli
