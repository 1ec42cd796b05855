// FakeNode: where its sandboxes may connect to.
#include "control/fake_node.h"

namespace space::control {

Task<CallResponse> FakeNode::egress(std::string call, JsonObject body) {
  egress_calls.emplace_back(call, body);
  const auto found = sandboxes.find(require_text(body, "id").value_or(""));
  if (found == sandboxes.end()) co_return refusal({Code::not_found, "not here"});
  if (!call.empty()) {
    if (egress_answer.empty()) co_return refusal({Code::unavailable, "the network gateway does not answer"});
    co_return ok(egress_answer);
  }
  if (egress_error) co_return refusal(*egress_error);
  found->second.egress = body.at("policy");
  const std::int64_t generation = ++found->second.egress_generation;
  while (egress_hangs) co_await changed_.wait();
  co_return ok({{"generation", generation}, {"cut", 2}});
}

}  // namespace space::control
