// Shape: the size of a sandbox's machine, and what is allowed. Pure.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace space {

struct Shape {
  std::int64_t vcpus = 1;
  std::int64_t memory_mib = 512;
  std::int64_t disk_mib = 4096;
  bool operator==(const Shape&) const = default;
};

namespace shape_limits {
inline constexpr std::int64_t vcpus_min = 1, vcpus_max = 32;
inline constexpr std::int64_t memory_mib_min = 128, memory_mib_max = 65536;
inline constexpr std::int64_t disk_mib_min = 512, disk_mib_max = 1024 * 1024;
}  // namespace shape_limits

// invalid_argument naming the member, its value and its bounds.
Result<void> check_shape(const Shape& shape);

}  // namespace space
