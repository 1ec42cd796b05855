// Whatever text for maps and words for pagemap: what is found keeps its promises.
#include <cstdlib>
#include <cstring>

#include "vmm/memory_pages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace space::vmm;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const std::uint64_t bytes : {std::uint64_t{4096}, std::uint64_t{1} << 29}) {
    const auto found = find_guest_memory(text, "memory", bytes);
    // It names the file, and what lies behind the address is within 64 bits.
    if (found && (text.find("/memory") == text.npos || *found + bytes < *found)) std::abort();
  }

  std::vector<std::uint64_t> words(size / sizeof(std::uint64_t));
  if (!words.empty()) std::memcpy(words.data(), data, words.size() * sizeof(std::uint64_t));
  std::vector<PageRun> runs;
  append_private_runs(words, 7, runs);
  std::uint64_t next = 7;
  for (const PageRun& run : runs) {
    if (run.count == 0 || run.first < next || (next != 7 && run.first == next)) std::abort();
    next = run.end();
  }
  if (next > 7 + words.size() || count_pages(runs) > words.size()) std::abort();
  return 0;
}
