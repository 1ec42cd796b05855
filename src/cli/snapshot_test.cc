// Snapshots on the command line: what reaches the API, what is said about its answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <fstream>
#include <thread>

#include "cli/commands.h"
#include "cli/fake_sandbox.h"
#include "cli/output.h"
#include "cli/schedule_text.h"

namespace space::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Said {
  int code = 0;
  std::string out, error;
};

// The fake has a thread of its own, as the commands block. What it holds is looked at before and after `run`.
class SnapshotCommandTest : public testing::Test {
 protected:
  SnapshotCommandTest() : fake(loop_.get_executor()) {
    common.api_url = fmt::format("http://127.0.0.1:{}", fake.client().settings().port);
    common.api_key = "key";
  }

  template <class Options>
  Said run(int (*command)(const CommonOptions&, const Options&), const Options& options) {
    fake.asked.clear();
    loop_.restart();
    std::thread served([this] { loop_.run(); });
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Said said;
    said.code = command(common, options);
    said.out = testing::internal::GetCapturedStdout();
    said.error = testing::internal::GetCapturedStderr();
    loop_.stop();
    served.join();
    return said;
  }
  void answer(const std::string& call, int status, std::string_view body) {
    fake.answers[call] = {status, parse_json(body).value()};
  }

  static inline const std::string id = FakeSandbox::id;
  static inline const std::string base = "/v1/sandboxes/" + id;

 private:
  boost::asio::io_context loop_;

 protected:
  FakeSandbox fake;
  CommonOptions common;
};

TEST_F(SnapshotCommandTest, ForkPrintsIdsAndSaysWhichFailed) {
  answer("POST " + base + "/fork", 201,
         R"([{"sandbox":{"sandboxID":"i1"}},{"error":{"code":503,"message":"no memory \u001b"}},)"
         R"({"sandbox":{"sandboxID":"i3"}}])");
  Said said = run(command_fork, ForkOptions{.sandbox = id, .count = 3, .snapshot = 4, .life = "never"});
  EXPECT_THAT(fake.asked,
              ElementsAre("POST " + base + R"(/fork {"count":3,"snapshot":4,"timeout":"never"})"));
  EXPECT_EQ(said.out, "i1\ni3\n");
  EXPECT_THAT(said.error, HasSubstr("fork 2 of 3: no memory \\x1b"));
  EXPECT_EQ(said.code, 1);

  common.json = true;
  said = run(command_fork, ForkOptions{.sandbox = id});
  EXPECT_THAT(fake.asked, ElementsAre("POST " + base + R"(/fork {"count":1})"));
  EXPECT_EQ(parse_json(said.out)->as_array().size(), 3U);
  EXPECT_EQ(said.code, 1);

  common.json = false;
  answer("POST " + base + "/fork", 201, R"([{"sandbox":{"sandboxID":"i1"}}])");
  EXPECT_EQ(run(command_fork, ForkOptions{.sandbox = id.substr(0, 6)}).code, 0);
  answer("POST " + base + "/fork", 201, R"([7])");
  EXPECT_EQ(run(command_fork, ForkOptions{.sandbox = id}).code, 1);
}

TEST_F(SnapshotCommandTest, OfMemoryOrOfTheDisk) {
  answer("POST " + base + "/snapshots", 201,
         R"({"number":7,"kind":"full","writtenBytes":1024,"stopWindowUs":2500,"quiesced":true})");
  EXPECT_EQ(run(command_snapshot, SnapshotOptions{.sandbox = id, .name = "clean", .pinned = true}).out,
            "snapshot 7: 1.0 KiB written, it stood still for 2.5 ms\n");
  EXPECT_THAT(fake.asked,
              ElementsAre("POST " + base + R"(/snapshots {"kind":"full","name":"clean","pinned":true})"));
  answer("POST " + base + "/snapshots", 201,
         R"({"number":8,"kind":"disk","writtenBytes":0,"quiesced":false})");
  EXPECT_EQ(
      run(command_snapshot, SnapshotOptions{.sandbox = id, .disk = true}).out,
      "snapshot 8: disk, 0 B written; it ran on; the guest did not answer, so it is as after a power cut\n");
  EXPECT_THAT(fake.asked, ElementsAre("POST " + base + R"(/snapshots {"kind":"disk"})"));
}

