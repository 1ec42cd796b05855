// The JSON bodies that clients send. What is accepted must hold its own promises. The same bytes also as an
// answer of the node.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/json.h"
#include "control/create_request.h"
#include "control/egress_json.h"
#include "control/egress_request.h"
#include "control/network_options.h"
#include "control/snapshot_json.h"

using namespace space;
using namespace space::control;

namespace {

void check_keeping(std::string_view body) {
  if (const auto wanted = parse_snapshot_request(body); wanted && wanted->name.size() > snapshot_name_max)
    std::abort();
  if (const auto change = parse_snapshot_change(body); change && !change->name && !change->pinned)
    std::abort();
  if (const auto rollback = parse_rollback_request(body); rollback && rollback->number.value_or(1) < 1)
    std::abort();
  if (const auto schedule = parse_schedule_request(body)) {
    const auto again = read_schedule(schedule_json(*schedule));
    if (!again || *again != *schedule) std::abort();
  }
  (void)parse_recovery_request(body);
}

// What is accepted is accepted again as it is stored, and means the same.
void check_policy(const EgressPolicy& policy) {
  const auto text = policy_text(policy);
  if (!text) return;
  const auto again = policy_of({*text, 1});
  if (!again || *again != policy) std::abort();
}

void check_egress(std::string_view body) {
  if (const auto policy = parse_egress_request(body, {.may_internal = true, .force = true}))
    check_policy(*policy);
  if (const auto edit = parse_egress_edit(body))
    if (const auto policy = edited({.mode = EgressMode::deny_all}, *edit, {})) check_policy(*policy);
  if (const auto change = parse_network_change(body)) {
    check_policy(egress_of(change->wish, EgressMode::deny_all));
    (void)changed_network(std::string(body), change->lists);
  }
  (void)parse_egress_test(body);
  (void)parse_egress_log_query(body);
}

void check_answers(std::string_view body) {
  const auto object = parse_json_object(body, "answer");
  if (!object) return;
  constexpr std::int64_t limit = 3;
  if (const auto diff = diff_json(*object, limit); diff && diff->at("changes").as_array().size() > limit)
    std::abort();
  (void)snapshots_json(*object);
  (void)history_json(*object);
  (void)recovery_json({}, *object);
  (void)egress_json({}, *object, *object);
  (void)egress_test_json(*object);
  (void)egress_log_json(*object);
  JsonObject shown;
  (void)add_lineage(shown, {}, *object);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::int64_t max_s = 24 * 3600;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const ApiVersion version : {ApiVersion::v1, ApiVersion::v2}) {
    if (const auto request = parse_create_request(body, version, max_s)) {
      if (request->template_name.empty() || request->timeout_s < 1 || request->timeout_s > max_s)
        std::abort();
      if (!request->options.network.empty() && !parse_json(request->options.network)) std::abort();
      check_policy(egress_of(request->egress, EgressMode::restricted));
    }
    if (const auto request = parse_connect_request(body, version, max_s))
      if (request->timeout_s < 1 || request->timeout_s > max_s) std::abort();
  }
  (void)parse_pause_request(body);
  check_keeping(body);
  check_egress(body);
  check_answers(body);
  if (const auto policy = parse_pause_policy(body, {}); policy && policy->idle_pause_s.value_or(1) < 1)
    std::abort();
  if (const auto timeout_s = parse_timeout_request(body); timeout_s && *timeout_s < 1) std::abort();
  return 0;
}
