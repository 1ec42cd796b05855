// The rows of the control plane's database, as values. Times are UTC milliseconds.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/lifecycle.h"
#include "core/recovery.h"
#include "core/schedule.h"
#include "core/shape.h"
#include "core/snapshot.h"

namespace space::store {

// A tenant. Everything below belongs to one, but templates of the operator, which all may use.
struct Team {
  std::string id;
  std::string name;  // one word of [a-z0-9-]; the prefix in "team/template"
};

// The key itself is never stored: 160 random bits need no salt, its SHA-256 is enough to recognise it.
struct ApiKey {
  std::string sha256_hex;
  std::string team;
  std::string name;
  Wall created_at{};
};

// A name that clients use, and the digest it stands for today.
struct Template {
  std::string id;    // stays the same when the name gets a new digest
  std::string name;  // unique
  std::string digest;
  Shape shape;  // default of sandboxes made from it
  std::string default_user;
  std::string default_workdir;
  Wall updated_at{};
};

// What the creator chose and reads back, unchanged for the sandbox's life but for what EgressChange has.
// Environment variables are not among it: they may hold secrets, go to the node and nowhere else.
struct SandboxOptions {
  std::map<std::string, std::string> metadata;
  std::optional<bool> allow_internet_access;
  std::string network;  // JSON object as given, "" when none
  bool allow_public_traffic = true;
  std::string mask_request_host;  // "" = the client's Host
};

// What happens at the end of its timeout, and who may wake it. Chosen at its creation.
struct Lifecycle {
  bool pause_on_timeout = false;   // false: it is killed
  bool pause_keeps_memory = true;  // false: that pause keeps the disk only
  bool auto_resume = false;        // a request to one of its ports wakes it
};

// When the node rests it by itself, and for how long with its memory at hand. Empty: the node's defaults.
struct PausePolicy {
  std::optional<std::int64_t> idle_pause_s;
  std::optional<std::int64_t> hot_keep_s;
  bool operator==(const PausePolicy&) const = default;
};

// Where it may connect to (core/egress_policy.h), as its node has it.
struct Egress {
  std::string policy = R"({"mode":"deny_all"})";  // JSON object
  std::int64_t generation = 0;                    // grows with every change; a fork begins with its parent's
  bool operator==(const Egress&) const = default;
};

struct Sandbox {
  std::string id;
  std::string team;
  State state = State::creating;
  Wanted wanted = Wanted::running;
  std::int64_t generation = 1;  // grows with every change of what is wanted
  std::string template_id;
  std::string template_name;
  std::string template_digest;
  Shape shape;
  SandboxOptions options;
  std::string access_token;    // X-Access-Token of its daemon; "" = open
  std::string traffic_token;   // for its other ports; "" = public
  std::int64_t timeout_s = 0;  // of its creation
  Wall started_at{};           // of the last start; until the first one, of the request
  Wall end_at{};
  std::optional<Wall> ended_at;  // set once it is over: then the row is a tombstone and never changes
  std::string reason;            // why it is over, or will be
  Lifecycle lifecycle;
  PausePolicy policy;
  std::string default_user;  // of its template when it was made; "" = not kept
  std::string default_workdir;
  std::optional<SnapshotSchedule> schedule;
  RecoveryPolicy recovery = RecoveryPolicy::disk;
  std::optional<SnapshotId> origin;  // the snapshot it began as; nullopt: its template
  Egress egress;
};

// A new policy, and what E2B's members say of it from now on.
struct EgressChange {
  Egress egress;
  std::optional<bool> allow_internet_access = {};
  std::string network = {};  // SandboxOptions::network
};

// What changes of a sandbox when its state does.
struct StateChange {
  State state = State::running;
  std::optional<Wanted> wanted = {};  // absent: as it was
  std::optional<Wall> started_at = {};
  std::optional<Wall> end_at = {};
  std::optional<bool> pause_on_timeout = {};
  std::optional<std::string> reason = {};
};

// One build of a snapshot template: a snapshot that its team creates sandboxes from, whatever becomes of the
// sandbox it was taken of. Builds of one name share the template's id; those of one tag follow each other,
// and the tag means the newest.
struct SnapshotTemplate {
  std::int64_t build = 0;  // grows with every build
  std::string id;          // of the template
  std::string team;
  std::string name;  // one word, unique among the team's; "" = none
  std::string tag = "default";
  Wall created_at{};
  SnapshotId snapshot;
  Shape shape;
  std::string base_id, base_name, base_digest;  // the template that the snapshot's sandbox was made from
  std::string default_user, default_workdir;
};

// The newest builds of tags, newest first.
struct SnapshotTemplateQuery {
  std::string team;
  std::string sandbox;     // that it was taken of; "" = any
  std::string id_or_name;  // "" = any
  std::string tag;         // "" = any
  std::size_t limit = 100;
  std::optional<std::int64_t> before;  // the build shown last
};

struct SnapshotTemplatePage {
  std::vector<SnapshotTemplate> snapshots;
  bool more = false;
};

enum class Order : unsigned char { oldest_first, newest_first };

// Position in a listing: the sandbox shown last.
struct ListPosition {
  Wall started_at{};
  std::string id;
};

struct SandboxQuery {
  std::string team;
  std::vector<State> states;                    // any of them
  std::map<std::string, std::string> metadata;  // all of them, exactly
  std::optional<Wall> started_after;            // inclusive
  std::string template_id_or_name;              // "" = any
  Order order = Order::newest_first;
  std::size_t limit = 100;
  std::optional<ListPosition> after;
};

struct SandboxPage {
  std::vector<Sandbox> sandboxes;
  bool more = false;
};

}  // namespace space::store