TEST_F(SnapshotCommandTest, TheListSaysWhatEachIs) {
  answer(
      "GET " + base + "/snapshots?measure=true", 200,
      R"({"snapshots":[{"number":1,"parent":null,"kind":"full","cause":"asked","writtenBytes":1024,)"
      R"("exclusiveBytes":4096,"name":"\u001b[2J","pinned":true,"published":true,"usedBy":["i2"],)"
      R"("onLineage":false,"quiesced":false},{"number":2,"parent":1,"kind":"disk","cause":"schedule"},7]})");
  const Said said = run(command_snapshot_list, id);
  EXPECT_THAT(said.out, HasSubstr("pinned,published,used,branch,unquiesced"));
  EXPECT_THAT(said.out, HasSubstr("4.0 KiB"));
  EXPECT_THAT(said.out, HasSubstr("schedule"));
  EXPECT_THAT(said.out, HasSubstr("\\x1b[2J"));
  EXPECT_THAT(said.out, Not(HasSubstr("\x1b")));
}

TEST_F(SnapshotCommandTest, EachChangeReachesItsSnapshot) {
  using enum SnapshotChange::Kind;
  answer("DELETE " + base + "/snapshots/3", 204, "null");
  answer("DELETE " + base + "/snapshots/4", 409, R"({"code":409,"message":"snapshot 4 is used by i2"})");
  Said said = run(command_snapshot_change, SnapshotChange{.kind = remove, .sandbox = id, .numbers = {4, 3}});
  EXPECT_EQ(said.out, "removed snapshot 3\n");
  EXPECT_THAT(said.error, HasSubstr("used by i2"));
  EXPECT_EQ(said.code, 1);

  answer("PATCH " + base + "/snapshots/3", 200, R"({"number":3})");
  run(command_snapshot_change, SnapshotChange{.kind = pin, .sandbox = id, .numbers = {3}});
  EXPECT_THAT(fake.asked, ElementsAre("PATCH " + base + R"(/snapshots/3 {"pinned":true})"));
  run(command_snapshot_change, SnapshotChange{.kind = unpin, .sandbox = id, .numbers = {3}});
  EXPECT_THAT(fake.asked, ElementsAre("PATCH " + base + R"(/snapshots/3 {"pinned":false})"));
  said = run(command_snapshot_change,
             SnapshotChange{.kind = rename, .sandbox = id, .numbers = {3}, .name = "a"});
  EXPECT_THAT(fake.asked, ElementsAre("PATCH " + base + R"(/snapshots/3 {"name":"a"})"));
  EXPECT_EQ(said.out, "snapshot 3 is \"a\"\n");
  run(command_snapshot_change, SnapshotChange{.kind = rename, .sandbox = id, .numbers = {3}});
  EXPECT_THAT(fake.asked, ElementsAre("PATCH " + base + R"(/snapshots/3 {"name":null})"));
}

TEST_F(SnapshotCommandTest, AMissingSnapshotIsNoMissingSandbox) {
  answer("POST " + base + "/rollback", 404, R"({"code":404,"message":"there is no snapshot 9"})");
  const RollbackOptions to_nine{.sandbox = id, .number = 9};
  EXPECT_THAT(run(command_rollback, to_nine).error,
              HasSubstr("there is no snapshot 9; 'space snapshot ls " + id + "' lists"));
  fake.ids = {};
  EXPECT_THAT(run(command_rollback, to_nine).error, HasSubstr("'space ls' lists"));
}

TEST_F(SnapshotCommandTest, RollbackSaysHowToGoBack) {
  answer("POST " + base + "/rollback", 200, R"({"sandbox":{},"undo":7,"snapshot":3})");
  Said said = run(command_rollback, RollbackOptions{.sandbox = id, .number = 3});
  EXPECT_THAT(fake.asked, ElementsAre("POST " + base + R"(/rollback {"snapshot":3})"));
  EXPECT_EQ(said.out, id + " is as it was at snapshot 3\n");
  EXPECT_THAT(said.error, HasSubstr("the state before is snapshot 7: space rollback " + id + " --undo"));
  said = run(command_rollback, RollbackOptions{.sandbox = id, .undo = true});
  EXPECT_THAT(fake.asked, ElementsAre("POST " + base + R"(/rollback {"undo":true})"));
  EXPECT_EQ(said.code, 0);
  said = run(command_rollback, RollbackOptions{.sandbox = id});
  EXPECT_EQ(said.code, exit_usage);
  EXPECT_THAT(fake.asked, ElementsAre());
}

TEST_F(SnapshotCommandTest, TheScheduleInWordsAndFromWords) {
  answer("GET " + base + "/schedule", 200,
         R"({"schedule":{"disk":{"everySeconds":600,"keep":[{"everySeconds":600,"count":6},)"
         R"({"everySeconds":86400,"count":7}]},"quotaBytes":10737418240}})");
  EXPECT_EQ(run(command_schedule, ScheduleOptions{.sandbox = id}).out,
            "disk   every 10 min, kept 6 x 10 min, 7 x 1 day\nquota  10.0 GiB of its snapshots' own\n");
  EXPECT_THAT(fake.asked, ElementsAre("GET " + base + "/schedule"));

  answer("PUT " + base + "/schedule", 200, R"({"schedule":null})");
  EXPECT_THAT(run(command_schedule, ScheduleOptions{.sandbox = id, .word = "off"}).out,
              HasSubstr("no schedule"));
  EXPECT_THAT(fake.asked, ElementsAre("PUT " + base + R"(/schedule {"schedule":"off"})"));
  run(command_schedule,
      ScheduleOptions{.sandbox = id, .disk_every = "10m", .disk_keep = "6x10m,24x1h", .quota = "1GiB"});
  EXPECT_THAT(
      fake.asked,
      ElementsAre(
          "PUT " + base +
          R"(/schedule {"schedule":{"disk":{"everySeconds":600,"keep":[{"everySeconds":600,"count":6},)"
          R"({"everySeconds":3600,"count":24}]},"quotaBytes":1073741824}})"));
  answer("PUT " + base + "/schedule", 400, R"({"code":400,"message":"it cannot be met"})");
  const Said said = run(command_schedule, ScheduleOptions{.sandbox = id, .full_every = "1s"});
  EXPECT_EQ(said.code, exit_usage);
  EXPECT_THAT(said.error, HasSubstr("it cannot be met"));
}

TEST_F(SnapshotCommandTest, AScheduleFromAFileAsJsonShowsIt) {
  char path[] = "/tmp/space_cli_XXXXXX";
  const Fd file(mkstemp(path));
  std::ofstream(path) << R"({"schedule":{"full":{"everySeconds":3600}}})";
  answer("PUT " + base + "/schedule", 200, R"({"schedule":null})");
  run(command_schedule, ScheduleOptions{.sandbox = id, .file = path});
  EXPECT_THAT(fake.asked,
              ElementsAre("PUT " + base + R"(/schedule {"schedule":{"full":{"everySeconds":3600}}})"));
  std::ofstream(path) << R"({"full":{"everySeconds":60}})";
  run(command_schedule, ScheduleOptions{.sandbox = id, .file = path});
  EXPECT_THAT(fake.asked,
              ElementsAre("PUT " + base + R"(/schedule {"schedule":{"full":{"everySeconds":60}}})"));
  std::ofstream(path) << "{";
  EXPECT_EQ(run(command_schedule, ScheduleOptions{.sandbox = id, .file = path}).code, exit_usage);
  EXPECT_EQ(run(command_schedule, ScheduleOptions{.sandbox = id, .word = "off", .file = path}).code,
            exit_usage);
  ::unlink(path);
}

TEST(ScheduleText, WhatPeopleType) {
  EXPECT_EQ(parse_seconds("90").value(), 90);
  EXPECT_EQ(parse_seconds("90s").value(), 90);
  EXPECT_EQ(parse_seconds("10m").value(), 600);
  EXPECT_EQ(parse_seconds("7d").value(), 604'800);
  EXPECT_EQ(parse_size("10GiB").value(), 10'737'418'240);
  for (const char* wrong :
       {"", "m", "0m", "-1m", "5 m", "1w", "99999999999999999999s", "9223372036854775807d"})
    EXPECT_FALSE(parse_seconds(wrong)) << wrong;
  for (const char* wrong : {"", "GiB", "10GB", "1.5GiB", "9223372036854775807TiB"})
    EXPECT_FALSE(parse_size(wrong)) << wrong;

  EXPECT_EQ(to_text(schedule_of({.full_every = "1h"}).value()),
            R"({"full":{"everySeconds":3600,"keep":[{"everySeconds":3600,"count":6}]}})");
  for (const ScheduleOptions& wrong :
       {ScheduleOptions{.disk_keep = "6x10m"}, ScheduleOptions{.full_keep = "6x10m"},
        ScheduleOptions{.quota = "1GiB"}, ScheduleOptions{.disk_every = "10m", .disk_keep = "6"},
        ScheduleOptions{.disk_every = "10m", .disk_keep = "6x10m,"}, ScheduleOptions{.disk_every = "x"},
        ScheduleOptions{.disk_every = "10m", .disk_keep = "x10m"},
        ScheduleOptions{.disk_every = "1h", .quota = "x"}})
    EXPECT_FALSE(schedule_of(wrong)) << wrong.disk_every << wrong.disk_keep << wrong.quota;
  EXPECT_EQ(span_text(90), "90 s");
  EXPECT_EQ(span_text(86'400), "1 day");
  EXPECT_EQ(span_text(0), "0 s");
}

TEST_F(SnapshotCommandTest, RecoveryTellsWhatHappened) {
  constexpr std::string_view shown =
      R"({"policy":"checkpoint","state":"failed","reason":"died 4 times \u001b","recovered":{"at":)"
      R"("2026-11-30T13:00:00Z","from":{"kind":"full","number":3,"createdAt":"2026-11-30T12:00:00Z"},)"
      R"("cause":"killed","count":2}})";
  answer("GET " + base + "/recovery", 200, shown);
  answer("PUT " + base + "/recovery", 200, shown);
  answer("POST " + base + "/recovery", 202, shown);
  Said said = run(command_recovery, RecoveryOptions{.sandbox = id});
  EXPECT_THAT(fake.asked, ElementsAre("GET " + base + "/recovery"));
  EXPECT_THAT(said.out,
              HasSubstr("policy     checkpoint: when its virtual machine ends unasked, its newest"));
  EXPECT_THAT(said.out, HasSubstr("recovered  2026-11-30 13:00:00Z from checkpoint 3 of 2026-11-30 12:00:00Z "
                                  "(killed); 2 recoveries in all"));
  EXPECT_THAT(said.out, HasSubstr("state      failed: died 4 times \\x1b"));
  run(command_recovery, RecoveryOptions{.sandbox = id, .policy = "disk", .now = true});
  EXPECT_THAT(fake.asked,
              ElementsAre("PUT " + base + R"(/recovery {"policy":"disk"})", "POST " + base + "/recovery"));
}

TEST_F(SnapshotCommandTest, InfoSaysItInWords) {
  answer("GET " + base, 200,
         R"({"sandboxID":"i1","head":3,"origin":{"sandboxID":"i0","number":2},"recovered":{"at":)"
         R"("2026-11-30T13:00:00Z","from":{"kind":"live_disk","number":null},"cause":"killed","count":1},)"
         R"("schedule":{"disk":{"everySeconds":60,"keep":[]},"quotaBytes":1024}})");
  const Said said = run(command_info, id);
  EXPECT_THAT(said.out, HasSubstr("snapshot 2 of i0"));
  EXPECT_THAT(said.out, HasSubstr("2026-11-30 13:00:00Z from its live disk (killed); 1 recovery in all"));
  EXPECT_THAT(said.out, HasSubstr("disk   every 1 min; quota"));
}

TEST_F(SnapshotCommandTest, DiffMarksAndEscapes) {
  answer("GET " + base + "/diff?from=3&to=5&limit=10000", 200,
         R"({"changes":[{"path":"/a\nD /etc/passwd","change":"added","type":"file","size":1},)"
         R"({"path":"/old","change":"removed","type":"directory","size":0},)"
         R"({"path":"/b","change":"changed","type":"file","size":3}],"truncated":true,"approximate":true})");
  Said said = run(command_diff, DiffOptions{.sandbox = id, .from = 3, .to = 5});
  EXPECT_EQ(said.out, "A /a\\x0aD /etc/passwd\nD /old/\nM /b\n");
  EXPECT_THAT(said.error, HasSubstr("there is more"));
  EXPECT_THAT(said.error, HasSubstr("did not hold still"));
  common.json = true;
  said = run(command_diff, DiffOptions{.sandbox = id, .from = 3, .to = 5});
  EXPECT_TRUE(parse_json(said.out)->as_object().contains("changes"));
}

TEST_F(SnapshotCommandTest, HistoryIsDrawn) {
  answer("GET " + base + "/history", 200, R"({"head":1,"snapshots":[{"number":1,"kind":"full"}]})");
  const Said said = run(command_history, id);
  EXPECT_THAT(said.out, HasSubstr(id + "\n"));
  EXPECT_THAT(said.out, HasSubstr("1  full"));
  EXPECT_THAT(said.out, HasSubstr("now\n"));
}

}  // namespace
}  // namespace space::cli
