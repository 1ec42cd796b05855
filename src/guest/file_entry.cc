#include "guest/file_entry.h"

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json_text.h"
#include "base/path_text.h"
#include "guest/folder_path.h"

namespace space::guest {

namespace {

constexpr std::string_view attribute_prefix = "user.e2b.";
constexpr std::size_t metadata_limit_bytes = 64 * 1024;  // of one file, names and values
// What RFC 3339 can say: years 1 to 9999.
constexpr std::int64_t earliest_second = -62'135'596'800;
constexpr std::int64_t latest_second = 253'402'300'799;

FileKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return FileKind::file;
  return S_ISDIR(mode) ? FileKind::directory : FileKind::unspecified;
}

std::string_view type_name(FileKind kind) {
  switch (kind) {
    case FileKind::file:
      return "FILE_TYPE_FILE";
    case FileKind::directory:
      return "FILE_TYPE_DIRECTORY";
    case FileKind::unspecified:
      break;
  }
  return "FILE_TYPE_UNSPECIFIED";
}

// The names of a list of attributes, each ended by NUL, that are metadata: with their prefix.
std::vector<std::string> metadata_names(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const std::string_view name = list.substr(0, list.find('\0'));
    list.remove_prefix(std::min(name.size() + 1, list.size()));
    if (name.size() > attribute_prefix.size() && name.starts_with(attribute_prefix)) names.emplace_back(name);
  }
  return names;
}

// `file` is a path through /proc/self/fd, so it is short. Attributes that cannot be read, or go beyond the
// limit, are left out.
Metadata read_metadata(const std::string& file) {
  static thread_local std::array<char, XATTR_LIST_MAX> buffer;
  static_assert(XATTR_LIST_MAX >= metadata_limit_bytes && XATTR_SIZE_MAX >= metadata_limit_bytes);
  const ssize_t listed = ::listxattr(file.c_str(), buffer.data(), buffer.size());
  Metadata metadata;
  if (listed <= 0) return metadata;
  std::size_t total = 0;
  for (const std::string& name :
       metadata_names(std::string_view(buffer.data(), static_cast<std::size_t>(listed)))) {
    const ssize_t size = ::getxattr(file.c_str(), name.c_str(), buffer.data(), buffer.size());
    if (size < 0) continue;
    total += name.size() + static_cast<std::size_t>(size);
    if (total > metadata_limit_bytes) break;
    metadata.emplace(name.substr(attribute_prefix.size()),
                     std::string(buffer.data(), static_cast<std::size_t>(size)));
  }
  return metadata;
}

std::string descriptor_path(int fd) {
  return fmt::format("/proc/self/fd/{}", fd);
}

// What a link leads to: opened without touching it (O_PATH), so that neither a pipe nor a device notices.
void follow_link(int folder, EntryInfo& entry) {
  entry.symlink_target = entry.path;
  const Fd target(::openat(folder, entry.name.c_str(), O_PATH | O_CLOEXEC));
  struct stat status{};
  std::array<char, PATH_MAX> resolved;
  if (!target || ::fstat(target.get(), &status) != 0) return;
  const ssize_t size = ::readlink(descriptor_path(target.get()).c_str(), resolved.data(), resolved.size());
  if (size <= 0 || resolved[0] != '/') return;  // a pipe or socket has no path
  entry.symlink_target = std::string(resolved.data(), static_cast<std::size_t>(size));
  entry.kind = kind_of(status.st_mode);
  entry.mode = status.st_mode & 0777;
  if (entry.kind != FileKind::unspecified) entry.metadata = read_metadata(descriptor_path(target.get()));
}

void append_text_member(std::string& out, std::string_view key, std::string_view text) {
  fmt::format_to(std::back_inserter(out), R"("{}":)", key);
  append_json_string(out, text);
  out += ',';
}

std::string rfc3339_nanoseconds(timespec time) {
  const std::int64_t seconds = std::clamp<std::int64_t>(time.tv_sec, earliest_second, latest_second);
  const std::string whole = to_rfc3339(Wall(std::chrono::seconds(seconds)));  // "…:10.000Z"
  return fmt::format("{}.{:09}Z", whole.substr(0, whole.size() - 5), time.tv_nsec);
}

}  // namespace

