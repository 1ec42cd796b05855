// What `space history` draws.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/history_tree.h"

namespace space::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

JsonObject object(std::string_view text) {
  return parse_json_object(text, "test").value();
}

// "13:MM:00", a cause and more members.
Json snapshot(int number, int parent, std::string_view kind, std::string_view cause, JsonObject more = {}) {
  more["number"] = number;
  more["parent"] = parent == 0 ? Json(nullptr) : Json(parent);
  more["kind"] = kind;
  more["cause"] = cause;
  more["createdAt"] = fmt::format("2026-11-30T13:{:02}:00Z", number);
  more["writtenBytes"] = 1536 * 1024;
  return more;
}

Json event(std::string_view kind, int minute, int number, std::string_view text,
           std::string_view other = "") {
  JsonObject event{{"at", fmt::format("2026-11-30T13:{:02}:30Z", minute)}, {"kind", kind}, {"text", text}};
  event["number"] = number == 0 ? Json(nullptr) : Json(number);
  event["sandboxID"] = other.empty() ? Json(nullptr) : Json(other);
  return event;
}

JsonObject history(int head, JsonArray snapshots, JsonArray events = {}) {
  return {{"head", head == 0 ? Json(nullptr) : Json(head)},
          {"origin", nullptr},
          {"snapshots", std::move(snapshots)},
          {"forks", JsonArray()},
          {"events", std::move(events)}};
}

std::vector<std::string> drawn(const JsonObject& history) {
  return history_lines("i1", history, Charset::unicode);
}

TEST(History, NothingYet) {
  EXPECT_THAT(drawn(history(0, {})), ElementsAre("i1", "└─ now"));
  EXPECT_THAT(drawn(object("{}")), ElementsAre("i1", "└─ now"));
}

TEST(History, AChainGoesDownToNow) {
  EXPECT_THAT(
      drawn(history(3, {snapshot(1, 0, "full", "asked", {{"name", "clean"}, {"pinned", true}}),
                        snapshot(2, 1, "disk", "schedule"),
                        snapshot(3, 2, "full", "pause", {{"quiesced", false}, {"published", true}})})),
      ElementsAre("i1",  //
                  "├─ 1  full  2026-11-30 13:01:00Z  asked  1.5 MiB  \"clean\"  pinned",
                  "├─ 2  disk  2026-11-30 13:02:00Z  schedule  1.5 MiB",
                  "├─ 3  full  2026-11-30 13:03:00Z  pause  1.5 MiB  published  guest did not answer",
                  "└─ now"));
}

// 1, 2, back to 1 (3 keeps what was), 4, and the undo: on from 3.
TEST(History, ARollbackLeavesABranchAndItsUndoAnother) {
  const JsonArray snapshots = {snapshot(1, 0, "full", "asked"), snapshot(2, 1, "full", "fork"),
                               snapshot(3, 2, "full", "before_rollback"), snapshot(4, 1, "full", "asked")};
  const JsonArray rolled = {event("fork", 2, 2, "", "i2"), event("rollback", 3, 1, "rolled back to 1")};
  EXPECT_THAT(drawn(history(4, snapshots, rolled)),
              ElementsAre("i1",  //
                          "├─ 1  full  2026-11-30 13:01:00Z  asked  1.5 MiB",
                          "│  ├─ branch",  //
                          "│  │  ├─ 2  full  2026-11-30 13:02:00Z  fork  1.5 MiB", "│  │  │  └─ fork i2",
                          "│  │  └─ 3  full  2026-11-30 13:03:00Z  before rollback  1.5 MiB",
                          "│  └─ 2026-11-30 13:03:30Z  rolled back to 1",
                          "├─ 4  full  2026-11-30 13:04:00Z  asked  1.5 MiB",  //
                          "└─ now"));
  JsonArray undone = rolled;
  undone.push_back(event("rollback", 5, 3, "undone"));
  EXPECT_THAT(drawn(history(3, snapshots, undone)),
              ElementsAre("i1",  //
                          "├─ 1  full  2026-11-30 13:01:00Z  asked  1.5 MiB",
                          "│  ├─ 2026-11-30 13:03:30Z  rolled back to 1",  //
                          "│  └─ branch", "│     └─ 4  full  2026-11-30 13:04:00Z  asked  1.5 MiB",
                          "├─ 2  full  2026-11-30 13:02:00Z  fork  1.5 MiB",  //
                          "│  └─ fork i2", "├─ 3  full  2026-11-30 13:03:00Z  before rollback  1.5 MiB",
                          "│  └─ 2026-11-30 13:05:30Z  undone",  //
                          "└─ now"));
}

TEST(History, InAsciiWhereTheTerminalHasNoMore) {
  EXPECT_THAT(history_lines("i1",
                            history(3, {snapshot(1, 0, "full", "asked", {{"name", "größe"}}),
                                        snapshot(2, 1, "disk", "asked"), snapshot(3, 1, "disk", "asked")}),
                            Charset::ascii),
              ElementsAre("i1",  //
                          "|-- 1  full  2026-11-30 13:01:00Z  asked  1.5 MiB  \"gr\\xc3\\xb6\\xc3\\x9fe\"",
                          "|   `-- branch",  //
                          "|       `-- 2  disk  2026-11-30 13:02:00Z  asked  1.5 MiB",
                          "|-- 3  disk  2026-11-30 13:03:00Z  asked  1.5 MiB",  //
                          "`-- now"));
}

