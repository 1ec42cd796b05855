// What clients say of a sandbox's way out: at its creation, and to the routes below
// /v1/sandboxes/{id}/egress. Pure; fuzzed. Policies are core/egress_policy.h's, which also judges them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "core/egress_policy.h"
#include "store/records.h"

namespace space::control {

// What a creator asks for.
struct EgressWish {
  std::optional<EgressPolicy> policy;  // nullopt: nothing; then the operator's default counts
  bool on_top = false;                 // exceptions from what is open by default
};

// The policy of a sandbox: the wish, on top of the operator's default where it leaves something open.
EgressPolicy egress_of(const EgressWish& wish, EgressMode by_default);

// `body` of a create has "egress". nullopt: it has not.
Result<std::optional<EgressPolicy>> read_egress(const JsonObject& body, EgressRights rights);

// The body of PUT …/egress. invalid_argument, permission_denied: why it is none.
Result<EgressPolicy> parse_egress_request(std::string_view body, EgressRights rights);

// The body of POST …/egress/rules {"allow":[…],"deny":[…],"remove":[…]}; "remove" has texts of rules.
struct EgressEdit {
  JsonArray allow, deny;
  std::vector<std::string> remove;
};
Result<EgressEdit> parse_egress_edit(std::string_view body);
// A rule that is there already changes nothing. To allow something in deny_all makes it restricted.
// invalid_argument also: a rule to remove that is not there.
Result<EgressPolicy> edited(const EgressPolicy& policy, const EgressEdit& edit, EgressRights rights);

// The body of POST …/egress/test {"url"} or {"host","port"}, as the node takes it but for the id.
Result<JsonObject> parse_egress_test(std::string_view body);

// GET …/egress/log?after=&limit=&wait= (seconds), as the node takes it but for the id.
Result<JsonObject> parse_egress_log_query(std::string_view query);

// "?force=true": broad wildcards are meant.
bool is_forced(std::string_view query);

// A policy as it is stored and sent. exhausted: too large for one message.
Result<std::string> policy_text(const EgressPolicy& policy);
Result<EgressPolicy> policy_of(const store::Egress& egress);

}  // namespace space::control
