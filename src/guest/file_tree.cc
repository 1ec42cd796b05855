#include "guest/file_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "base/path_text.h"
#include "guest/folder_path.h"
#include "guest/folder_stack.h"

namespace space::guest {

namespace {

constexpr std::size_t names_limit = 1'000'000;  // of one folder
constexpr int sweeps_max = 16;                  // of a folder that programs fill while it is emptied

using Names = std::vector<std::string>;

// Removes one folder after the other, deepest first.
class TreeRemoval {
 public:
  explicit TreeRemoval(FolderStack stack) : stack_(std::move(stack)) {}

  Result<void> run(const std::string& name) {
    SPACE_CHECK(descend(name));
    while (!folders_.empty()) {
      if (folders_.back().below.empty()) {
        SPACE_CHECK(ascend());
        continue;
      }
      const std::string next = std::move(folders_.back().below.back());
      folders_.back().below.pop_back();
      SPACE_CHECK(descend(next));
    }
    return {};
  }

 private:
  struct Folder {
    std::string name;
    Names below;  // folders in it yet to be removed
    int sweeps = 1;
  };

  Result<void> descend(const std::string& name) {
    SPACE_TRY(const bool entered, stack_.enter(name));
    if (!entered) return unlink(name);  // it was replaced meanwhile
    SPACE_TRY(auto below, sweep());
    folders_.push_back({.name = name, .below = std::move(below)});
    return {};
  }

  Result<void> ascend() {
    Folder& folder = folders_.back();
    SPACE_CHECK(stack_.leave());
    if (::unlinkat(stack_.fd(), folder.name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT ||
        errno == ENOTDIR) {
      folders_.pop_back();
      return {};
    }
    if (errno != ENOTEMPTY || folder.sweeps == sweeps_max)
      return fail_errno(errno, fmt::format("remove folder '{}'", shown_path(folder.name)));
    ++folder.sweeps;
    SPACE_TRY(const bool entered, stack_.enter(folder.name));
    if (entered) {
      SPACE_TRY(folder.below, sweep());
    } else {
      folders_.pop_back();
    }
    return {};
  }

  // Removes the files of the current folder; what is left are folders.
  Result<Names> sweep() {
    SPACE_TRY(const auto items, read_folder(stack_.fd(), names_limit));
    Names below;
    for (const FolderItem& item : items) {
      if (item.type != DT_DIR && ::unlinkat(stack_.fd(), item.name.c_str(), 0) == 0) continue;
      if (item.type == DT_DIR || errno == EISDIR) {
        below.push_back(item.name);
      } else if (errno != ENOENT) {
        return fail_errno(errno, fmt::format("remove '{}'", shown_path(item.name)));
      }
    }
    return below;
  }

  Result<void> unlink(const std::string& name) {
    if (::unlinkat(stack_.fd(), name.c_str(), 0) == 0 || errno == ENOENT) return {};
    return fail_errno(errno, fmt::format("remove '{}'", shown_path(name)));
  }

  FolderStack stack_;
  std::vector<Folder> folders_;
};

// Names in the current folder, last first, so that the next one is at the back.
Result<Names> names_backwards(int folder) {
  SPACE_TRY(auto items, read_folder(folder, names_limit));
  Names names;
  names.reserve(items.size());
  for (FolderItem& item : items) names.push_back(std::move(item.name));
  std::ranges::sort(names, std::greater());
  return names;
}

// Into the folder `name`, and its names. Nothing: it cannot be entered, or is no folder any more.
Result<std::optional<Names>> open_names(FolderStack& stack, const std::string& name) {
  const auto entered = stack.enter(name);
  if (!entered && entered.error().code == Code::permission_denied) return std::nullopt;
  if (!entered) return std::unexpected(entered.error());
  if (!*entered) return std::nullopt;
  SPACE_TRY(auto names, names_backwards(stack.fd()));
  return names;
}

}  // namespace

Result<bool> make_folder(const std::string& path, const User& user) {
  SPACE_TRY(const auto made, make_folder_path(path, user));
  return !made.existed;
}

Result<void> move_file(const std::string& source, const std::string& destination, const User& user) {
  SPACE_TRY(const Place from, open_place(source));
  struct stat status{};
  if (::fstatat(from.folder.get(), from.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    return fail_errno(errno, fmt::format("path '{}'", shown_path(source)));
  const std::size_t slash = destination.rfind('/');
  SPACE_CHECK(make_folder_path(destination.substr(0, std::max<std::size_t>(slash, 1)), user));
  SPACE_TRY(const Place to, open_place(destination));
  if (::renameat(from.folder.get(), from.name.c_str(), to.folder.get(), to.name.c_str()) == 0) return {};
  if (errno == EXDEV)
    return fail(Code::conflict, "'{}' is on another file system; copy it there and remove it here",
                shown_path(destination));
  return fail_errno(errno, fmt::format("move '{}' to '{}'", shown_path(source), shown_path(destination)));
}

Result<void> remove_tree(const std::string& path) {
  if (path == "/") return fail(Code::invalid_argument, "the root folder cannot be removed");
  auto place = open_place(path);
  if (!place && place.error().code == Code::not_found) return {};
  if (!place) return std::unexpected(std::move(place).error());
  if (::unlinkat(place->folder.get(), place->name.c_str(), 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR) return fail_errno(errno, fmt::format("remove '{}'", shown_path(path)));
  SPACE_TRY(auto stack, FolderStack::open(place->folder.get()));
  return TreeRemoval(std::move(stack)).run(place->name);
}

Result<void> list_folder(const std::string& path, std::uint32_t depth, const AccountNames& names,
                         const std::function<Result<void>(const EntryInfo&)>& visit) {
  SPACE_TRY(const Fd folder, open_folder(path));
  SPACE_TRY(auto stack, FolderStack::open(folder.get()));
  std::vector<Names> levels;
  SPACE_TRY(auto first, names_backwards(stack.fd()));
  levels.push_back(std::move(first));
  std::string at = path == "/" ? "" : path;
  for (;;) {
    if (levels.back().empty()) {
      levels.pop_back();
      if (levels.empty()) return {};
      SPACE_CHECK(stack.leave());
      at.resize(at.rfind('/'));
      continue;
    }
    const std::string name = std::move(levels.back().back());
    levels.back().pop_back();
    std::string entry_path = fmt::format("{}/{}", at, name);
    auto entry = read_entry_at(stack.fd(), name, entry_path, names);
    if (!entry && entry.error().code == Code::not_found) continue;
    if (!entry) entry = EntryInfo{.name = name, .path = entry_path};
    SPACE_CHECK(visit(*entry));
    if (entry->kind != FileKind::directory || entry->symlink_target || levels.size() >= depth) continue;
    SPACE_TRY(auto below, open_names(stack, name));
    if (!below) continue;
    levels.push_back(*std::move(below));
    at = std::move(entry_path);
  }
}

}  // namespace space::guest
