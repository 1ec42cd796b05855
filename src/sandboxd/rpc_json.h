// RpcJson: the objects of api/node-rpc.md as JSON, and what several calls read of a request.
#pragma once

#include <memory>

#include "base/json.h"
#include "sandboxd/manager.h"

namespace space {

inline constexpr std::int64_t rpc_integer_max = std::int64_t{1} << 53;  // exact in every JSON reader

JsonObject to_json(const PausePolicy& policy);
JsonObject to_json(const Sandbox& sandbox);
// `used_by`: others; it adds the sandbox itself where that needs it.
JsonObject to_json(const Sandbox& sandbox, const SnapshotRecord& snapshot,
                   const std::vector<std::string>& used_by);
JsonObject to_json(const SnapshotId& snapshot);
JsonObject to_json(const HistoryRow& row);

Result<SnapshotId> parse_snapshot_id(const JsonObject& body);  // {"sandbox","number"}
Result<RecoveryPolicy> parse_recovery(const std::string& name);
Result<GuestInit> parse_guest_init(const JsonObject& body);
Result<Egress> parse_egress(const JsonObject& body);  // "egress" and "egress_generation"; without: nothing
// not_found: the sandbox that "id" names is not here, or is being deleted.
Result<std::shared_ptr<Sandbox>> find_sandbox(const Manager& manager, const JsonObject& body);

}  // namespace space
