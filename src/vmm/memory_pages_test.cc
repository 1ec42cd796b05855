#include "vmm/memory_pages.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace space::vmm {
namespace {

constexpr std::uint64_t mib = 1 << 20;

std::string line(std::uint64_t begin, std::uint64_t end, std::string_view permissions, std::uint64_t offset,
                 std::string_view name = "/memory", unsigned inode = 77) {
  return fmt::format("{:x}-{:x} {} {:08x} fe:00 {}                   {}\n", begin, end, permissions, offset,
                     inode, name);
}

const std::string others =
    "55d0c0000000-55d0c0100000 r--p 00000000 fe:00 123                    /usr/bin/qemu-system-x86_64\n"
    "7f0000000000-7f0000021000 rw-p 00000000 00:00 0\n"
    "7f0010000000-7f0010021000 rw-p 00000000 00:00 0 \n";
const std::string rest =
    "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n"
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

Result<std::uint64_t> find(const std::string& mappings, std::uint64_t bytes = 4 * mib) {
  return find_guest_memory(others + mappings + rest, "memory", bytes);
}

TEST(GuestMemory, IsFoundAmongTheMappingsOfAVmm) {
  EXPECT_EQ(find(line(0x7f1000000000, 0x7f1000000000 + 4 * mib, "rw-p", 0)).value_or(0), 0x7f1000000000u);
  EXPECT_EQ(find(line(0x1000, 0x1000 + 4 * mib, "rw-p", 0, "/mnt/a b/memory (deleted)")).value_or(0),
            0x1000u);
}

TEST(GuestMemory, MayBeInSeveralPieces) {
  const std::uint64_t at = 0x7f1000000000;
  EXPECT_EQ(find(line(at, at + mib, "rw-p", 0) + line(at + mib, at + 2 * mib, "r--p", mib) +
                 line(at + 2 * mib, at + 4 * mib, "rw-p", 2 * mib))
                .value_or(0),
            at);
}

TEST(GuestMemory, AnythingElseOfThatNameIsRefused) {
  const std::uint64_t at = 0x7f1000000000;
  const std::pair<const char*, std::string> bad[] = {
      {"none", ""},
      {"another name", line(at, at + 4 * mib, "rw-p", 0, "/memory2")},
      {"another name before", line(at, at + 4 * mib, "rw-p", 0, "/xmemory")},
      {"no path", line(at, at + 4 * mib, "rw-p", 0, "memory")},
      {"shared", line(at, at + 4 * mib, "rw-s", 0)},
      {"too short", line(at, at + 3 * mib, "rw-p", 0)},
      {"too long", line(at, at + 5 * mib, "rw-p", 0)},
      {"not from the beginning", line(at, at + 4 * mib, "rw-p", mib)},
      {"twice", line(at, at + 4 * mib, "rw-p", 0) + line(at + 8 * mib, at + 12 * mib, "rw-p", 0)},
      {"a hole", line(at, at + mib, "rw-p", 0) + line(at + 2 * mib, at + 4 * mib, "rw-p", 2 * mib)},
      {"in another order",
       line(at, at + 2 * mib, "rw-p", 2 * mib) + line(at + 2 * mib, at + 4 * mib, "rw-p", 0)},
      {"two files",
       line(at, at + 2 * mib, "rw-p", 0) + line(at + 2 * mib, at + 4 * mib, "rw-p", 2 * mib, "/memory", 78)},
      {"no mapping at all", "hello\n"},
      {"numbers beyond 64 bits", "11111111111111111-2 rw-p 0 fe:00 1 /memory\n"},
      {"backwards", line(at + 4 * mib, at, "rw-p", 0)},
      {"no permissions", fmt::format("{:x}-{:x}", at, at + 4 * mib)}};
  for (const auto& [what, mappings] : bad)
    EXPECT_TRUE(!find(mappings) && find(mappings).error().code == Code::invalid_argument) << what;
  EXPECT_EQ(find_guest_memory(std::string(maps_limit_bytes + 1, '\n'), "memory", mib).error().code,
            Code::exhausted);
}

constexpr std::uint64_t present = 1ULL << 63, swapped = 1ULL << 62, of_file = 1ULL << 61;

TEST(PrivatePages, ArePresentOrSwappedAndOfNoFile) {
  const std::uint64_t words[] = {0,       present,           present | of_file,   swapped, present | 0x1234,
                                 of_file, swapped | of_file, (1ULL << 55) | 0x7f, present};
  std::vector<PageRun> runs;
  append_private_runs(words, 100, runs);
  EXPECT_EQ(runs, (std::vector<PageRun>{{101, 1}, {103, 2}, {108, 1}}));
  EXPECT_EQ(count_pages(runs), 4u);
}

TEST(PrivatePages, ARunGoesOnInTheNextPiece) {
  const std::uint64_t words[] = {0, present, present};
  std::vector<PageRun> runs;
  append_private_runs(words, 0, runs);
  append_private_runs(std::span(words).subspan(1), 3, runs);
  append_private_runs(std::span(words).subspan(1), 6, runs);
  EXPECT_EQ(runs, (std::vector<PageRun>{{1, 4}, {6, 2}}));
}

}  // namespace
}  // namespace space::vmm
