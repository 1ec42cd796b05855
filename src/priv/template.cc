#include "priv/template.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "priv/folder.h"
#include "priv/subvolume.h"

namespace space::priv {
namespace {

constexpr std::size_t copy_bytes = 1 << 20;

struct TemplateFile {
  const char* name;
  unsigned mode;  // the VMM opens kernel and initramfs anew under its own uid
};
constexpr TemplateFile template_files[] = {
    {"manifest.json", 0444}, {"disk.raw", 0600}, {"vmlinuz", 0444}, {"initramfs.img", 0444}};

bool exists(int folder, const std::string& name) {
  return ::faccessat(folder, name.c_str(), F_OK, 0) == 0;
}

// Only what root alone could have written goes into a template.
Result<Fd> open_source(int folder, const char* name) {
  // A pipe of that name would be waited at for ever.
  SPACE_TRY(Fd file, open_beneath(folder, name, O_RDONLY | O_NONBLOCK));
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return fail_errno(errno, name);
  if (!S_ISREG(status.st_mode) || status.st_uid != 0 || (status.st_mode & 022) != 0)
    return fail(Code::permission_denied, "{} must be a plain file that only root can write", name);
  return file;
}

Result<void> copy_files(int from, int to) {
  for (const TemplateFile& file : template_files) {
    SPACE_TRY(const Fd source, open_source(from, file.name));
    SPACE_TRY(const Fd copy, open_beneath(to, file.name, O_RDWR | O_CREAT | O_EXCL, file.mode));
    if (auto copied = copy_sparse(source.get(), copy.get()); !copied) return wrap(copied.error(), file.name);
    if (::fchmod(copy.get(), file.mode) != 0) return fail_errno(errno, file.name);
  }
  if (::fsync(to) != 0) return fail_errno(errno, "fsync the template");
  return {};
}

Result<void> copy_range(int from, int to, off_t at, off_t end, std::vector<std::byte>& buffer) {
  while (at < end) {
    const auto wanted = std::min(buffer.size(), static_cast<std::size_t>(end - at));
    const ssize_t got = ::pread(from, buffer.data(), wanted, at);
    if (got < 0) return fail_errno(errno, "read");
    if (got == 0) return fail(Code::conflict, "the file shrank while it was copied");
    for (ssize_t done = 0; done < got;) {
      const ssize_t put = ::pwrite(to, buffer.data() + done, static_cast<std::size_t>(got - done), at + done);
      if (put < 0) return fail_errno(errno, "write");
      done += put;
    }
    at += got;
  }
  return {};
}

}  // namespace

Result<void> copy_sparse(int from, int to) {
  struct stat status{};
  if (::fstat(from, &status) != 0) return fail_errno(errno, "stat");
  if (::ftruncate(to, status.st_size) != 0) return fail_errno(errno, "size the copy");
  std::vector<std::byte> buffer(copy_bytes);
  for (off_t at = 0; at < status.st_size;) {
    const off_t data = ::lseek(from, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // only a hole is left
    if (data < 0) return fail_errno(errno, "find data");
    const off_t hole = ::lseek(from, data, SEEK_HOLE);
    if (hole < 0) return fail_errno(errno, "find a hole");
    SPACE_CHECK(copy_range(from, to, data, hole, buffer));
    at = hole;
  }
  if (::fsync(to) != 0) return fail_errno(errno, "fsync");
  return {};
}

Result<void> import_template(const Layout& layout, const Pool& pool, const TemplatePermit& wanted) {
  const std::string& digest = wanted.digest();
  if (exists(pool.templates(), digest)) return {};
  SPACE_TRY(const Fd image, open_fd(layout.images(digest), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  const std::string unfinished = half_made(digest);
  SPACE_CHECK(delete_subvolume(pool.templates(), unfinished));
  SPACE_CHECK(create_subvolume(pool.templates(), unfinished));
  SPACE_TRY(const Fd copy, open_beneath(pool.templates(), unfinished, O_RDONLY | O_DIRECTORY));
  if (auto copied = copy_files(image.get(), copy.get()); !copied) {
    (void)delete_subvolume(pool.templates(), unfinished);  // else the next start removes it
    return copied;
  }
  SPACE_CHECK(set_read_only(copy.get()));
  if (::renameat(pool.templates(), unfinished.c_str(), pool.templates(), digest.c_str()) != 0)
    return fail_errno(errno, "name the template");
  if (::fsync(pool.templates()) != 0) return fail_errno(errno, "fsync the templates");
  return {};
}

Result<Fd> open_manifest(const Pool& pool, const TemplatePermit& wanted) {
  return open_beneath(pool.templates(), wanted.digest() + "/manifest.json", O_RDONLY);
}

Result<void> remove_template(const Pool& pool, const TemplatePermit& wanted) {
  return delete_subvolume(pool.templates(), wanted.digest());
}

}  // namespace space::priv
