// What `space logs` and `space top` print of what the API sent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/isolation_command.h"
#include "cli/logs_command.h"
#include "cli/top_command.h"

namespace space::cli {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

JsonObject object(std::string_view text) {
  return parse_json_object(text, "test").value();
}

TEST(Logs, ALineHasTimeLevelMessageAndFields) {
  EXPECT_EQ(log_line(object(
                R"({"timestamp":"2026-01-31T12:00:00.123456Z","level":"warn",)"
                R"("message":"sandbox stands still","fields":{"reason":"the guest does not answer"}})")),
            "2026-01-31T12:00:00.123Z  warn   sandbox stands still  reason=the guest does not answer");
  EXPECT_EQ(log_line(object(R"({"timestamp":"2026-01-31T12:00:00.123456Z","level":"info",)"
                            R"("message":"[    0.1] Linux","fields":{"source":"console"}})")),
            "2026-01-31T12:00:00.123Z         | [    0.1] Linux");
}

TEST(Logs, NothingOfAGuestSteersTheTerminal) {
  for (const char* hostile :
       {R"({"message":"\u001b[2J","fields":{}})", R"({"timestamp":"\u001b","message":"a"})",
        R"({"level":"\u001b","message":"a"})", R"({"message":"a","fields":{"\u001b":"\u001b"}})", "{}",
        R"({"message":7,"fields":[]})"})
    EXPECT_THAT(log_line(object(hostile)), Not(HasSubstr("\x1b"))) << hostile;
}

TEST(Logs, SinceIsAnAgeOrATime) {
  constexpr Wall now{1'700'000'000s};
  EXPECT_EQ(since_ms("90s", now), 1'699'999'910'000);
  EXPECT_EQ(since_ms("10m", now), 1'699'999'400'000);
  EXPECT_EQ(since_ms("2h", now), 1'699'992'800'000);
  EXPECT_EQ(since_ms("1d", now), 1'699'913'600'000);
  EXPECT_EQ(since_ms("1000000d", now), 0);
  EXPECT_EQ(since_ms("2023-11-14T22:13:20Z", now), 1'700'000'000'000);
  for (const char* wrong : {"", "5", "m", "-5m", "5w", "yesterday", "99999999999999999999s", "5 m"})
    EXPECT_FALSE(since_ms(wrong, now)) << wrong;
}

TEST(Isolation, TheSummaryThenALineALayer) {
  const std::string layers =
      R"("layers":[{"name":"user namespace","state":"unavailable","detail":"not allowed here"},)"
      R"({"name":"seccomp","state":"active","detail":"2 filters"},{"name":"landlock","state":"off","detail":""}]})";
  const std::vector<std::string> expected = {"n/a  user namespace  not allowed here",
                                             "ok   seccomp         2 filters", "OFF  landlock"};
  auto lines = isolation_lines(
      object(R"json({"summary":"hardware isolation: yes (KVM)","hardwareIsolation":true,)json" + layers));
  EXPECT_EQ(lines.front(), "hardware isolation: yes (KVM)");
  lines.erase(lines.begin());
  EXPECT_EQ(lines, expected);

  lines = isolation_lines(
      object(R"json({"summary":"hardware isolation: NO (TCG)","hardwareIsolation":false,)json" + layers));
  EXPECT_EQ(lines.front(), "hardware isolation: NO (TCG)");
  EXPECT_EQ(lines.size(), expected.size() + 2);
  EXPECT_THAT(lines.back(), HasSubstr("the jail is the only wall"));
}

TEST(Isolation, AnOpenLayerIsAnError) {
  const auto open = [](const std::string& layers) {
    return has_open_layer(object(R"({"layers":)" + layers + "}"));
  };
  EXPECT_FALSE(open(R"([{"name":"a","state":"active"},{"name":"b","state":"unavailable"}])"));
  EXPECT_TRUE(open(R"([{"name":"a","state":"active"},{"name":"b","state":"off"}])"));
  EXPECT_TRUE(open(R"([{"name":"a","state":"whatever"}])"));
  EXPECT_TRUE(open("[7]"));
  EXPECT_TRUE(open("[]"));
  EXPECT_TRUE(has_open_layer(object("{}")));
}

TEST(Isolation, NothingOfAReportSteersTheTerminal) {
  for (const char* hostile :
       {R"({"summary":"\u001b[2J","layers":[{"name":"\u001b","state":"\u001b","detail":"\u001b"}]})", "{}",
        R"({"summary":7,"layers":7})"})
    for (const std::string& line : isolation_lines(object(hostile)))
      EXPECT_THAT(line, Not(HasSubstr("\x1b"))) << hostile;
}

TEST(Isolation, WhatANodeWithoutHardwareIsolationMeans) {
  EXPECT_EQ(wall_notice(object(R"({"accelerator":"kvm","accelerator_decided":true})")), "");
  EXPECT_THAT(wall_notice(object(R"({"accelerator":"tcg","accelerator_decided":true})")),
              HasSubstr("(TCG): the jail is the only wall"));
  for (const char* undecided : {R"({"accelerator":"tcg","accelerator_decided":false})", "{}"})
    EXPECT_THAT(wall_notice(object(undecided)), HasSubstr("is tried with the first template")) << undecided;
}

TEST(Top, TheMostComesFirstAndWhatIsUnknownLast) {
  const Json sandboxes =
      parse_json(R"([{"sandboxID":"quiet","stats":null,"activity":{"idleSeconds":300,"reasons":[]}},)"
                 R"({"sandboxID":"big","stats":{"cpuUsedPct":1.0,"memUsed":900,"memTotal":1000}},)"
                 R"({"sandboxID":"busy","alias":"base","stats":{"cpuUsedPct":99.94,"memUsed":10,)"
                 R"("memTotal":1000,"tasks":7},"activity":{"reasons":["stream","cpu"],"streams":2}},)"
                 R"(7])")
          .value();
  const auto ids = [](const std::vector<Row>& rows) {
    std::vector<std::string> result;
    for (const Row& row : rows) result.push_back(row[0]);
    return result;
  };
  const auto by_cpu = top_rows(sandboxes.get_array(), "cpu");
  EXPECT_THAT(ids(by_cpu), testing::ElementsAre("busy", "big", "quiet"));
  EXPECT_THAT(ids(top_rows(sandboxes.get_array(), "mem")), testing::ElementsAre("big", "busy", "quiet"));
  EXPECT_EQ(by_cpu[0][1], "base");
  EXPECT_EQ(by_cpu[0][2], "99.9");
  EXPECT_EQ(by_cpu[0][5], "7");
  EXPECT_EQ(by_cpu[0][7], "stream,cpu");
  EXPECT_EQ(by_cpu[2][2], "-");
  EXPECT_EQ(by_cpu[2][3], "-");
  EXPECT_EQ(by_cpu[2][7], "idle 5m");
}

TEST(Top, TheTableIsAlignedAndPrintable) {
  const auto lines = table_lines({"A", "B"}, {{"long cell", "\x1b[2J"}, {"x", "y"}});
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].find('B'), lines[2].find('y'));
  EXPECT_THAT(lines[1], Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace space::cli
