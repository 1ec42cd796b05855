#include "guest/process_messages.h"

#include <gtest/gtest.h>

namespace space::guest {
namespace {

JsonObject object(std::string_view text) {
  return parse_json_object(text, "test").value();
}

TEST(ProcessMessages, StartHasDefaults) {
  const auto start = parse_start(object(R"({"process":{"cmd":"/bin/true"},"unknown":1})")).value();
  EXPECT_EQ(start.process.command, "/bin/true");
  EXPECT_TRUE(start.stdin_open);
  EXPECT_FALSE(start.terminal);
  EXPECT_FALSE(start.tag);
}

TEST(ProcessMessages, StartTakesEverything) {
  const auto start =
      parse_start(object(R"({"process":{"cmd":"sh","args":["-c","x"],"envs":{"A":"1"},"cwd":"/tmp"},
      "pty":{"size":{"cols":80,"rows":24}},"tag":"t","stdin":false})"))
          .value();
  EXPECT_EQ(start.process.arguments, (std::vector<std::string>{"-c", "x"}));
  EXPECT_EQ(start.process.environment, (Environment{{"A", "1"}}));
  EXPECT_EQ(start.process.working_folder, "/tmp");
  EXPECT_EQ(start.terminal->columns, 80);
  EXPECT_EQ(start.tag, "t");
  EXPECT_FALSE(start.stdin_open);
}

TEST(ProcessMessages, WrongTypesAreNamed) {
  for (const char* text :
       {"{}", R"({"process":1})", R"({"process":{"cmd":""}})", R"({"process":{"cmd":"a","args":[1]}})",
        R"({"process":{"cmd":"a\u0000b"}})", R"({"process":{"cmd":"a","envs":{"A":1}}})",
        R"({"process":{"cmd":"a"},"pty":{"size":{"cols":70000}}})", R"({"process":{"cmd":"a"},"stdin":1})"})
    EXPECT_EQ(parse_start(object(text)).error().code, Code::invalid_argument) << text;
}

TEST(ProcessMessages, SelectorInputAndSignal) {
  EXPECT_EQ(parse_selector(object(R"({"process":{"pid":7}})"))->pid, 7U);
  EXPECT_EQ(parse_selector(object(R"({"process":{"tag":"t"}})"))->tag, "t");
  EXPECT_FALSE(parse_selector(object(R"({"process":{}})")));
  EXPECT_EQ(as_text(parse_input(object(R"({"input":{"stdin":"aGk="}})"))->bytes), "hi");
  EXPECT_TRUE(parse_input(object(R"({"input":{"pty":"-_8"}})"))->terminal);  // the URL alphabet, unpadded
  EXPECT_FALSE(parse_input(object(R"({"input":{"stdin":"!"}})")));
  EXPECT_EQ(parse_signal(object(R"({"signal":9})")), "SIGNAL_SIGKILL");
  EXPECT_EQ(parse_signal(object(R"({"signal":"SIGNAL_SIGTERM"})")), "SIGNAL_SIGTERM");
  const auto message = parse_stream_input(object(R"({"data":{"input":{"stdin":"aGk="}}})"));
  EXPECT_TRUE(message->data && !message->start);
  EXPECT_FALSE(parse_stream_input(object(R"({"keepalive":{}})"))->data);
}

TEST(ProcessMessages, EventsAsTheClientsExpectThem) {
  EXPECT_EQ(start_event(36), R"({"event":{"start":{"pid":36}}})");
  EXPECT_EQ(data_event(Output::error, as_bytes("hi")), R"({"event":{"data":{"stderr":"aGk="}}})");
  EXPECT_EQ(
      end_event(describe_wait_status(3 << 8)),
      R"({"event":{"end":{"exitCode":3,"exited":true,"status":"exit status 3","error":"exit status 3"}}})");
  EXPECT_EQ(end_event(describe_wait_status(0)),
            R"({"event":{"end":{"exitCode":0,"exited":true,"status":"exit status 0"}}})");
  EXPECT_EQ(
      end_event(describe_wait_status(9)),
      R"({"event":{"end":{"exitCode":-1,"exited":false,"status":"signal: killed","error":"signal: killed"}}})");
  EXPECT_EQ(describe_wait_status(11 | 0x80).status, "signal: segmentation fault (core dumped)");
  EXPECT_EQ(describe_wait_status(34).status, "signal: signal 34");
}

}  // namespace
}  // namespace space::guest