std::string permission_text(mode_t mode) {
  std::string text;
  switch (mode & S_IFMT) {
    case S_IFDIR:
      text = "d";
      break;
    case S_IFLNK:
      text = "L";
      break;
    case S_IFBLK:
    case S_IFCHR:
      text = "D";
      break;
    case S_IFIFO:
      text = "p";
      break;
    case S_IFSOCK:
      text = "S";
      break;
    default:
      break;
  }
  if ((mode & S_ISUID) != 0) text += 'u';
  if ((mode & S_ISGID) != 0) text += 'g';
  if (S_ISCHR(mode)) text += 'c';
  if ((mode & S_ISVTX) != 0) text += 't';
  if (text.empty()) text = "-";
  for (int bit = 8; bit >= 0; --bit) text += (mode >> bit & 1U) != 0 ? "xwr"[bit % 3] : '-';
  return text;
}

Result<EntryInfo> read_entry_at(int folder, std::string name, std::string path, const AccountNames& names) {
  struct stat status{};
  if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT || errno == ENOTDIR)
      return fail(Code::not_found, "path '{}' does not exist", shown_path(path));
    return fail_errno(errno, fmt::format("read the entry of '{}'", shown_path(path)));
  }
  EntryInfo entry{.name = std::move(name),
                  .path = std::move(path),
                  .kind = kind_of(status.st_mode),
                  .size = static_cast<std::uint64_t>(status.st_size),
                  .mode = status.st_mode & 0777,
                  .permissions = permission_text(status.st_mode),
                  .owner = names.user(status.st_uid),
                  .group = names.group(status.st_gid),
                  .modified = status.st_mtim};
  if (S_ISLNK(status.st_mode)) {
    entry.mode = 0;
    follow_link(folder, entry);
  } else if (entry.kind != FileKind::unspecified) {
    entry.metadata = read_metadata(fmt::format("{}/{}", descriptor_path(folder), entry.name));
  }
  return entry;
}

Result<EntryInfo> read_entry(const std::string& path, const AccountNames& names) {
  SPACE_TRY(const Place place, open_place(path));
  SPACE_TRY(auto entry, read_entry_at(place.folder.get(), place.name, path, names));
  if (path == "/") entry.name = "/";
  return entry;
}

void append_entry_json(std::string& out, const EntryInfo& entry) {
  out += '{';
  append_text_member(out, "name", text_of_path(entry.name));
  append_text_member(out, "type", type_name(entry.kind));
  append_text_member(out, "path", text_of_path(entry.path));
  fmt::format_to(std::back_inserter(out), R"("size":"{}","mode":{},)", entry.size, entry.mode);
  append_text_member(out, "permissions", entry.permissions);
  append_text_member(out, "owner", entry.owner);
  append_text_member(out, "group", entry.group);
  append_text_member(out, "modifiedTime", rfc3339_nanoseconds(entry.modified));
  if (entry.symlink_target) append_text_member(out, "symlinkTarget", text_of_path(*entry.symlink_target));
  if (!entry.metadata.empty()) {
    out += R"("metadata":{)";
    for (const auto& [key, value] : entry.metadata) {
      append_json_string(out, key);
      out += ':';
      append_json_string(out, value);
      out += ',';
    }
    out.back() = '}';
    out += ',';
  }
  out.back() = '}';
}

Result<void> replace_metadata(int file, const Metadata& metadata) {
  std::string list(XATTR_LIST_MAX, '\0');
  const ssize_t listed = ::flistxattr(file, list.data(), list.size());
  if (listed < 0 && !metadata.empty()) return fail_errno(errno, "list the file's metadata");
  list.resize(listed < 0 ? 0 : static_cast<std::size_t>(listed));
  for (const std::string& name : metadata_names(list)) {
    if (metadata.contains(name.substr(attribute_prefix.size()))) continue;
    if (::fremovexattr(file, name.c_str()) != 0 && errno != ENODATA)
      return fail_errno(errno, "remove the file's old metadata");
  }
  for (const auto& [key, value] : metadata) {
    const std::string name = fmt::format("{}{}", attribute_prefix, key);
    if (::fsetxattr(file, name.c_str(), value.data(), value.size(), 0) != 0)
      return fail_errno(errno, fmt::format("set the file's metadata '{}'", key));
  }
  return {};
}

}  // namespace space::guest