TEST(History, WhatHappenedAtNoSnapshotIsWhereItsTimeIs) {
  EXPECT_THAT(
      drawn(history(2, {snapshot(1, 0, "full", "asked"), snapshot(2, 1, "full", "asked")},
                    {event("recovery", 1, 0, "from its live disk"), event("snapshot_removed", 1, 7, ""),
                     event("recovery", 9, 8, "from checkpoint 8")})),
      ElementsAre("i1",  //
                  "├─ 1  full  2026-11-30 13:01:00Z  asked  1.5 MiB",
                  "├─ 2026-11-30 13:01:30Z  from its live disk",
                  "├─ 2  full  2026-11-30 13:02:00Z  asked  1.5 MiB",
                  "├─ 2026-11-30 13:09:30Z  from checkpoint 8",  //
                  "├─ 1 snapshot removed",                       //
                  "└─ now"));
}

TEST(History, OriginAndForksWithoutAnEvent) {
  JsonObject told = history(1, {snapshot(1, 0, "full", "fork")}, {event("fork", 1, 1, "", "i2")});
  told["origin"] = JsonObject{{"sandboxID", "i0"}, {"number", 4}};
  told["forks"] = JsonArray{JsonObject{{"sandboxID", "i2"}, {"number", 1}},
                            JsonObject{{"sandboxID", "i3"}, {"number", 1}}};
  EXPECT_THAT(drawn(told), ElementsAre("i1  began as snapshot 4 of i0",  //
                                       "├─ 1  full  2026-11-30 13:01:00Z  fork  1.5 MiB",
                                       "│  ├─ fork i2",  //
                                       "│  └─ fork i3",  //
                                       "└─ now"));
}

TEST(History, BranchesWhoseBeginningIsGone) {
  EXPECT_THAT(drawn(history(2, {snapshot(1, 0, "disk", "asked"), snapshot(2, 9, "disk", "asked")})),
              ElementsAre("i1",  //
                          "├─ branch", "│  └─ 1  disk  2026-11-30 13:01:00Z  asked  1.5 MiB",
                          "├─ 2  disk  2026-11-30 13:02:00Z  asked  1.5 MiB",  //
                          "└─ now"));
}

TEST(History, NothingInItSteersTheTerminalAndNothingSentHangsIt) {
  const std::string escape = "\x1b[2J";
  JsonObject hostile = history(
      2,
      {snapshot(1, 2, escape, escape, {{"name", escape + "\xe2\x80\xae"}}), snapshot(2, 1, "full", "asked")},
      {event("rollback", 1, 1, escape), event("fork", 1, 1, "", escape), 7});
  hostile["origin"] = JsonObject{{"sandboxID", escape}};
  hostile["forks"] = JsonArray{7, JsonObject{{"sandboxID", escape + "x"}}};
  const auto lines = drawn(hostile);
  EXPECT_GT(lines.size(), 5U);
  for (const std::string& line : lines) {
    EXPECT_THAT(line, Not(HasSubstr("\x1b")));
    EXPECT_THAT(line, Not(HasSubstr("\xe2\x80\xae")));  // would turn the text around
  }
  EXPECT_THAT(fmt::format("{}", fmt::join(lines, "\n")), HasSubstr("\\x1b[2J"));
  for (const char* wrong : {R"({"snapshots":7,"events":{},"forks":"x","head":"y"})",
                            R"({"snapshots":[7,{}]})", R"({"head":1,"snapshots":[{"number":1,"parent":1}]})"})
    EXPECT_EQ(drawn(object(wrong)).back(), "└─ now") << wrong;
}

TEST(History, BranchesOfBranchesEnd) {
  JsonArray snapshots;  // each odd one is a branch of the one before, which goes on
  int parent = 0;
  for (int i = 1; i < 400; i += 2) {
    snapshots.push_back(snapshot(i, parent, "disk", "asked"));
    parent = i;
  }
  for (int i = 2; i < 400; i += 2) snapshots.push_back(snapshot(1000 - i, i - 1, "disk", "asked"));
  const auto lines = drawn(history(0, std::move(snapshots)));
  EXPECT_THAT(fmt::format("{}", fmt::join(lines, "\n")), HasSubstr("..."));
}

TEST(Charset, TheFirstVariableThatSaysSomethingDecides) {
  EXPECT_EQ(charset_of(nullptr, nullptr, "en_US.UTF-8"), Charset::unicode);
  EXPECT_EQ(charset_of("", "C.utf8", "C"), Charset::unicode);
  EXPECT_EQ(charset_of("C", "en_US.UTF-8", "en_US.UTF-8"), Charset::ascii);
  EXPECT_EQ(charset_of(nullptr, nullptr, nullptr), Charset::ascii);
}

}  // namespace
}  // namespace space::cli
