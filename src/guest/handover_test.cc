#include "guest/handover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace space::guest {
namespace {

Handover sample() {
  Handover handover;
  handover.access_token = SecretText("t");
  handover.environment = {{"A", "\x01ü"}};
  handover.default_user = "u";
  handover.default_workdir = "/w";
  handover.path = "/bin";
  handover.frozen = true;
  handover.lease_ends_ms = {{"build", 5000}};
  handover.wake_at_ms = 77;
  ProcessRecord running{.pid = 12, .stdin_fd = 5, .stdout_fd = 6, .kill_at_ms = 9, .timed_out = true};
  running.request.process = {
      .command = "sh", .arguments = {"-c", "x"}, .environment = {{"B", "2"}}, .working_folder = "/"};
  running.request.terminal = TerminalSize{.columns = 80, .rows = 24};
  running.request.tag = "tag";
  running.request.stdin_open = false;
  running.exit = ExitStatus{.code = -1, .exited = false, .status = "signal: killed"};
  running.signalled = true;
  running.kept = {Bytes(3, std::byte{0xff}), Bytes()};
  running.tails[1] = Bytes(2, std::byte{0xc3});
  handover.running.push_back(running);
  EndedRecord ended{
      .pid = 13, .exit = {.code = 3, .exited = true, .status = "exit status 3"}, .until_ms = 11};
  ended.request.process.command = "true";
  handover.ended.push_back(ended);
  handover.left_outputs = {9};
  return handover;
}

TEST(Handover, ComesBackWhole) {
  const std::string text = handover_text(sample());
  const auto back = parse_handover(text);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(handover_text(*back), text);
  EXPECT_EQ(back->access_token.reveal(), "t");
  EXPECT_EQ(back->running[0].request.terminal->columns, 80);
  EXPECT_EQ(back->running[0].exit->status, "signal: killed");
  EXPECT_EQ(back->running[0].kept.size(), 2U);
  EXPECT_EQ(back->ended[0].exit.code, 3);
}

TEST(Handover, WhatCannotBeIsRefused) {
  const auto refused = [](auto change) {
    Handover handover = sample();
    change(handover);
    return !parse_handover(handover_text(handover));
  };
  EXPECT_FALSE(refused([](Handover&) {}));
  EXPECT_TRUE(refused([](Handover& h) { h.running[0].stderr_fd = 6; }));  // twice
  EXPECT_TRUE(refused([](Handover& h) { h.left_outputs[0] = 5; }));
  EXPECT_TRUE(refused([](Handover& h) { h.running[0].stdout_fd = 2; }));
  EXPECT_TRUE(refused([](Handover& h) { h.running[0].pid = 1; }));
  EXPECT_TRUE(refused([](Handover& h) { h.running.push_back(h.running[0]); }));
  EXPECT_TRUE(refused([](Handover& h) { h.lease_ends_ms["x"] = -1; }));
  std::string text = handover_text(sample());
  text.replace(text.find(R"("version":1)"), 11, R"("version":2)");
  EXPECT_FALSE(parse_handover(text));
  EXPECT_FALSE(parse_handover("{}"));
}

}  // namespace
}  // namespace space::guest
