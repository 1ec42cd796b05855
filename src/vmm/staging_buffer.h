// StagingBuffer: memory that is there already, so that filling it costs the copy and no page fault. Kept
// between checkpoints, used by one at a time.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace space::vmm {

class StagingBuffer {
 public:
  StagingBuffer() = default;
  StagingBuffer(StagingBuffer&& other) noexcept;
  StagingBuffer& operator=(StagingBuffer&& other) noexcept;
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;
  ~StagingBuffer();

  // Makes it at least this large, every page of it in memory. What it held is lost. exhausted: no memory.
  Result<void> grow(std::size_t bytes);
  // Gives back all but `bytes` of it.
  void shrink(std::size_t bytes) noexcept;
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace space::vmm
