#include "vmm/memory_image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/fd.h"

namespace space::vmm {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{1} << 20;
constexpr std::array<std::byte, page_bytes> zero_page{};

Result<void> read_exactly(int fd, std::span<std::byte> into, std::uint64_t offset) {
  while (!into.empty()) {
    const ssize_t count = ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail_errno(count == 0 ? EIO : errno, "read a snapshot's memory");
    into = into.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

Result<void> write_exactly(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail_errno(count == 0 ? EIO : errno, "write a snapshot's memory");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

}  // namespace

MemoryImage::MemoryImage(int fd)
    : fd_(fd), before_(std::make_unique_for_overwrite<std::byte[]>(chunk_bytes)) {}

Result<MemoryImage> MemoryImage::open(int fd, std::uint64_t memory_bytes) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return fail_errno(errno, "a snapshot's memory");
  if (static_cast<std::uint64_t>(status.st_size) != memory_bytes)
    return fail(Code::invalid_argument, "a snapshot's memory of {} bytes for a guest of {}", status.st_size,
                memory_bytes);
  return MemoryImage(fd);
}

Result<void> MemoryImage::update(PageRun run, std::span<const std::byte> pages) {
  for (std::uint64_t first = run.first; !pages.empty(); first += chunk_bytes / page_bytes) {
    const auto chunk = pages.first(std::min(chunk_bytes, pages.size()));
    SPACE_CHECK(update_chunk(first, chunk));
    pages = pages.subspan(chunk.size());
  }
  return {};
}

Result<void> MemoryImage::update_chunk(std::uint64_t first, std::span<const std::byte> pages) {
  SPACE_TRY(const bool hole, is_hole(first * page_bytes, pages.size()));
  if (!hole) SPACE_CHECK(read_exactly(fd_, {before_.get(), pages.size()}, first * page_bytes));
  const std::size_t count = pages.size() / page_bytes;
  const auto change = [&](std::size_t page) {
    return change_of(pages.subspan(page * page_bytes, page_bytes),
                     hole ? zero_page.data() : before_.get() + page * page_bytes);
  };
  // Neighbours of the same kind go together.
  for (std::size_t begin = 0; begin < count;) {
    const Change kind = change(begin);
    std::size_t end = begin + 1;
    while (end < count && change(end) == kind) ++end;
    SPACE_CHECK(apply(kind, first + begin, pages.subspan(begin * page_bytes, (end - begin) * page_bytes)));
    begin = end;
  }
  return {};
}

// A file of memory is mostly holes at first, and reading those would fill the page cache with zeros.
Result<bool> MemoryImage::is_hole(std::uint64_t offset, std::size_t bytes) const {
  const off_t data = ::lseek(fd_, static_cast<off_t>(offset), SEEK_DATA);
  if (data < 0 && errno == ENXIO) return true;
  if (data < 0) return fail_errno(errno, "a snapshot's memory");
  return static_cast<std::uint64_t>(data) >= offset + bytes;
}

MemoryImage::Change MemoryImage::change_of(std::span<const std::byte> page, const std::byte* before) const {
  if (std::memcmp(page.data(), before, page_bytes) == 0) return Change::none;
  return std::memcmp(page.data(), zero_page.data(), page_bytes) == 0 ? Change::zero : Change::data;
}

Result<void> MemoryImage::apply(Change change, std::uint64_t first, std::span<const std::byte> pages) {
  if (change == Change::none) return {};
  stats_.dirty_pages += pages.size() / page_bytes;
  if (change == Change::data) {
    stats_.written_bytes += pages.size();
    return write_exactly(fd_, pages, first * page_bytes);
  }
  stats_.zero_pages += pages.size() / page_bytes;
  if (::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first * page_bytes),
                  static_cast<off_t>(pages.size())) == 0)
    return {};
  if (errno != EOPNOTSUPP) return fail_errno(errno, "make a hole in a snapshot's memory");
  return write_exactly(fd_, pages, first * page_bytes);
}

Result<void> MemoryImage::sync() {
  if (::fdatasync(fd_) != 0) return fail_errno(errno, "sync a snapshot's memory");
  return {};
}

}  // namespace space::vmm
