// The whole sandbox manager: two snapshots' disks compared in a VM that nobody else sees.
#include <gtest/gtest.h>

#include "sandboxd/disk_diff.h"
#include "sandboxd/node_fixture.h"

namespace space {
namespace {

const std::string two_changes =
    R"({"changes":[{"path":"/a\nb","change":"added","type":"file","size":2},)"
    R"({"path":"/c","change":"changed","type":"directory","size":0}],"truncated":true})";

class DiffTest : public NodeTest {
 protected:
  std::uint64_t snapshot(const std::string& id, const std::string& kind) {
    const Answer taken = call("sandbox/snapshot", {{"id", id}, {"kind", kind}});
    EXPECT_EQ(taken.status, 200) << to_text(taken.body);
    return taken.status == 200 ? taken.body.at("number").to_number<std::uint64_t>() : 0;
  }
  // A sandbox with a disk snapshot, and a full one after it; what is launched next answers `diff`.
  std::string prepared(std::string diff = two_changes) {
    const std::string id = created();
    noded_->sandboxes.at(id).content = "first";
    first_ = snapshot(id, "disk");
    noded_->sandboxes.at(id).content = "second";
    second_ = snapshot(id, "full");
    noded_->behaviour.diff = std::move(diff);
    return id;
  }
  JsonObject wish(const std::string& id) { return {{"id", id}, {"from", first_}, {"to", second_}}; }
  // The other than the sandbox's own, if any.
  std::string other_than(const std::string& id) {
    for (const auto& [held, what] : noded_->sandboxes)
      if (held != id && !what.empty()) return held;
    return "";
  }
  void expect_only(const std::string& id) {
    pump_until([&] { return other_than(id).empty(); });
    EXPECT_TRUE(noded_->vm(id)) << "the sandbox itself runs on";
  }

