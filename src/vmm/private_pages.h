// Which pages of guest memory are private to a running VMM, asked of the kernel. Blocking.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "vmm/memory_pages.h"

namespace space::vmm {

// Of the VMM's process, open for reading; the caller's.
struct MemoryFds {
  int mem = -1;
  int maps = -1;
  int pagemap = -1;
};

struct PrivatePages {
  std::uint64_t address = 0;  // of guest memory in the VMM
  std::vector<PageRun> runs;  // ordered
};

// PAGEMAP_SCAN of Linux 6.7, which looks at the pages that are there only; where it is missing, or with
// `allow_scan` false, the words of pagemap. Errors as find_guest_memory, and unavailable: the VMM is gone.
Result<PrivatePages> find_private_pages(MemoryFds vmm, std::uint64_t memory_bytes, bool allow_scan);

// The ioctl's number, for who lists the system calls of a process.
inline constexpr std::uint64_t pagemap_scan_request = 0xc0606610;

}  // namespace space::vmm
