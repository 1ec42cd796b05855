#include "vmm/private_pages.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string>

namespace space::vmm {
namespace {

// Of <linux/fs.h> since Linux 6.7; the headers of the distribution may be older than the kernel that runs.
struct ScanRegion {
  std::uint64_t start, end, categories;
};
struct ScanRequest {
  std::uint64_t size, flags, start, end, walk_end;
  std::uint64_t regions, regions_length, pages_max;
  std::uint64_t inverted, all_of, any_of, returned;
};
static_assert(sizeof(ScanRequest) == 96);
static_assert(pagemap_scan_request == _IOWR('f', 16, ScanRequest));
constexpr std::uint64_t is_file = 1 << 2, is_present = 1 << 3, is_swapped = 1 << 4;
constexpr std::size_t regions_per_scan = 512;
constexpr std::size_t words_per_read = 65536;  // of 256 MiB of guest memory

Result<std::string> read_maps(int fd) {
  std::string text;
  std::size_t size = 0;
  while (size <= maps_limit_bytes) {
    text.resize(std::max<std::size_t>(65536, size * 2));
    const ssize_t count = ::pread(fd, text.data() + size, text.size() - size, static_cast<off_t>(size));
    if (count < 0 && errno == ESRCH) return fail(Code::unavailable, "the VMM is gone");
    if (count < 0) return fail_errno(errno, "read the VMM's mappings");
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  if (size == 0) return fail(Code::unavailable, "the VMM is gone");
  return text;
}

void append_run(PageRun run, std::vector<PageRun>& runs) {
  if (!runs.empty() && runs.back().end() == run.first)
    runs.back().count += run.count;
  else
    runs.push_back(run);
}

// false: this kernel does not know how.
Result<bool> scan(int pagemap, std::uint64_t memory_bytes, PrivatePages& found) {
  const auto regions = std::make_unique<std::array<ScanRegion, regions_per_scan>>();
  const std::uint64_t begin = found.address, end = begin + memory_bytes;
  for (std::uint64_t at = begin; at < end;) {
    ScanRequest request{};
    request.size = sizeof request;
    request.start = at;
    request.end = end;
    request.regions = reinterpret_cast<std::uint64_t>(regions->data());
    request.regions_length = regions->size();
    request.inverted = request.all_of = is_file;  // of no file
    request.any_of = is_present | is_swapped;
    const int count = ::ioctl(pagemap, pagemap_scan_request, &request);
    if (count < 0 && (errno == ENOTTY || errno == EINVAL)) return false;
    if (count < 0 && errno == ESRCH) return fail(Code::unavailable, "the VMM is gone");
    if (count < 0) return fail_errno(errno, "ask which pages the VMM has written");
    for (const ScanRegion& region : std::span(*regions).first(static_cast<std::size_t>(count)))
      append_run({(region.start - begin) / page_bytes, (region.end - region.start) / page_bytes}, found.runs);
    if (request.walk_end <= at)
      return fail(Code::internal, "a scan of the VMM's pages that makes no progress");
    at = request.walk_end;
  }
  return true;
}

Result<void> read_words(int pagemap, std::uint64_t memory_bytes, PrivatePages& found) {
  const auto words = std::make_unique_for_overwrite<std::uint64_t[]>(words_per_read);
  const std::uint64_t first_word = found.address / page_bytes, pages = memory_bytes / page_bytes;
  for (std::uint64_t page = 0; page < pages;) {
    const std::size_t wanted = std::min<std::uint64_t>(words_per_read, pages - page);
    const ssize_t count = ::pread(pagemap, words.get(), wanted * sizeof(std::uint64_t),
                                  static_cast<off_t>((first_word + page) * sizeof(std::uint64_t)));
    if (count < 0) return fail_errno(errno, "read which pages the VMM has written");
    const std::size_t got = static_cast<std::size_t>(count) / sizeof(std::uint64_t);
    if (got == 0) return fail(Code::unavailable, "the VMM is gone");
    append_private_runs({words.get(), got}, page, found.runs);
    page += got;
  }
  return {};
}

}  // namespace

Result<PrivatePages> find_private_pages(MemoryFds vmm, std::uint64_t memory_bytes, bool allow_scan) {
  SPACE_TRY(const std::string maps, read_maps(vmm.maps));
  PrivatePages found;
  SPACE_TRY(found.address, find_guest_memory(maps, "memory", memory_bytes));
  if (allow_scan) {
    SPACE_TRY(const bool scanned, scan(vmm.pagemap, memory_bytes, found));
    if (scanned) return found;
    found.runs.clear();
  }
  SPACE_CHECK(read_words(vmm.pagemap, memory_bytes, found));
  return found;
}

}  // namespace space::vmm
