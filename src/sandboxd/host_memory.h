// The machine's memory, as its kernel counts it.
#pragma once

#include <unistd.h>

#include <cstdint>

namespace space {

inline std::int64_t host_memory_mib() {
  return std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE) / (1024 * 1024);
}

}  // namespace space
