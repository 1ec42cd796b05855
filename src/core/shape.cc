#include "core/shape.h"

namespace space {
namespace {

Result<void> check(std::string_view what, std::int64_t value, std::int64_t min, std::int64_t max) {
  if (value < min || value > max)
    return fail(Code::invalid_argument, "{} must be between {} and {}, not {}", what, min, max, value);
  return {};
}

}  // namespace

Result<void> check_shape(const Shape& shape) {
  using namespace shape_limits;
  SPACE_CHECK(check("vcpus", shape.vcpus, vcpus_min, vcpus_max));
  SPACE_CHECK(check("memory_mib", shape.memory_mib, memory_mib_min, memory_mib_max));
  return check("disk_mib", shape.disk_mib, disk_mib_min, disk_mib_max);
}

}  // namespace space
