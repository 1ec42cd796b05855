// FakeNode: a node in memory. Speaks api/node-rpc.md over one end of a stream; its sandboxes are a map, and
// behind each tunnel stands a small HTTP server that says which sandbox it belongs to. Sandboxes pause,
// resume and stop as a real node's do, in as many steps as a test wants.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "core/lifecycle.h"
#include "core/snapshot.h"
#include "net/h2_session.h"
#include "net/http.h"

namespace space::control {

class FakeNode {
 public:
  explicit FakeNode(const Executor& executor) : executor_(executor), changed_(executor) {}

  struct Sandbox {
    State state = State::running;
    std::string reason;
    JsonObject request;  // of its create
    bool idle = false;
    JsonObject resumed_with = {};  // the last resume
    JsonArray snapshots = {};
    std::int64_t last_snapshot = 0;
    bool cold = false;  // paused with nothing but its newest snapshot
    Json restored_from = {};
    std::int64_t head = 0, undo = 0;  // numbers of snapshots
    Json schedule = {};
    std::string recovery = "disk";
    Json recovered = {};
    bool disk_kept = false, awaits_init = false;
    JsonObject policy = {{"idle_pause_s", nullptr}, {"hot_keep_s", 300}};
    Json egress = {};
    std::int64_t egress_generation = 0;
  };
  std::map<std::string, Sandbox> sandboxes;
  std::set<std::string> templates;
  std::optional<Error> create_error;   // answer of every create
  bool create_hangs = false;           // until the session ends
  bool moves_hang = false;             // pauses, resumes and stops stay in their transition
  std::optional<Error> move_error;     // answer of every one of them; the sandbox is as before
  std::vector<std::string> moves;      // "pause i…", in the order of the calls
  std::vector<std::string> woken;      // out of an idle pause, by a tunnel
  std::vector<std::string> parked;     // ids in the warm pool
  bool pool_hangs = false;             // an answer to pool/take never comes
  std::vector<JsonObject> pool_calls;  // takes and sets
  int refusals_left = 0;               // dials to port 7000 that are refused before one works
  int tunnels_open = 0;
  std::vector<std::string> created, deleted;
  std::vector<std::string> called;              // told that a client called it
  std::map<std::string, JsonObject> stats;      // answers, by sandbox; none: its guest is silent
  std::map<std::string, JsonArray> logs;        // entries, by sandbox
  std::map<std::string, JsonObject> isolation;  // answers, by sandbox
  JsonObject log_request;                       // the last one

  // fake_node_snapshots.cc
  std::set<SnapshotId> held, published;  // snapshots that outlive their sandboxes
  std::vector<SnapshotId> withdrawn;
  std::vector<JsonObject> snapshot_calls;  // of sandbox/snapshot
  std::optional<Error> snapshot_error;     // answer of every one of them
  int snapshot_refusals = 0;               // of a guest that does not stand still, before one that does
  bool snapshot_hangs = false;             // it is made, and the answer stays away
  int published_asked = 0;
  // Of the nth create, from 0; nullopt: it works.
  std::function<std::optional<Error>(std::size_t)> refuse_create;

  // fake_node_lineage.cc
  std::vector<std::pair<std::string, JsonObject>> lineage_calls;  // names and bodies, in their order
  JsonObject history, difference;                                 // answers
  bool loses_rollbacks = false;                                   // its daemon dies when it hears of one

  // fake_node_egress.cc
  std::vector<std::pair<std::string, JsonObject>> egress_calls;  // names and bodies, in their order
  std::optional<Error> egress_error;                             // answer of every change; nothing changes
  bool egress_hangs = false;  // a change is carried out, its answer stays away
  JsonObject egress_answer;   // of tests, logs and stats
  Json network;               // of every sandbox object

  // As a VMM's death: "recovering", until its token comes.
  void crash(std::string id, std::string cause);

  // Events at their most awkward: of a state it had once.
  void say(std::string id, State state, bool idle = false);
  void lose_events();  // the next answer to events has a gap
  void wake();         // after a change of the members above

  // Serves a session over `transport` until it ends.
  Task<void> serve(StreamPtr transport);
  void drop_session();                                           // as a crash of the node's daemon
  void report(std::string id, State state, std::string reason);  // an event; the sandbox's streams break

 private:
  Task<CallResponse> call(CallRequest request);
  Task<CallResponse> create(JsonObject body);
  Task<CallResponse> events(JsonObject body);
  Task<CallResponse> move(std::string verb, JsonObject body);
  Task<CallResponse> pool(std::string path, JsonObject body);
  CallResponse keep(const std::string& path, const JsonObject& body);
  static CallResponse ok(const JsonObject& body);
  static CallResponse refusal(const Error& error);
  static JsonObject snapshot_object(std::size_t number, std::string_view kind, std::string_view cause);
  Task<CallResponse> take_snapshot(JsonObject body);
  CallResponse make_snapshot(const JsonObject& body);
  std::optional<Error> refuses_from(const JsonObject& body) const;
  CallResponse published_call(const std::string& path, const JsonObject& body);
  Task<CallResponse> lineage(std::string path, JsonObject body);
  Task<CallResponse> roll_back(JsonObject body);
  CallResponse snapshot_number(const std::string& call, const JsonObject& body);
  Task<CallResponse> egress(std::string call, JsonObject body);
  CallResponse remove(const JsonObject& body);
  CallResponse list() const;
  CallResponse stats_of_all(const JsonObject& body) const;
  CallResponse observe(const std::string& path, const JsonObject& body);
  Task<Result<H2Handlers::Tunnel>> connect(std::string authority);
  Task<void> tunnel(StreamPtr stream, std::string id);
  Task<bool> answer(http::ServerConnection& connection, http::RequestHead head, std::string id);
  void break_streams(const std::string& id);
  JsonObject object(const std::string& id) const;

  Executor executor_;
  Event changed_;
  std::shared_ptr<H2Session> session_;
  std::multimap<std::string, http::ServerConnection*> connections_;
  std::vector<JsonObject> events_;
  bool gap_ = false;
};

}  // namespace space::control
