// What the command line said, one struct per command. Filled by the *_cli.cc files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace space::cli {

struct CommonOptions {
  std::string api_url;
  std::string api_key;
  bool json = false;
};

struct Directories {
  std::string state = "/var/lib/space";
  std::string run = "/run/space";
};

struct UpOptions {
  Directories directories;
  std::string listen = "127.0.0.1:3000";
  std::string config = "/etc/space/space.toml";
  // Absent: the daemons' own defaults. The pool's size counts when it is made, at the first start.
  std::optional<std::int64_t> pool_mib;
  std::optional<std::int64_t> memory_limit_mib;
  std::optional<std::int64_t> disk_mib_per_s, disk_iops, network_mbit_per_s;  // of each sandbox; 0: no limit
  bool allow_tcg_multitenant = false;
  std::vector<std::string> allow_missing_layers;
  std::optional<std::int64_t> warm_pool, warm_pool_max, hot_keep_s, shutdown_limit_s;
  std::vector<std::string> resolvers, deny;  // of the network gateway
  std::string egress_default;                // empty: the API's own
  bool egress_internal = false;              // API keys may open addresses that are closed to sandboxes
  bool detach = false;
};

struct DownOptions {
  Directories directories;
  std::string config = "/etc/space/space.toml";
  bool all = false;
  bool keep_running = false;
};

// Empty: not given; then the configuration file's, then the default.
struct DoctorOptions {
  std::string state;
  std::string run;
  std::string config = "/etc/space/space.toml";
};

// What a policy begins as; rules as text.
struct EgressFlags {
  std::string mode;
  std::vector<std::string> allow, deny;
};

struct EgressEditOptions {
  std::string sandbox;
  std::string list;  // "allow", "deny" or "remove"
  std::vector<std::string> rules;
  bool force = false;
};

struct EgressSetOptions {
  std::string sandbox;
  EgressFlags flags;
  std::string file;  // with a policy as JSON; "-": standard input
  bool force = false;
};

struct EgressTestOptions {
  std::string sandbox;
  std::string url;  // or HOST:PORT
};

struct EgressLogOptions {
  std::string sandbox;
  bool follow = false;
  bool denied = false;
};

struct CreateOptions {
  std::string template_name = "base";
  std::string life = "3600";  // seconds, or "never"
  std::string on_timeout = "kill";
  bool auto_resume = false;
  std::optional<std::int64_t> idle_pause_s;
  EgressFlags egress;
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::string> env;
};

struct MoveOptions {
  enum class Kind : unsigned char { pause, resume, stop, start } kind = Kind::pause;
  std::vector<std::string> sandboxes;
  std::string life = "3600";
  bool boot = false;
};

struct ForkOptions {
  std::string sandbox;
  std::int64_t count = 1;
  std::optional<std::int64_t> snapshot;  // absent: as it is now
  std::string life;                      // empty: the API's default
};

struct SnapshotOptions {
  std::string sandbox;
  bool disk = false;
  std::string name;
  bool pinned = false;
};

// One snapshot of a sandbox, and what becomes of it.
struct SnapshotChange {
  enum class Kind : unsigned char { remove, pin, unpin, rename } kind = Kind::remove;
  std::string sandbox;
  std::vector<std::int64_t> numbers;
  std::string name;  // rename: empty takes it away
};

struct RollbackOptions {
  std::string sandbox;
  std::optional<std::int64_t> number;
  bool undo = false;
};

struct ScheduleOptions {
  std::string sandbox;
  std::string word;  // "default", "off" or empty
  std::string file;  // with a schedule as JSON; "-": standard input
  // 10m, 6x10m,24x1h and 10GiB, checked when the schedule is made of them.
  std::string disk_every, disk_keep, full_every, full_keep, quota;
};

struct RecoveryOptions {
  std::string sandbox;
  std::string policy;  // empty: leave it
  bool now = false;
};

struct DiffOptions {
  std::string sandbox;
  std::int64_t from = 0;
  std::int64_t to = 0;
};

struct PoolOptions {
  std::string template_name;
  std::optional<std::int64_t> target;  // absent: the node's default
};

struct ExecOptions {
  std::string sandbox;
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;
  std::string cwd;
  std::string user;
  std::string tag;
  bool terminal = false;
  bool interactive = false;  // standard input goes to it even if it is a terminal
  bool no_stdin = false;     // and it does not even if it is piped in
  bool detach = false;
  int timeout_seconds = 0;
};

struct ShellOptions {
  std::string sandbox;
  std::string user;
  std::string attach;  // pid or tag; empty: a new shell
};

struct ProcessOptions {
  std::string sandbox;
  std::string process;  // pid or tag
  std::string signal = "TERM";
  bool interactive = false;
};

struct CopyCommand {
  std::vector<std::string> sources;
  std::string destination;
  std::string user;  // whose files they are in a sandbox; empty: the template's
  bool resume = false;
  bool quiet = false;
};

struct WatchOptions {
  std::string sandbox;
  std::string path;
  std::string user;
  bool recursive = false;
};

struct LogsOptions {
  std::string sandbox;
  bool follow = false;
  std::string since;  // "10m" or a time
  std::string level;
};

struct TopOptions {
  bool once = false;
  std::string sort = "cpu";
};

struct ForwardOptions {
  std::string sandbox;
  std::vector<std::string> ports;  // [LOCAL:]REMOTE
};

struct UrlOptions {
  std::string sandbox;
  int port = 0;
};

struct RunOptions {
  CreateOptions create;
  ExecOptions exec;
  bool keep = false;
};

struct TemplateBuildOptions {
  Directories directories;
  std::string config = "/etc/space/space.toml";
  std::string name = "base";
  std::string recipe;
};

}  // namespace space::cli
