// Which pages of guest memory a VMM has written: what /proc/PID/maps and pagemap say of its private mapping
// of the memory file. Pure and fuzzed: a VMM that a guest has taken over may map and unmap as it likes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace space::vmm {

inline constexpr std::uint64_t page_bytes = 4096;
inline constexpr std::size_t maps_limit_bytes = std::size_t{4} << 20;

// Pages [first, first + count) of guest memory.
struct PageRun {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t end() const { return first + count; }
  bool operator==(const PageRun&) const = default;
};

// The address at which guest memory begins in the VMM: the one private writable mapping of the file named
// `file_name` (the last part of the name, a " (deleted)" apart), from its beginning and exactly
// `memory_bytes` long. It may consist of several adjacent ones, as mprotect and madvise split it.
// invalid_argument: none, several, or one with a hole or of another length; exhausted: too long a text.
Result<std::uint64_t> find_guest_memory(std::string_view maps, std::string_view file_name,
                                        std::uint64_t memory_bytes);

// Adds the private pages among those that `words` of pagemap describe, the first of which is page `first`:
// present or swapped out, and of no file. Adjacent runs become one.
void append_private_runs(std::span<const std::uint64_t> words, std::uint64_t first,
                         std::vector<PageRun>& runs);

std::uint64_t count_pages(std::span<const PageRun> runs);

}  // namespace space::vmm
