// MemoryCapture: the pages that a VMM has written, from its memory into a snapshot's mem.raw. Plain blocking
// code for a worker thread, in two steps: `stage` while the VM stands still, `write` when it runs again.
//
// What a VMM has written stays private to it until it ends: no device of ours gives guest memory back. So the
// pages that are not private are what the launch memory holds, and so does the snapshot before.
//
// The descriptors are those that space-noded opened: an unprivileged process may read through them.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "vmm/memory_image.h"
#include "vmm/memory_pages.h"
#include "vmm/private_pages.h"
#include "vmm/staging_buffer.h"

namespace space::vmm {

struct CaptureStats {
  std::uint64_t private_pages = 0;   // in the VMM, however many checkpoints ago they were written
  std::uint64_t dirty_pages = 0;     // those that are not what mem.raw held
  std::uint64_t zero_pages = 0;      // of the dirty ones: they became holes
  std::uint64_t written_bytes = 0;   // pages that were written, times their size
  std::uint64_t unstaged_pages = 0;  // of the private ones: those that found no room
  std::uint64_t stage_us = 0;
  std::uint64_t write_us = 0;
};

class MemoryCapture {
 public:
  struct Options {
    std::uint64_t memory_bytes = 0;                            // of the guest; mem.raw is exactly as long
    std::uint64_t stage_limit_bytes = std::uint64_t{1} << 30;  // the buffer does not grow beyond
    unsigned threads = 0;    // that read, the caller's among them; 0: one a processor, at most 4
    bool allow_scan = true;  // PAGEMAP_SCAN where the kernel has it; the words of pagemap else
  };

  // How large the buffer must be to hold all that is private now; for growing it ahead of the window.
  // The VM may run.
  static Result<std::uint64_t> private_bytes(MemoryFds vmm, Options options);

  // The VM stands still. Copies private pages into `buffer`, which the capture uses until it is gone.
  // unavailable: the VMM is gone.
  static Result<MemoryCapture> stage(MemoryFds vmm, Options options, StagingBuffer& buffer);
  // Every private page found room.
  bool complete() const { return unstaged_.empty(); }
  // The VM still stands still: writes those that found none, as `write` does. Does nothing when complete.
  Result<void> write_unstaged(MemoryFds vmm, int mem_raw);

  // The VM may run. Makes `mem_raw` (open for reading and writing; what the VMM's memory was last known to
  // be) the memory of the moment of `stage` and syncs it. Only pages that differ are written; those that
  // became all zero are given back to the file system.
  Result<CaptureStats> write(int mem_raw);

 private:
  MemoryCapture() = default;

  void add(const ImageStats& image, std::chrono::steady_clock::time_point since);

  std::uint64_t memory_bytes_ = 0;
  std::uint64_t address_ = 0;             // of guest memory in the VMM
  std::span<const std::byte> staged_;     // the pages of runs_, one after the other
  std::vector<PageRun> runs_, unstaged_;  // what is in the buffer, and what is not
  CaptureStats stats_;
};

}  // namespace space::vmm
