#include "vmm/memory_pages.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace space::vmm {
namespace {

constexpr std::uint64_t present = std::uint64_t{1} << 63;
constexpr std::uint64_t swapped = std::uint64_t{1} << 62;
constexpr std::uint64_t of_file = std::uint64_t{1} << 61;

struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  // in the file
  std::string_view permissions;
  std::string_view device;
  std::string_view inode;
  std::string_view name;
};

std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

std::optional<std::uint64_t> hex_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "7f10-7f20 rw-p 00000000 fe:00 1095 /memory"
std::optional<Mapping> parse_mapping(std::string_view line) {
  Mapping mapping;
  const std::string_view range = next_word(line);
  const auto dash = range.find('-');
  if (dash == range.npos) return std::nullopt;
  const auto begin = hex_number(range.substr(0, dash));
  const auto end = hex_number(range.substr(dash + 1));
  mapping.permissions = next_word(line);
  const auto offset = hex_number(next_word(line));
  if (!begin || !end || !offset || *begin >= *end || mapping.permissions.size() != 4) return std::nullopt;
  mapping.begin = *begin;
  mapping.end = *end;
  mapping.offset = *offset;
  mapping.device = next_word(line);
  mapping.inode = next_word(line);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  mapping.name = line;
  return mapping;
}

bool is_named(std::string_view name, std::string_view file_name) {
  constexpr std::string_view deleted = " (deleted)";
  if (name.ends_with(deleted)) name.remove_suffix(deleted.size());
  return name.starts_with('/') && name.substr(name.rfind('/') + 1) == file_name;
}

}  // namespace

Result<std::uint64_t> find_guest_memory(std::string_view maps, std::string_view file_name,
                                        std::uint64_t memory_bytes) {
  if (maps.size() > maps_limit_bytes)
    return fail(Code::exhausted, "the VMM has more mappings than fit {} bytes", maps_limit_bytes);
  std::optional<Mapping> memory;  // what has been put together so far
  while (!maps.empty()) {
    const std::string_view line = maps.substr(0, maps.find('\n'));
    maps.remove_prefix(std::min(line.size() + 1, maps.size()));
    const auto mapping = parse_mapping(line);
    if (!mapping) return fail(Code::invalid_argument, "a line of the VMM's mappings that is none");
    if (!is_named(mapping->name, file_name)) continue;
    if (mapping->permissions[3] != 'p')
      return fail(Code::invalid_argument, "the VMM shares its mapping of guest memory");
    const bool goes_on = memory && mapping->begin == memory->end &&
                         mapping->offset == memory->end - memory->begin &&
                         mapping->device == memory->device && mapping->inode == memory->inode;
    if (goes_on)
      memory->end = mapping->end;
    else if (memory)
      return fail(Code::invalid_argument, "the VMM has several mappings of guest memory");
    else
      memory = mapping;
  }
  if (!memory) return fail(Code::invalid_argument, "the VMM has no mapping of guest memory");
  if (memory->offset != 0 || memory->end - memory->begin != memory_bytes)
    return fail(Code::invalid_argument, "the VMM maps {} bytes of guest memory from {} on, not all {}",
                memory->end - memory->begin, memory->offset, memory_bytes);
  return memory->begin;
}

void append_private_runs(std::span<const std::uint64_t> words, std::uint64_t first,
                         std::vector<PageRun>& runs) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if ((words[i] & (present | swapped)) == 0 || (words[i] & of_file) != 0) continue;
    if (!runs.empty() && runs.back().end() == first + i)
      ++runs.back().count;
    else
      runs.push_back({first + i, 1});
  }
}

std::uint64_t count_pages(std::span<const PageRun> runs) {
  std::uint64_t pages = 0;
  for (const PageRun& run : runs) pages += run.count;
  return pages;
}

}  // namespace space::vmm
