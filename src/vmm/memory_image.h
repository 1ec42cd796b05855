// MemoryImage: a snapshot's mem.raw, which begins as the snapshot before it and becomes the next. Blocking.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "vmm/memory_pages.h"

namespace space::vmm {

struct ImageStats {
  std::uint64_t dirty_pages = 0;    // that were not what the file held
  std::uint64_t zero_pages = 0;     // of these: they became holes
  std::uint64_t written_bytes = 0;  // the rest of these
};

class MemoryImage {
 public:
  // `fd`: open for reading and writing, the caller's. invalid_argument: not `memory_bytes` long.
  static Result<MemoryImage> open(int fd, std::uint64_t memory_bytes);

  // Makes the pages of `run` what `pages` holds. Only those that differ are written; those that became all
  // zero are given back to the file system.
  Result<void> update(PageRun run, std::span<const std::byte> pages);
  Result<void> sync();
  const ImageStats& stats() const { return stats_; }

 private:
  enum class Change : std::uint8_t { none, zero, data };
  explicit MemoryImage(int fd);

  Result<void> update_chunk(std::uint64_t first, std::span<const std::byte> pages);
  Result<bool> is_hole(std::uint64_t offset, std::size_t bytes) const;
  Change change_of(std::span<const std::byte> page, const std::byte* before) const;
  Result<void> apply(Change change, std::uint64_t first, std::span<const std::byte> pages);

  int fd_;
  std::unique_ptr<std::byte[]> before_;  // a chunk of the file
  ImageStats stats_;
};

}  // namespace space::vmm
