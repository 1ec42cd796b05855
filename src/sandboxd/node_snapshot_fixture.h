// SnapshotTest: NodeTest with what tests of snapshots and of going back to them share. For tests.
#pragma once

#include <algorithm>

#include "sandboxd/node_fixture.h"

namespace space {

class SnapshotTest : public NodeTest {
 protected:
  Answer order(const std::string& name, const std::string& id) {
    return call("sandbox/" + name, {{"id", id}, {"access_token", token}});
  }
  JsonObject info(const std::string& id) { return call("sandbox/get", {{"id", id}}).body; }
  std::string memory_of(const std::string& id) { return std::string(info(id).at("memory").as_string()); }
  std::uint64_t head_of(const std::string& id) {
    const JsonObject object = info(id);
    return object.at("head").is_null() ? 0 : object.at("head").to_number<std::uint64_t>();
  }
  std::string& disk(const std::string& id) { return noded_->sandboxes.at(id).content; }
  // In the middle of its memory, where no guest of ours writes.
  char& mark(const std::string& id) {
    return reinterpret_cast<char&>(noded_->vm(id)->memory().bytes()[std::size_t{100} << 20]);
  }
  Answer take(const std::string& id, JsonObject wish = {}) {
    wish["id"] = id;
    return call("sandbox/snapshot", wish);
  }
  std::uint64_t taken(const std::string& id, JsonObject wish = {}) {
    const Answer answer = take(id, std::move(wish));
    EXPECT_EQ(answer.status, 200) << to_text(answer.body);
    return answer.status == 200 ? answer.body.at("number").to_number<std::uint64_t>() : 0;
  }
  JsonArray list(const std::string& id) {
    return call("sandbox/snapshots", {{"id", id}}).body.at("snapshots").as_array();
  }
  // Empty: there is none of that number.
  JsonObject listed(const std::string& id, std::uint64_t number) {
    for (const Json& each : list(id))
      if (each.at("number").to_number<std::uint64_t>() == number) return each.as_object();
    return {};
  }
  bool on_lineage(const std::string& id, std::uint64_t number) {
    return listed(id, number).at("on_lineage").as_bool();
  }
  // On the pool, unfinished ones too.
  std::size_t held(const std::string& id) {
    const auto found = noded_->snapshots.of.find(id);
    return found == noded_->snapshots.of.end() ? 0 : found->second.size();
  }
  std::string history_of(const std::string& id) {
    std::string all;
    for (const Json& event : call("sandbox/history", {{"id", id}}).body.at("events").as_array())
      all +=
          std::string(event.at("kind").as_string()) + ": " + std::string(event.at("text").as_string()) + "\n";
    return all;
  }
  void keep_hot_for(const std::string& id, std::int64_t seconds) {
    ASSERT_EQ(call("sandbox/policy", {{"id", id}, {"hot_keep_s", seconds}}).status, 200);
  }
  void go_cold(const std::string& id) {
    keep_hot_for(id, 0);
    ASSERT_EQ(order("pause", id).status, 200);
    pump_until([&] { return memory_of(id) == "cold" && !noded_->vm(id); });
  }
  void refuse(noded::Verb verb) {
    noded_->refuse = [verb](noded::Verb asked) -> std::optional<Error> {
      if (asked != verb) return std::nullopt;
      return Error{Code::internal, "refused"};
    };
  }
  void refuse_nothing() {
    noded_->refuse = [](noded::Verb) { return std::nullopt; };
  }
  void restart(std::vector<std::string> arguments = {}) {
    kill_manager();
    more_arguments_ = std::move(arguments);
    start();
  }
  // Orders it and waits for the crash that the fault brings.
  void crash_in(const std::string& call_name, const JsonObject& body) {
    (void)call(call_name, body);
    pump_until([&] { return has_ended(); });
    EXPECT_TRUE(WIFSIGNALED(exit_status_)) << "the point was not reached";
    restart();
  }
  void until_state(const std::string& id, const std::string& state) {
    pump_until([&] { return state_of(id) == state; });
  }
  void delete_all(const std::string& id) {
    EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200);
    expect_nothing_left();
    EXPECT_EQ(held(id), 0u);
  }
};

}  // namespace space