  std::uint64_t first_ = 0, second_ = 0;
};

TEST_F(DiffTest, TellsWhatTheVmSaysAndLeavesNothingOfIt) {
  const std::string id = prepared();
  std::vector<std::string> disks;
  noded_->on_verb = [&](std::size_t, bool) {
    for (const auto& [held, what] : noded_->sandboxes)
      if (!what.snapshot_disks.empty()) disks = what.snapshot_disks;
  };
  Answer answer = call("sandbox/diff", wish(id));
  ASSERT_EQ(answer.status, 200) << to_text(answer.body);
  EXPECT_EQ(to_text(answer.body.at("changes")),
            to_text(parse_json_object(two_changes, "").value().at("changes")));
  EXPECT_EQ(answer.body.at("truncated"), true);
  EXPECT_FALSE(answer.body.contains("approximate"));
  EXPECT_EQ(disks, (std::vector<std::string>{"first", "second"}));
  expect_only(id);
  EXPECT_EQ(call("sandbox/list", {}).body.at("sandboxes").as_array().size(), 1u);

  // Without a VM where there is nothing to see.
  const std::size_t verbs = noded_->verbs.size();
  answer = call("sandbox/diff", {{"id", id}, {"from", first_}, {"to", first_}});
  EXPECT_EQ(to_text(answer.body), R"({"changes":[],"truncated":false})");
  EXPECT_EQ(noded_->verbs.size(), verbs);
}

TEST_F(DiffTest, ADiskThatWasNotQuietIsSaidToBeApproximate) {
  noded_->behaviour.disk_never_freezes = true;
  const std::string id = prepared();
  const Answer answer = call("sandbox/diff", wish(id));
  ASSERT_EQ(answer.status, 200) << to_text(answer.body);
  EXPECT_EQ(answer.body.at("approximate"), true);
}

TEST_F(DiffTest, WhatIsNotThereOrNotMeantIsRefused) {
  const std::string id = prepared();
  const auto status = [&](JsonObject body) { return call("sandbox/diff", body).status; };
  EXPECT_EQ(status({{"id", id}, {"from", first_}, {"to", 77}}), 404);
  EXPECT_EQ(status({{"id", id}, {"from", 77}, {"to", first_}}), 404);
  EXPECT_EQ(status({{"id", new_sandbox_id()}, {"from", 1}, {"to", 2}}), 404);
  EXPECT_EQ(status({{"id", id}, {"from", 0}, {"to", first_}}), 400);
  EXPECT_EQ(status({{"id", id}, {"from", first_}}), 400);
  for (const int limit : {0, 10'001}) {
    JsonObject body = wish(id);
    body["limit"] = limit;
    EXPECT_EQ(status(body), 400);
  }
  EXPECT_EQ(status(wish(id)), 200);
}

TEST_F(DiffTest, AVmThatFailsIsRemovedAndTold) {
  const std::string id = prepared();
  noded_->behaviour.dies_during = "diff";
  EXPECT_EQ(call("sandbox/diff", wish(id)).status, 503);
  expect_only(id);
  noded_->behaviour.dies_during = "";
  noded_->behaviour.refuses = "diff";
  const Answer refused = call("sandbox/diff", wish(id));
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(to_text(refused.body).find("the guest refuses"), std::string::npos) << to_text(refused.body);
  expect_only(id);
  noded_->behaviour.refuses = "";
  noded_->behaviour.diff = R"({"changes":[{"path":"relative","change":"added","type":"file","size":1}]})";
  EXPECT_EQ(call("sandbox/diff", wish(id)).status, 500);
  expect_only(id);
  noded_->refuse = [](noded::Verb verb) -> std::optional<Error> {
    if (verb != noded::Verb::vmm_launch) return std::nullopt;
    return Error{Code::exhausted, "no room"};
  };
  EXPECT_EQ(call("sandbox/diff", wish(id)).status, 429);
  expect_only(id);
  noded_->refuse = [](noded::Verb) { return std::nullopt; };
  noded_->behaviour.diff = two_changes;
  EXPECT_EQ(call("sandbox/diff", wish(id)).status, 200);
}

TEST_F(DiffTest, ACrashInItsMiddleLeavesAnOrphanThatIsRemoved) {
  const std::string id = prepared();
  noded_->behaviour.boots = false;  // its boot does not end
  spawn(loop_.get_executor(), "diff", [](std::shared_ptr<H2Session> session, std::string body) -> Task<void> {
    (void)co_await session->call({"POST", "/node/sandbox/diff", body}, Deadline::after(60s));
  }(session_, to_text(wish(id))));
  pump_until([&] { return noded_->vm(other_than(id)) != nullptr; });
  kill_manager();
  EXPECT_FALSE(other_than(id).empty());
  noded_->behaviour.boots = true;
  start();
  expect_only(id);
  pump_until([&] { return state_of(id) == "running"; });
  EXPECT_EQ(call("sandbox/diff", wish(id)).status, 200);
}

TEST_F(DiffTest, WithoutMemoryForItsVmItIsRefused) {
  kill_manager();
  memory_limit_mib_ = 1000;  // one sandbox and no VM beside it
  start();
  const std::string id = prepared();
  const Answer answer = call("sandbox/diff", wish(id));
  EXPECT_EQ(answer.status, 429) << to_text(answer.body);
  expect_only(id);
}

TEST(ParseDiskDiff, BelievesTheFormOnly) {
  const auto parse = [](const std::string& text, std::size_t limit) {
    return parse_disk_diff(parse_json_object(text, "answer").value(), limit);
  };
  const auto change = [](const std::string& path, const std::string& kind, const std::string& type,
                         const std::string& size) {
    return fmt::format(R"({{"changes":[{{"path":"{}","change":"{}","type":"{}","size":{}}}]}})", path, kind,
                       type, size);
  };
  EXPECT_EQ(parse(two_changes, 2)->changes.size(), 2u);
  EXPECT_EQ(parse(two_changes, 2)->changes[0].path, "/a\nb");
  EXPECT_TRUE(parse(two_changes, 2)->truncated);
  EXPECT_TRUE(parse(change("/x", "removed", "fifo", "0"), 1));
  for (const std::string& wrong :
       {change("x", "added", "file", "0"), change("/" + std::string(20'000, 'x'), "added", "file", "0"),
        change("/x", "moved", "file", "0"), change("/x", "added", "door", "0"),
        change("/x", "added", "file", "-1"), change("/x", "added", "file", "1.5"), std::string("{}"),
        std::string(R"({"changes":{}})"), std::string(R"({"changes":[1]})"),
        std::string(R"({"changes":[],"truncated":1})")}) {
    EXPECT_FALSE(parse(wrong, 10)) << wrong;
  }
  EXPECT_EQ(parse(two_changes, 1).error().code, Code::internal) << "more than was asked for";
}

}  // namespace
}  // namespace space
