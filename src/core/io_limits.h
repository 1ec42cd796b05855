// IoLimits: how much of the host's disk and network one sandbox may use, whatever its guest does. 0 = no
// limit.
#pragma once

#include <cstdint>

namespace space {

struct IoLimits {
  std::int64_t disk_mib_per_s = 400;  // reads and writes together
  std::int64_t disk_iops = 20'000;
  std::int64_t network_mbit_per_s = 1'000;  // each way
};

}  // namespace space
