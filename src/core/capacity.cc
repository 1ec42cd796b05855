#include "core/capacity.h"

namespace space {

Result<void> admit_memory(const Shape& shape, std::int64_t committed_mib, std::int64_t limit_mib) {
  const std::int64_t cost_mib = memory_cost_mib(shape);
  if (cost_mib <= limit_mib - committed_mib) return {};
  return fail(Code::exhausted,
              "this node's memory is promised: the sandbox needs {} MiB, {} of {} MiB are in use. Kill "
              "sandboxes, take a smaller template, or raise memory_limit_mib",
              cost_mib, committed_mib, limit_mib);
}

}  // namespace space
