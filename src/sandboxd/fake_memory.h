// FakeMemory: guest memory as a VMM has it, a private mapping of a file, in this process: what the kernel
// says of its pages is the truth. For tests.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"

namespace space {

class FakeMemory {
 public:
  // Of `file`, which holds what it reads as until written.
  FakeMemory(const Fd& file, std::uint64_t bytes);
  ~FakeMemory();
  FakeMemory(const FakeMemory&) = delete;
  FakeMemory& operator=(const FakeMemory&) = delete;

  std::span<std::byte> bytes() const { return {address_, size_}; }
  // mem, maps and pagemap of a process that has this memory as /memory and nothing else.
  std::vector<Fd> open() const;

 private:
  std::byte* address_ = nullptr;
  std::size_t size_ = 0;
};

// Anonymous files.
Fd make_file(std::string_view content);
Fd make_zeros(std::uint64_t bytes);
// Opened anew, with an offset of its own.
Fd reopen(const Fd& file, int flags);

}  // namespace space
