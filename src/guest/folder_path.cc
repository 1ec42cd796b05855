#include "guest/folder_path.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "base/path_text.h"

namespace space::guest {

namespace {

constexpr int folder_flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
constexpr std::size_t longest_piece = PATH_MAX - 1;

std::string next_component(std::string_view& rest) {
  const std::size_t begin = std::min(rest.find_first_not_of('/'), rest.size());
  rest.remove_prefix(begin);
  const std::string_view component = rest.substr(0, rest.find('/'));
  rest.remove_prefix(component.size());
  return std::string(component);
}

// As many whole components as one call takes; one that is too long for any call comes out whole.
std::string next_piece(std::string_view& rest) {
  std::size_t size = rest.size();
  if (size > longest_piece) {
    size = rest.rfind('/', longest_piece);
    if (size == std::string_view::npos || size == 0) size = std::min(rest.find('/', 1), rest.size());
  }
  std::string piece(rest.substr(0, size));
  rest.remove_prefix(std::min(size + 1, rest.size()));
  return piece;
}

std::unexpected<Error> cannot_open(int error_number, std::string_view path) {
  switch (error_number) {
    case ENOENT:
      return fail(Code::not_found, "path '{}' does not exist", shown_path(path));
    case ENOTDIR:
      return fail(Code::invalid_argument, "path '{}' is not a directory", shown_path(path));
    case ELOOP:
      return fail(Code::conflict, "path '{}' is a loop of links", shown_path(path));
    default:
      return fail_errno(error_number, fmt::format("open '{}'", shown_path(path)));
  }
}

// Absent: errno says why.
Fd open_from_root(std::string_view path) {
  Fd folder(::open("/", folder_flags));
  path.remove_prefix(1);
  while (folder && !path.empty())
    folder.reset(::openat(folder.get(), next_piece(path).c_str(), folder_flags));
  return folder;
}

Result<void> give_to(int folder, const User& user, std::string_view path) {
  if (user.uid == ::geteuid() && user.gid == ::getegid()) return {};
  if (::fchownat(folder, "", user.uid, user.gid, AT_EMPTY_PATH) != 0)
    return fail_errno(errno, fmt::format("give '{}' to the user", shown_path(path)));
  return {};
}

// One step of make_folder_path.
Result<MadeFolder> make_folder_at(int parent, const std::string& name, const User& user,
                                  const std::string& path) {
  Fd folder(::openat(parent, name.c_str(), folder_flags));
  if (folder) return MadeFolder{std::move(folder), true};
  if (errno != ENOENT) return cannot_open(errno, path);
  const bool made = ::mkdirat(parent, name.c_str(), 0755) == 0;
  if (!made && errno != EEXIST) return fail_errno(errno, fmt::format("make folder '{}'", shown_path(path)));
  folder.reset(::openat(parent, name.c_str(), folder_flags | (made ? O_NOFOLLOW : 0)));
  if (!folder && !made && errno == ENOENT)  // it exists, and yet it does not
    return fail(Code::invalid_argument, "path '{}' is a link that leads nowhere", shown_path(path));
  if (!folder) return cannot_open(errno, path);
  if (made) SPACE_CHECK(give_to(folder.get(), user, path));
  return MadeFolder{std::move(folder), !made};
}

}  // namespace

Result<Place> open_place(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  std::string name = path.substr(slash + 1);
  Fd folder = open_from_root(std::string_view(path).substr(0, std::max<std::size_t>(slash, 1)));
  if (!folder) return cannot_open(errno == ENOTDIR ? ENOENT : errno, path);
  return Place{std::move(folder), name.empty() ? "." : std::move(name)};
}

Result<Fd> open_folder(const std::string& path) {
  SPACE_TRY(const Place place, open_place(path));
  Fd folder(::openat(place.folder.get(), place.name.c_str(), folder_flags));
  if (!folder) return cannot_open(errno, path);
  return folder;
}

Result<Fd> open_folder_below(int folder, std::string_view relative) {
  Fd opened(::openat(folder, ".", folder_flags));
  std::string_view rest = relative;
  while (opened) {
    const std::string name = next_component(rest);
    if (name.empty()) return opened;
    opened.reset(::openat(opened.get(), name.c_str(), folder_flags | O_NOFOLLOW));
  }
  return cannot_open(errno, relative);
}

Result<MadeFolder> make_folder_path(const std::string& path, const User& user) {
  MadeFolder at{Fd(::open("/", folder_flags)), true};
  if (!at.folder) return cannot_open(errno, "/");
  std::string_view rest = path;
  for (std::string name = next_component(rest); !name.empty(); name = next_component(rest)) {
    SPACE_TRY(at, make_folder_at(at.folder.get(), name, user, path));
  }
  return at;
}

}  // namespace space::guest
