#include "vmm/exclusive_bytes.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

namespace space::vmm {
namespace {

constexpr std::size_t extents_at_once = 512;
constexpr std::size_t extents_max = 4'000'000;

// The kernel's answer is a head with the extents behind it.
class ExtentPage {
 public:
  ExtentPage()
      : memory_(1 + (extents_at_once * sizeof(fiemap_extent) + sizeof(fiemap) - 1) / sizeof(fiemap)) {}

  // Those from byte `start` on, as many as there is room for; none: the end.
  Result<std::span<const fiemap_extent>> read(int file, std::uint64_t start) {
    fiemap& head = memory_.front();
    std::memset(&head, 0, sizeof head);
    head.fm_start = start;
    head.fm_length = FIEMAP_MAX_OFFSET - start;
    head.fm_extent_count = extents_at_once;
    if (::ioctl(file, FS_IOC_FIEMAP, &head) != 0) {
      if (errno == EOPNOTSUPP || errno == ENOTTY)
        return fail(Code::unavailable, "the file system does not say which pieces of a file are shared");
      return fail_errno(errno, "list the pieces of a file");
    }
    return std::span(reinterpret_cast<const fiemap_extent*>(&head + 1), head.fm_mapped_extents);
  }

 private:
  std::vector<fiemap> memory_;
};

}  // namespace

Result<std::uint64_t> exclusive_bytes(int file, Deadline deadline) {
  ExtentPage page;
  std::uint64_t bytes = 0, start = 0;
  for (std::size_t seen = 0; seen < extents_max;) {
    if (deadline.passed()) return fail(Code::deadline, "a file has too many pieces to look at in time");
    SPACE_TRY(const auto extents, page.read(file, start));
    if (extents.empty()) return bytes;
    for (const fiemap_extent& extent : extents)
      if ((extent.fe_flags & FIEMAP_EXTENT_SHARED) == 0) bytes += extent.fe_length;
    const fiemap_extent& last = extents.back();
    if ((last.fe_flags & FIEMAP_EXTENT_LAST) != 0) return bytes;
    if (last.fe_length == 0) return fail(Code::internal, "a piece of a file has no length");
    start = last.fe_logical + last.fe_length;
    seen += extents.size();
  }
  return fail(Code::exhausted, "a file has more than {} pieces", extents_max);
}

}  // namespace space::vmm
