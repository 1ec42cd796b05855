// The whole sandbox manager: sandboxes that begin from a snapshot of another, who may, what they are told,
// and how long the snapshot stays for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sandboxd/node_fixture.h"

namespace space {
namespace {

const std::string child_token = "fedcba9876543210fedcba9876543210";

std::string text_of(const Json& value) {
  return value.is_string() ? std::string(value.as_string()) : "";
}

class ForkTest : public NodeTest {
 protected:
  void restart(std::vector<std::string> arguments) {
    kill_manager();
    more_arguments_ = std::move(arguments);
    start();
  }
  JsonObject snapshot(const std::string& id, JsonObject wish) {
    wish["id"] = id;
    const Answer taken = call("sandbox/snapshot", wish);
    EXPECT_EQ(taken.status, 200) << to_text(taken.body);
    return taken.status == 200 ? taken.body : JsonObject{{"number", 0}};
  }
  std::uint64_t for_fork(const std::string& id) { return number_of(snapshot(id, {{"cause", "fork"}})); }
  static std::uint64_t number_of(const JsonObject& snapshot) {
    return snapshot.at("number").to_number<std::uint64_t>();
  }
  static JsonObject body_from(const std::string& id, const std::string& source, std::uint64_t number) {
    return {{"id", id},
            {"team", "a"},
            {"generation", 1},
            {"access_token", child_token},
            {"from", {{"sandbox", source}, {"number", number}}}};
  }
  std::string forked(const std::string& source, std::uint64_t number) {
    const std::string id = new_sandbox_id();
    const Answer answer = call("sandbox/create", body_from(id, source, number));
    EXPECT_EQ(answer.status, 200) << to_text(answer.body);
    return id;
  }
  void expect_refused(const JsonObject& body, int status, const std::string& says = "") {
    const Answer answer = call("sandbox/create", body);
    EXPECT_EQ(answer.status, status) << to_text(answer.body);
    if (answer.status != 200)
      EXPECT_NE(std::string(answer.body.at("message").as_string()).find(says), std::string::npos)
          << to_text(answer.body);
    EXPECT_FALSE(noded_->vm(std::string(body.at("id").as_string())));
    EXPECT_EQ(state_of(std::string(body.at("id").as_string())), "");
  }
  char& mark(const std::string& id) {
    return reinterpret_cast<char&>(noded_->vm(id)->memory().bytes()[std::size_t{100} << 20]);
  }
  JsonObject info(const std::string& id) { return call("sandbox/get", {{"id", id}}).body; }
  bool is_there(const std::string& id, std::uint64_t number) {
    return noded_->snapshots.finished(id, number) != nullptr;
  }
  void remove(const std::string& id) { EXPECT_EQ(call("sandbox/delete", {{"id", id}}).status, 200); }
  void order(const std::string& name, const std::string& id) {
    const Answer answer = call("sandbox/" + name, {{"id", id}, {"access_token", child_token}});
    EXPECT_EQ(answer.status, 200) << name << ": " << to_text(answer.body);
  }
  void go_cold(const std::string& id) {
    ASSERT_EQ(call("sandbox/policy", {{"id", id}, {"hot_keep_s", 0}}).status, 200);
    order("pause", id);
    pump_until([&] { return info(id).at("memory") == "cold"; });
    pump_until([&] { return !noded_->vm(id); });
  }
  std::size_t published() { return call("snapshot/published", {}).body.at("snapshots").as_array().size(); }
  void let_it_settle() {
    const Deadline until = Deadline::after(700ms);
    while (!until.passed()) loop_.run_one_for(10ms);
  }
};

TEST_F(ForkTest, GoesOnFromTheMemoryOfAnotherAndIsSomebodyElse) {
  const std::string source = created();
  mark(source) = 'x';
  const std::uint64_t number = for_fork(source);
  mark(source) = 'y';
  const std::string id = new_sandbox_id();
  JsonObject body = body_from(id, source, number);
  body["env"] = {{"MORE", "1"}};
  const Answer answer = call("sandbox/create", body);
  ASSERT_EQ(answer.status, 200) << to_text(answer.body);
  const auto vm = noded_->vm(id);
  EXPECT_EQ(mark(id), 'x');
  EXPECT_EQ(text_of(vm->identity.at("sandbox_id")), id);
  EXPECT_EQ(text_of(vm->init.at("access_token")), child_token);
  EXPECT_FALSE(vm->init.contains("env")) << "it would take the place of what the memory has";
  EXPECT_EQ(vm->init.at("env_added").at("MORE"), "1");
  EXPECT_FALSE(vm->frozen);
  EXPECT_FALSE(vm->stands_still());
  ASSERT_EQ(vm->wakes.size(), 1u);
  EXPECT_TRUE(vm->wakes[0].contains("entropy"));
  EXPECT_EQ(vm->wakes[0].at("thaw"), false) << "its programs run once it is written down";
  EXPECT_EQ(vm->generation, 2);
  EXPECT_EQ(answer.body.at("generation_counter"), 2);
  EXPECT_EQ(text_of(answer.body.at("origin").at("sandbox")), source);
  EXPECT_EQ(answer.body.at("restored_from").at("number"), number);
  EXPECT_EQ(answer.body.at("memory_mib"), 512);
  EXPECT_EQ(echo(id, "mine"), "mine");
  // Nothing of it has reached the source.
  EXPECT_EQ(mark(source), 'y');
  EXPECT_EQ(text_of(noded_->vm(source)->identity.at("sandbox_id")), source);
  EXPECT_EQ(text_of(noded_->vm(source)->init.at("access_token")), token);
  mark(id) = 'z';
  EXPECT_EQ(mark(source), 'y');
  EXPECT_EQ(call("sandbox/create", body).status, 200) << "asked again: the same";
  const JsonObject history = call("sandbox/history", {{"id", source}}).body;
  ASSERT_EQ(history.at("events").as_array().size(), 1u);
  EXPECT_EQ(history.at("events").at(0).at("kind"), "fork");
  EXPECT_EQ(text_of(history.at("events").at(0).at("other")), id);
  EXPECT_EQ(text_of(history.at("forks").at(0).at("id")), id);
  remove(id);
  remove(source);
  expect_nothing_left();
  EXPECT_TRUE(noded_->snapshots.of.empty());
}

TEST_F(ForkTest, OfASnapshotOfTheDiskBootsAsSomebodyElse) {
  const std::string source = created();
  mark(source) = 'x';
  noded_->sandboxes.at(source).content = "written";
  const JsonObject taken = snapshot(source, {{"kind", "disk"}});
  EXPECT_EQ(taken.at("kind"), "disk");
  noded_->sandboxes.at(source).content = "more";
  const std::string id = forked(source, number_of(taken));
  EXPECT_EQ(noded_->sandboxes.at(id).content, "written");
  EXPECT_EQ(mark(id), 0);
  const auto vm = noded_->vm(id);
  EXPECT_EQ(text_of(vm->identity.at("sandbox_id")), id);
  EXPECT_EQ(text_of(vm->init.at("access_token")), child_token);
  EXPECT_EQ(vm->generation, 2);
  EXPECT_EQ(info(id).at("origin").at("number"), number_of(taken));
  EXPECT_TRUE(info(id).at("restored_from").is_null());
  EXPECT_EQ(echo(id, "mine"), "mine");
  remove(source);
  EXPECT_FALSE(is_there(source, number_of(taken))) << "whoever has booted needs it no more";
  EXPECT_EQ(echo(id, "still"), "still");
  remove(id);
  expect_nothing_left();
}

TEST_F(ForkTest, NothingBeginsFromAGuestThatWasCutInTheMiddle) {
  noded_->behaviour.never_freezes = true;
  const std::string source = created();
  const std::uint64_t cut = number_of(snapshot(source, {}));
  expect_refused(body_from(new_sandbox_id(), source, cut), 409, "snapshot");
  noded_->behaviour.never_freezes = false;
  const std::string other = created();
  remove(forked(other, number_of(snapshot(other, {}))));
  remove(source);
  remove(other);
  expect_nothing_left();
}

TEST_F(ForkTest, WhatItIsComesFromTheSnapshot) {
  const std::string source = created(), other_digest(64, 'b');
  const std::uint64_t number = for_fork(source);
  for (const auto& [member, value] : {std::pair<const char*, Json>{"vcpus", 2},
                                      {"memory_mib", 1024},
                                      {"disk_mib", 8192},
                                      {"template", Json(std::string_view(other_digest))}}) {
    SCOPED_TRACE(member);
    JsonObject body = body_from(new_sandbox_id(), source, number);
    body[member] = value;
    expect_refused(body, 400, "snapshot");
  }
  JsonObject same = create_body(new_sandbox_id());
  same["from"] = {{"sandbox", source}, {"number", number}};
  EXPECT_EQ(call("sandbox/create", same).status, 200);
  EXPECT_EQ(text_of(info(std::string(same.at("id").as_string())).at("template")), digest);
}

TEST_F(ForkTest, OnlyWhatIsThereAndTheTeamsOwn) {
  allow_tcg_multitenant_ = true;
  restart({});
  const std::string source = created();
  const std::uint64_t number = for_fork(source);
  expect_refused(body_from(new_sandbox_id(), source, number + 1), 404);
  expect_refused(body_from(new_sandbox_id(), new_sandbox_id(), number), 404);
  expect_refused(body_from(new_sandbox_id(), "../../etc", number), 400);
  expect_refused(body_from(new_sandbox_id(), source, 0), 400);
  JsonObject foreign = body_from(new_sandbox_id(), source, number);
  foreign["team"] = "b";
  expect_refused(foreign, 404);
  foreign["team"] = "a";
  EXPECT_EQ(call("sandbox/create", foreign).status, 200);
}

TEST_F(ForkTest, AnotherProcessorIsRefusedWithTheReason) {
  const std::string source = created();
  const std::uint64_t number = for_fork(source);
  kill_manager();
  accelerator_ = "kvm";
  start();
  expect_refused(body_from(new_sandbox_id(), source, number), 409, "tcg");
  EXPECT_TRUE(is_there(source, number));
  kill_manager();
  accelerator_ = "tcg";
  start();
  forked(source, number);
}

TEST_F(ForkTest, WithoutMemoryNothingIsChanged) {
  memory_limit_mib_ = 2 * (512 + 128) + 10;
  restart({});
  const std::string source = created();
  const std::uint64_t number = for_fork(source);
  const std::string first = forked(source, number);
  expect_refused(body_from(new_sandbox_id(), source, number), 429, "memory");
  EXPECT_TRUE(is_there(source, number));
  EXPECT_EQ(state_of(source), "running");
  remove(first);
  forked(source, number);
}

TEST_F(ForkTest, OutlivesItsSourceAndLetsTheSnapshotGo) {
  restart({"--fork-keep-s", "1"});
  const std::string source = created();
  mark(source) = 'x';
  const std::uint64_t number = for_fork(source), other = number_of(snapshot(source, {}));
  const std::string id = forked(source, number);
  remove(source);
  EXPECT_TRUE(is_there(source, number)) << "its memory comes from it";
  EXPECT_FALSE(is_there(source, other)) << "nobody needs that one";
  expect_refused(body_from(new_sandbox_id(), source, other), 404);
  restart({"--fork-keep-s", "1"});
  EXPECT_TRUE(is_there(source, number));
  EXPECT_EQ(mark(id), 'x');
  mark(id) = 'y';
  EXPECT_EQ(number_of(snapshot(id, {})), 1u);
  go_cold(id);
  pump_until([&] { return !is_there(source, number); });
  restart({"--fork-keep-s", "1"});
  order("resume", id);
  EXPECT_EQ(mark(id), 'y');
  mark(id) = 'z';
  go_cold(id);
  order("resume", id);
  EXPECT_EQ(mark(id), 'z');
  order("stop", id);
  order("resume", id);
  EXPECT_EQ(echo(id, "up"), "up");
  remove(id);
  expect_nothing_left();
  pump_until([&] { return noded_->snapshots.of.empty(); });
}

TEST_F(ForkTest, ItsSourceMayGoWhileItBegins) {
  for (const auto verb : {noded::Verb::disk_restore, noded::Verb::vmm_launch, noded::Verb::snapshot_open}) {
    SCOPED_TRACE(static_cast<int>(verb));
    const std::string source = created();
    mark(source) = 'x';
    const std::uint64_t number = for_fork(source);
    const std::string id = new_sandbox_id();
    std::optional<Result<CallResponse>> removed;
    const std::size_t before = noded_->verbs.size();
    noded_->on_verb = [&](std::size_t nth, bool) {
      if (removed || nth <= before || noded_->verbs.back() != verb) return;
      removed.emplace(fail(Code::unavailable, "under way"));
      spawn(loop_.get_executor(), "delete",
            detail::store_result(
                session_->call({"POST", "/node/sandbox/delete", to_text(JsonObject{{"id", source}})},
                               Deadline::after(60s)),
                &removed));
    };
    const Answer answer = call("sandbox/create", body_from(id, source, number));
    noded_->on_verb = [](std::size_t, bool) {};
    EXPECT_EQ(answer.status, 200) << to_text(answer.body);
    pump_until([&] { return removed && *removed; });
    EXPECT_EQ((*removed)->status, 200);
    EXPECT_EQ(mark(id), 'x');
    EXPECT_EQ(state_of(source), "");
    remove(id);
    expect_nothing_left();
    pump_until([&] { return noded_->snapshots.of.empty(); });
  }
}

TEST_F(ForkTest, TenGenerationsOfForkOfFork) {
  std::vector<std::string> line{created()};
  std::set<std::string> identities;
  for (char generation = 1; generation <= 10; ++generation) {
    mark(line.back()) = generation;
    const std::uint64_t number = for_fork(line.back());
    line.push_back(forked(line.back(), number));
    EXPECT_EQ(mark(line.back()), generation);
    EXPECT_EQ(noded_->vm(line.back())->generation, generation + 1);
    identities.insert(std::string(noded_->vm(line.back())->identity.at("sandbox_id").as_string()));
  }
  EXPECT_EQ(identities.size(), 10u);
  // The oldest first: every one that is left has all it needs.
  while (line.size() > 1) {
    remove(line.front());
    line.erase(line.begin());
    EXPECT_EQ(echo(line.front(), "here"), "here");
  }
  EXPECT_EQ(mark(line.back()), 10);
  remove(line.back());
  expect_nothing_left();
  pump_until([&] { return noded_->snapshots.of.empty(); });
}

TEST_F(ForkTest, KilledAtEachVerbNothingIsLeftOver) {
  const std::string source = created();
  const std::uint64_t number = for_fork(source);
  for (const bool done : {false, true})
    for (std::size_t at = 1; at < 20; ++at) {
      SCOPED_TRACE(fmt::format("{} {}", at, done ? "after" : "before"));
      const std::size_t before = noded_->verbs.size();
      bool killed = false;
      noded_->on_verb = [&](std::size_t nth, bool after) {
        if (nth != before + at || after != done) return;
        killed = true;
        ::kill(pid_, SIGKILL);
      };
      const std::string id = new_sandbox_id();
      const Answer answer = call("sandbox/create", body_from(id, source, number));
      noded_->on_verb = [](std::size_t, bool) {};
      kill_manager();
      start();
      if (killed) {
        EXPECT_EQ(answer.status, 0);
        pump_until([&] { return state_of(id) != "creating"; });
        pump_until([&] { return noded_->sandboxes[id].empty(); });
      } else {
        EXPECT_EQ(answer.status, 200);
        at = 100;  // it has no more verbs
      }
      remove(id);
      EXPECT_TRUE(is_there(source, number));
      EXPECT_EQ(echo(source, "unharmed"), "unharmed");
    }
  remove(forked(source, number));
  remove(source);
  expect_nothing_left();
  EXPECT_TRUE(noded_->snapshots.of.empty());
}

TEST_F(ForkTest, AFailedBeginningHoldsNothing) {
  const std::string source = created();
  const std::uint64_t number = for_fork(source);
  for (const char* call_of_guest : {"wake"}) {
    noded_->behaviour.refuses = call_of_guest;
    const std::string id = new_sandbox_id();
    EXPECT_GE(call("sandbox/create", body_from(id, source, number)).status, 400);
    noded_->behaviour.refuses = "";
    EXPECT_EQ(state_of(id), "failed");
    pump_until([&] { return noded_->sandboxes[id].empty(); });
    remove(source);
    EXPECT_FALSE(is_there(source, number)) << "who failed needs nothing";
    remove(id);
  }
  expect_nothing_left();
}

TEST_F(ForkTest, WhatWasMadeForAForkGoesAfterAWhile) {
  restart({"--fork-keep-s", "1"});
  const std::string source = created();
  const std::uint64_t used = for_fork(source);
  const std::string id = forked(source, used);
  const std::uint64_t unused = for_fork(source), asked = number_of(snapshot(source, {}));
  EXPECT_TRUE(is_there(source, unused));
  pump_until([&] { return !is_there(source, unused); });
  EXPECT_TRUE(is_there(source, used)) << "somebody's memory comes from it";
  EXPECT_TRUE(is_there(source, asked)) << "it is the client's";
  expect_refused(body_from(new_sandbox_id(), source, unused), 404);
  remove(id);
  pump_until([&] { return !is_there(source, used); });
  EXPECT_TRUE(is_there(source, asked));
  EXPECT_EQ(echo(source, "fine"), "fine");
}

TEST_F(ForkTest, APublishedSnapshotStaysWithoutItsSourceUntilItIsWithdrawn) {
  restart({"--fork-keep-s", "0"});
  const std::string source = created();
  mark(source) = 'p';
  const std::uint64_t number = number_of(snapshot(source, {{"cause", "published"}, {"name", "mine"}}));
  EXPECT_EQ(published(), 1u);
  EXPECT_EQ(call("sandbox/snapshot/remove", {{"id", source}, {"number", number}}).status, 409);
  remove(source);
  restart({"--fork-keep-s", "0"});
  EXPECT_EQ(published(), 1u);
  const std::string id = forked(source, number);
  EXPECT_EQ(mark(id), 'p');
  const JsonObject withdraw{{"sandbox", source}, {"number", number}};
  EXPECT_EQ(call("snapshot/withdraw", withdraw).status, 200);
  EXPECT_EQ(published(), 0u);
  let_it_settle();
  EXPECT_TRUE(is_there(source, number)) << "somebody's memory comes from it";
  restart({"--fork-keep-s", "0"});
  EXPECT_EQ(published(), 0u);
  EXPECT_TRUE(is_there(source, number));
  remove(id);
  pump_until([&] { return !is_there(source, number); });
  EXPECT_EQ(call("snapshot/withdraw", withdraw).status, 200) << "again: nothing to do";
  expect_refused(body_from(new_sandbox_id(), source, number), 404);
  expect_nothing_left();
}

TEST_F(ForkTest, WithdrawnItGoesAlsoWhileItsSandboxIsThere) {
  const std::string source = created();
  const std::uint64_t number = number_of(snapshot(source, {{"cause", "published"}}));
  snapshot(source, {});  // so that the sandbox itself does not need it to compare with
  let_it_settle();
  EXPECT_TRUE(is_there(source, number));
  EXPECT_EQ(call("snapshot/withdraw", {{"sandbox", source}, {"number", number}}).status, 200);
  pump_until([&] { return !is_there(source, number); });
  EXPECT_EQ(echo(source, "fine"), "fine");
}

TEST_F(ForkTest, WhatIsAskedForOftenIsParkedAhead) {
  restart({"--warm-pool", "1"});
  const std::string source = created();
  mark(source) = 'p';
  const std::uint64_t number = number_of(snapshot(source, {{"cause", "published"}}));
  const JsonObject from{{"from", {{"sandbox", source}, {"number", number}}}};
  std::string id;
  pump_until([&] {
    const Answer taken = call("pool/take", from);
    if (taken.status == 200) id = std::string(taken.body.at("id").as_string());
    return !id.empty();
  });
  const auto vm = noded_->vm(id);
  ASSERT_TRUE(vm);
  EXPECT_TRUE(vm->frozen) << "nobody's programs run before it is somebody's";
  EXPECT_TRUE(vm->stands_still());
  EXPECT_EQ(std::ranges::count(vm->calls, "warm"), 0);
  const Answer bound = call("sandbox/create", body_from(id, source, number));
  ASSERT_EQ(bound.status, 200) << to_text(bound.body);
  EXPECT_EQ(noded_->vm(id), vm) << "the one that was parked";
  EXPECT_EQ(mark(id), 'p');
  EXPECT_EQ(text_of(vm->identity.at("sandbox_id")), id);
  EXPECT_EQ(text_of(vm->init.at("access_token")), child_token);
  EXPECT_EQ(vm->generation, 2);
  EXPECT_FALSE(vm->frozen);
  EXPECT_FALSE(vm->stands_still());
  EXPECT_EQ(bound.body.at("origin").at("number"), number);
  // A template's pool it is not.
  EXPECT_EQ(
      call("pool/take", {{"template", digest}, {"vcpus", 1}, {"memory_mib", 512}, {"disk_mib", 4096}}).status,
      404);
  pump_until([&] {
    for (const Json& pool : call("pool/list", {}).body.at("pools").as_array())
      if (pool.as_object().contains("from") && pool.at("parked").to_number<int>() > 0) return true;
    return false;
  });
  EXPECT_EQ(call("snapshot/withdraw", from.at("from").as_object()).status, 200);
  EXPECT_EQ(call("pool/take", from).status, 404);
  remove(id);
  remove(source);
  pump_until([&] { return noded_->holds_nothing() && noded_->snapshots.of.empty(); });
}

TEST_F(ForkTest, OnlyThePublishedHavePools) {
  const std::string source = created();
  const std::uint64_t number = for_fork(source);
  const JsonObject from{{"from", {{"sandbox", source}, {"number", number}}}};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(call("pool/take", from).status, 404);
  let_it_settle();
  std::size_t vms = 0;
  for (const auto& [id, held] : noded_->sandboxes) vms += held.vm ? 1 : 0;
  EXPECT_EQ(vms, 1u);
}

TEST_F(ForkTest, FiftyAtOnceAllBegin) {
  const std::string source = created();
  mark(source) = 'x';
  const std::uint64_t number = for_fork(source);
  std::vector<std::string> ids(50);
  std::vector<std::optional<Result<CallResponse>>> answers(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = new_sandbox_id();
    spawn(loop_.get_executor(), "fork",
          detail::store_result(
              session_->call({"POST", "/node/sandbox/create", to_text(body_from(ids[i], source, number))},
                             Deadline::after(60s)),
              &answers[i]));
  }
  pump_until([&] { return std::ranges::all_of(answers, [](const auto& a) { return a.has_value(); }); });
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(*answers[i]);
    EXPECT_EQ((*answers[i])->status, 200) << (*answers[i])->body;
    EXPECT_EQ(mark(ids[i]), 'x');
    EXPECT_EQ(text_of(noded_->vm(ids[i])->identity.at("sandbox_id")), ids[i]);
  }
}

}  // namespace
}  // namespace space
