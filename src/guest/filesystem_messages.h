// The requests of filesystem.Filesystem (api/envd.md) from their JSON form, as lenient as protobuf's: members
// in camel or snake case, numbers as text. Pure; fuzzed.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"

namespace space::guest {

struct MoveRequest {
  std::string source;
  std::string destination;
};
struct ListRequest {
  std::string path;
  std::uint32_t depth = 1;  // at least 1
};
struct WatchRequest {
  std::string path;
  bool recursive = false;
  bool include_entry = false;
  bool allow_network_mounts = false;
};

// Paths as the client wrote them. Absent is empty: the default folder; where something is made, moved or
// removed a path is required.
Result<std::string> parse_path(const JsonObject& message);           // Stat
Result<std::string> parse_required_path(const JsonObject& message);  // MakeDir, Remove
Result<MoveRequest> parse_move(const JsonObject& message);
Result<ListRequest> parse_list(const JsonObject& message);
Result<WatchRequest> parse_watch(const JsonObject& message);
Result<std::string> parse_watcher_id(const JsonObject& message);

}  // namespace space::guest
