// The whole sandbox manager: disk snapshots in every state and with every failure, what is kept, named and
// removed, and a crash between any two steps.
#include <gtest/gtest.h>

#include "sandboxd/node_snapshot_fixture.h"

namespace space {
namespace {

using DiskSnapshotTest = SnapshotTest;
using SnapshotKeepingTest = SnapshotTest;

const JsonObject of_disk = {{"kind", "disk"}};

TEST_F(DiskSnapshotTest, TheGuestHoldsItsDiskForTheCopyAndRunsOn) {
  const std::string id = created();
  const auto vm = noded_->vm(id);
  disk(id) = "one";
  std::optional<bool> held_for_the_copy, ran;
  noded_->on_verb = [&](std::size_t nth, bool done) {
    if (done || noded_->verbs.at(nth - 1) != noded::Verb::snapshot_begin) return;
    held_for_the_copy = vm->disk_frozen;
    ran = !vm->stands_still() && !vm->frozen;
  };
  const Answer answer = take(id, of_disk);
  noded_->on_verb = [](std::size_t, bool) {};
  ASSERT_EQ(answer.status, 200) << to_text(answer.body);
  EXPECT_EQ(held_for_the_copy, true);
  EXPECT_EQ(ran, true);
  EXPECT_FALSE(vm->disk_frozen);
  EXPECT_EQ(answer.body.at("kind"), "disk");
  EXPECT_EQ(answer.body.at("cause"), "asked");
  EXPECT_EQ(answer.body.at("quiesced"), true);
  EXPECT_TRUE(answer.body.at("parent").is_null());
  EXPECT_EQ(answer.body.at("on_lineage"), true);
  EXPECT_EQ(head_of(id), 1u);
  const Answer measured = call("sandbox/snapshots", {{"id", id}, {"measure", true}});
  ASSERT_EQ(measured.status, 200);
  EXPECT_EQ(measured.body.at("snapshots").as_array().size(), 1u);
  disk(id) = "two";
  ASSERT_TRUE(noded_->snapshots.finished(id, 1));
  EXPECT_EQ(noded_->snapshots.finished(id, 1)->disk, "one");
  EXPECT_EQ(taken(id), 2u);  // a full one follows it
  EXPECT_EQ(listed(id, 2).at("parent").to_number<int>(), 1);
  EXPECT_EQ(taken(id, of_disk), 3u);
  EXPECT_EQ(listed(id, 3).at("parent").to_number<int>(), 2);
  delete_all(id);
}

TEST_F(DiskSnapshotTest, WithoutTheGuestsWordItIsMarked) {
  struct {
    const char* what;
    void (*spoil)(FakeVm::Behaviour&);
    bool quiesced;
  } const guests[] = {{"as it should be", [](FakeVm::Behaviour&) {}, true},
                      {"never freezes", [](FakeVm::Behaviour& b) { b.disk_never_freezes = true; }, false},
                      {"thaws early", [](FakeVm::Behaviour& b) { b.disk_thaws_early = true; }, false},
                      {"refuses", [](FakeVm::Behaviour& b) { b.refuses = "freeze_disk"; }, false}};
  for (const auto& [what, spoil, quiesced] : guests) {
    SCOPED_TRACE(what);
    noded_->behaviour = {};
    spoil(noded_->behaviour);
    const std::string id = created();
    const Answer answer = take(id, of_disk);
    ASSERT_EQ(answer.status, 200) << to_text(answer.body);
    EXPECT_EQ(answer.body.at("quiesced"), quiesced);
    EXPECT_FALSE(noded_->vm(id)->disk_frozen);
    EXPECT_EQ(noded_->vm(id)->calls.back(), "thaw_disk");
    const auto* made = noded_->snapshots.finished(id, 1);
    ASSERT_NE(made, nullptr);
    std::string manifest(4096, '\0');
    manifest.resize(static_cast<std::size_t>(
        std::max<ssize_t>(::pread(made->manifest.get(), manifest.data(), manifest.size(), 0), 0)));
    const char* says = quiesced ? R"("quiesced":true)" : R"("quiesced":false)";
    EXPECT_NE(manifest.find(says), std::string::npos) << manifest;
    // Others begin from a whole one only.
    JsonObject for_others = of_disk;
    for_others["cause"] = "fork";
    EXPECT_EQ(take(id, for_others).status, quiesced ? 200 : 503);
    EXPECT_EQ(held(id), quiesced ? 2u : 1u);
    EXPECT_EQ(list(id).size(), held(id));
    delete_all(id);
  }
}

TEST_F(DiskSnapshotTest, InEveryRestItIsOfTheDiskAsItLies) {
  const std::string hot = created();
  disk(hot) = "hot";
  ASSERT_EQ(order("pause", hot).status, 200);
  EXPECT_EQ(taken(hot, of_disk), 1u);
  EXPECT_EQ(listed(hot, 1).at("quiesced"), true);  // it was flushed before it stood still
  EXPECT_EQ(memory_of(hot), "hot");
  EXPECT_EQ(noded_->snapshots.finished(hot, 1)->disk, "hot");

  const std::string stopped = created();
  disk(stopped) = "stopped";
  ASSERT_EQ(order("stop", stopped).status, 200);
  EXPECT_EQ(take(stopped).status, 409) << "there is no memory";
  EXPECT_EQ(taken(stopped, of_disk), 1u);
  EXPECT_EQ(noded_->snapshots.finished(stopped, 1)->disk, "stopped");
  EXPECT_EQ(state_of(stopped), "stopped");
  EXPECT_EQ(taken(stopped, {{"cause", "fork"}}), 2u);
  EXPECT_EQ(listed(stopped, 2).at("kind"), "disk");

  const std::string cold = created();
  go_cold(cold);
  ASSERT_EQ(held(cold), 1u);
  EXPECT_EQ(listed(cold, 1).at("cause"), "pause");
  EXPECT_EQ(taken(cold, of_disk), 1u) << "nothing has changed since";
  EXPECT_EQ(held(cold), 1u);
  EXPECT_EQ(listed(cold, 1).at("cause"), "asked");  // so that it stays
  for (const std::string& id : {hot, stopped, cold})
    EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200);
  expect_nothing_left();
}

TEST_F(DiskSnapshotTest, WhateverFailsNothingIsLeftAndNothingIsHeld) {
  const std::string id = created();
  ASSERT_EQ(taken(id, of_disk), 1u);
  for (const auto verb : {noded::Verb::snapshot_begin, noded::Verb::snapshot_finish}) {
    refuse(verb);
    EXPECT_GE(take(id, of_disk).status, 400);
    refuse_nothing();
    EXPECT_FALSE(noded_->vm(id)->disk_frozen);
    EXPECT_EQ(held(id), 1u);
    EXPECT_EQ(list(id).size(), 1u);
    EXPECT_EQ(head_of(id), 1u);
  }
  for (const char* fault : {"fail-snapshot-begin", "fail-snapshot-finish", "eio-manifest"}) {
    SCOPED_TRACE(fault);
    restart({"--fault", fault});
    until_state(id, "running");
    EXPECT_GE(take(id, of_disk).status, 400);
    EXPECT_FALSE(noded_->vm(id)->disk_frozen);
    EXPECT_EQ(held(id), 1u);
    EXPECT_EQ(head_of(id), 1u);
  }
  restart();
  until_state(id, "running");
  const std::uint64_t next = taken(id, of_disk);
  EXPECT_EQ(listed(id, next).at("parent").to_number<int>(), 1);
  delete_all(id);
}

TEST_F(DiskSnapshotTest, KilledBetweenAnyTwoSteps) {
  for (const char* point : {"disk-frozen", "disk-copied", "disk-finish", "disk-finished", "snapshot-taken"}) {
    SCOPED_TRACE(point);
    const std::string id = created();
    const auto vm = noded_->vm(id);
    ASSERT_EQ(taken(id, of_disk), 1u);
    restart({"--fault", std::string("crash-at=") + point});
    until_state(id, "running");
    crash_in("sandbox/snapshot", {{"id", id}, {"kind", "disk"}});
    until_state(id, "running");
    pump_until([&] { return !vm->disk_frozen && held(id) == 1; });
    EXPECT_EQ(noded_->vm(id), vm);
    EXPECT_EQ(head_of(id), 1u);
    const std::uint64_t next = taken(id, of_disk);
    EXPECT_EQ(listed(id, next).at("parent").to_number<int>(), 1);
    delete_all(id);
  }
}

TEST_F(SnapshotKeepingTest, TheMiddleOfAChainGoesAndTheRestIsWhole) {
  const std::string id = created();
  for (char value = 1; value <= 4; ++value) {
    mark(id) = value;
    ASSERT_EQ(taken(id), static_cast<std::uint64_t>(value));
  }
  const auto remove = [&](std::uint64_t number) {
    return call("sandbox/snapshot/remove", {{"id", id}, {"number", number}});
  };
  ASSERT_EQ(remove(2).status, 200);
  EXPECT_EQ(remove(2).status, 404);
  ASSERT_EQ(remove(1).status, 200);
  EXPECT_TRUE(listed(id, 3).at("parent").is_null());
  EXPECT_EQ(listed(id, 4).at("parent").to_number<int>(), 3);
  EXPECT_EQ(held(id), 2u);
  // Its VM is compared with the newest.
  const Answer needed = remove(4);
  EXPECT_EQ(needed.status, 409);
  EXPECT_NE(to_text(needed.body).find("reads from"), std::string::npos);
  EXPECT_EQ(listed(id, 4).at("used_by").as_array().size(), 1u);
  EXPECT_EQ(listed(id, 3).at("used_by").as_array().size(), 0u);
  restart();
  until_state(id, "running");
  EXPECT_EQ(list(id).size(), 2u);
  EXPECT_EQ(listed(id, 4).at("parent").to_number<int>(), 3);
  EXPECT_NE(history_of(id).find("snapshot_removed: full snapshot 2 was removed"), std::string::npos)
      << history_of(id);
  ASSERT_EQ(call("sandbox/rollback", {{"id", id}, {"number", 3}, {"access_token", token}}).status, 200);
  EXPECT_EQ(mark(id), 3);  // it is readable all the same
  delete_all(id);
}

TEST_F(SnapshotKeepingTest, WhatAColdOneGoesOnFromStays) {
  const std::string id = created();
  go_cold(id);
  const JsonObject head = {{"id", id}, {"number", 1}};
  const Answer refused = call("sandbox/snapshot/remove", head);
  EXPECT_EQ(refused.status, 409);
  EXPECT_NE(to_text(refused.body).find("resume it first"), std::string::npos);
  ASSERT_EQ(order("resume", id).status, 200);
  ASSERT_EQ(order("stop", id).status, 200);  // its memory is of no more use, and the pause's snapshot goes
  pump_until([&] { return held(id) == 0; });
  EXPECT_EQ(head_of(id), 0u);
  EXPECT_EQ(call("sandbox/snapshot/remove", head).status, 404);
  delete_all(id);
}

TEST_F(SnapshotKeepingTest, NamesAndPinsAreKept) {
  const std::string id = created();
  ASSERT_EQ(taken(id, {{"kind", "disk"}, {"name", "first"}, {"pinned", true}}), 1u);
  EXPECT_EQ(listed(id, 1).at("name"), "first");
  EXPECT_EQ(listed(id, 1).at("pinned"), true);
  const auto set = [&](JsonObject edit) {
    edit["id"] = id;
    edit["number"] = 1;
    return call("sandbox/snapshot/set", edit);
  };
  EXPECT_EQ(set({{"name", "second"}}).body.at("name"), "second");
  EXPECT_EQ(set({{"pinned", false}}).body.at("pinned"), false);
  restart();
  until_state(id, "running");
  EXPECT_EQ(listed(id, 1).at("name"), "second");
  EXPECT_EQ(listed(id, 1).at("pinned"), false);
  EXPECT_TRUE(set({{"name", nullptr}}).body.at("name").is_null());
  EXPECT_EQ(set({{"name", "with a blank"}}).status, 400);
  EXPECT_EQ(set({{"name", std::string(65, 'x')}}).status, 400);
  EXPECT_EQ(set({{"pinned", "yes"}}).status, 400);
  EXPECT_EQ(call("sandbox/snapshot/set", {{"id", id}, {"number", 7}, {"pinned", true}}).status, 404);
  EXPECT_EQ(take(id, {{"kind", "memory"}}).status, 400);
  EXPECT_EQ(take(id, {{"cause", "pause"}}).status, 400);
  EXPECT_EQ(take(id, {{"name", "\n"}}).status, 400);
  EXPECT_EQ(list(id).size(), 1u);
  delete_all(id);
}

}  // namespace
}  // namespace space
