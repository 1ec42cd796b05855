#include "guest/directory_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/json_text.h"
#include "base/path_text.h"
#include "guest/folder_path.h"

namespace space::guest {

namespace {

using connect::RpcCode;
using connect::RpcError;

constexpr std::uint32_t folder_mask =
    IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR | IN_EXCL_UNLINK;
constexpr std::uint32_t root_mask = folder_mask | IN_DELETE_SELF | IN_MOVE_SELF;
constexpr std::size_t read_size = 64 * 1024;
constexpr std::size_t names_limit = 1'000'000;  // of one folder

std::string_view type_name(WatchEventType type) {
  switch (type) {
    case WatchEventType::create:
      return "EVENT_TYPE_CREATE";
    case WatchEventType::write:
      return "EVENT_TYPE_WRITE";
    case WatchEventType::remove:
      return "EVENT_TYPE_REMOVE";
    case WatchEventType::rename:
      return "EVENT_TYPE_RENAME";
    case WatchEventType::chmod:
      return "EVENT_TYPE_CHMOD";
  }
  return "EVENT_TYPE_UNSPECIFIED";
}

bool has_entry(WatchEventType type) {
  return type != WatchEventType::remove && type != WatchEventType::rename;
}

bool tells_nothing(std::int64_t type) {
  constexpr std::array<std::uint32_t, 6> silent = {PROC_SUPER_MAGIC,   SYSFS_MAGIC,   CGROUP2_SUPER_MAGIC,
                                                   DEVPTS_SUPER_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC};
  return std::ranges::find(silent, static_cast<std::uint32_t>(type)) != silent.end();
}

Result<std::int64_t> file_system_type(int folder) {
  struct statfs status{};
  if (::fstatfs(folder, &status) != 0) return fail_errno(errno, "ask for the file system");
  return static_cast<std::int64_t>(status.f_type);
}

unsigned char type_of(int folder, const FolderItem& item) {
  struct stat status{};
  if (item.type != DT_UNKNOWN) return item.type;
  if (::fstatat(folder, item.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return DT_UNKNOWN;
  return static_cast<unsigned char>(IFTODT(status.st_mode));
}

bool has_content(int folder, const std::string& name) {
  struct stat status{};
  return ::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) &&
         status.st_size > 0;
}

bool is_mount_point(int folder) {
  struct statx status{};
  return ::statx(folder, "", AT_EMPTY_PATH, STATX_TYPE, &status) == 0 &&
         (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

// A folder that is not there (any more), or not a folder: its own event says so, now or soon.
bool is_gone(const Error& error) {
  return error.code == Code::not_found || error.code == Code::invalid_argument;
}

}  // namespace

bool is_network_file_system(std::int64_t type) {
  constexpr std::array<std::uint32_t, 5> network = {NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, CIFS_SUPER_MAGIC,
                                                    SMB2_SUPER_MAGIC, FUSE_SUPER_MAGIC};
  return std::ranges::find(network, static_cast<std::uint32_t>(type)) != network.end();
}

std::string watch_event_json(std::string_view name, WatchEventType type, const EntryInfo* entry) {
  std::string text = R"({"name":)";
  append_json_string(text, text_of_path(name));
  text += fmt::format(R"(,"type":"{}")", type_name(type));
  if (entry != nullptr) {
    text += R"(,"entry":)";
    append_entry_json(text, *entry);
  }
  return text + '}';
}

Result<std::unique_ptr<DirectoryWatch>> DirectoryWatch::open(WatchOptions options) {
  SPACE_TRY(const Fd folder, open_folder(options.path));
  SPACE_TRY(const std::int64_t type, file_system_type(folder.get()));
  if (is_network_file_system(type) && !options.allow_network_mounts)
    return fail(Code::invalid_argument,
                "path '{}' is on a network file system, where changes made elsewhere are not seen; "
                "watch it all the same with allowNetworkMounts",
                shown_path(options.path));
  std::unique_ptr<DirectoryWatch> watch(new DirectoryWatch(std::move(options)));
  watch->inotify_.reset(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!watch->inotify_ && errno == EMFILE)
    return fail(Code::exhausted, "too many watches at once (fs.inotify.max_user_instances); stop some");
  if (!watch->inotify_) return fail_errno(errno, "watch the folder");
  SPACE_TRY(const Added root, watch->add_watch(folder.get(), Folder()));
  watch->root_ = root.watch;
  SPACE_CHECK(watch->watch_below(folder.get(), watch->root_, false));
  return watch;
}

// The same folder always has the same number, until it is removed or let go.
Result<int> DirectoryWatch::watch_folder(int folder, std::uint32_t mask) const {
  const std::string path = fmt::format("/proc/self/fd/{}", folder);
  const int watch = ::inotify_add_watch(inotify_.get(), path.c_str(), mask);
  if (watch >= 0) return watch;
  if (errno != ENOSPC) return fail_errno(errno, "watch a folder");
  return fail(
      Code::exhausted,
      "the kernel has no more watches (fs.inotify.max_user_watches); watch a smaller folder or raise it");
}

// One that is watched already gets its new place; one that was at that place has left it.
Result<DirectoryWatch::Added> DirectoryWatch::add_watch(int folder, Folder place) {
  SPACE_TRY(const int watch, watch_folder(folder, place.parent < 0 ? root_mask : folder_mask | IN_MASK_ADD));
  const auto known = folders_.find(watch);
  bool in_place = false;
  if (known != folders_.end()) {
    in_place = known->second.parent == place.parent && known->second.name == place.name;
    if (is_above(watch, place.parent)) return fail(Code::conflict, "a folder is below itself");
    leave_place(watch);
    place.below = std::move(known->second.below);
  }
  const bool moved = moving_.erase(watch) > 0;
  if (const auto parent = folders_.find(place.parent); parent != folders_.end()) {
    const auto former = parent->second.below.find(place.name);
    if (former != parent->second.below.end()) moving_.insert_or_assign(former->second, round_);
    parent->second.below.insert_or_assign(place.name, watch);
  }
  folders_.insert_or_assign(watch, std::move(place));
  return Added{.watch = watch, .moved = moved, .in_place = in_place && !moved};
}

// Watches all folders below, each before it is listed.
Result<void> DirectoryWatch::watch_below(int folder, int watch, bool announce) {
  if (!options_.recursive) return {};
  struct Level {
    int watch;
    std::vector<std::string> below;
  };
  SPACE_TRY(auto stack, FolderStack::open(folder));
  std::vector<Level> levels;
  SPACE_TRY(auto first, list_level(stack, watch, announce));
  levels.push_back({watch, std::move(first)});
  for (;;) {
    if (levels.back().below.empty()) {
      levels.pop_back();
      if (levels.empty()) return {};
      SPACE_CHECK(stack.leave());
      continue;
    }
    const std::string name = std::move(levels.back().below.back());
    levels.back().below.pop_back();
    const std::uint64_t seen = queue_end();
    SPACE_TRY(const bool entered, enter_watchable(stack, name));
    if (!entered) continue;
    const auto added = add_watch(stack.fd(), {.parent = levels.back().watch, .name = name, .seen = seen});
    if (!added && added.error().code == Code::conflict) {
      if (!is_mount_point(stack.fd())) unopened_.emplace(levels.back().watch, name);
      SPACE_CHECK(stack.leave());
      continue;
    }
    if (!added) return std::unexpected(added.error());
    SPACE_TRY(auto below, list_level(stack, added->watch, announce));
    levels.push_back({added->watch, std::move(below)});
  }
}

// Names of the folders in the current one.
Result<std::vector<std::string>> DirectoryWatch::list_level(FolderStack& stack, int watch, bool announce) {
  SPACE_TRY(auto items, read_folder(stack.fd(), names_limit));
  const std::uint64_t until = queue_end();
  std::vector<std::string> below;
  for (FolderItem& item : items) {
    const bool is_folder = type_of(stack.fd(), item) == DT_DIR;
    if (announce) {
      emit_at(stack.fd(), watch, item.name, WatchEventType::create);
      if (!is_folder && has_content(stack.fd(), item.name))
        emit_at(stack.fd(), watch, item.name, WatchEventType::write);
      announced_.insert_or_assign({watch, item.name}, until);
    }
    if (is_folder) below.push_back(std::move(item.name));
  }
  return below;
}

Result<bool> DirectoryWatch::enter_watchable(FolderStack& stack, const std::string& name) const {
  const dev_t device = stack.device();
  const auto entered = stack.enter(name);
  if (!entered && entered.error().code == Code::permission_denied) return false;
  if (!entered || !*entered || stack.device() == device || is_watchable(stack.fd())) return entered;
  SPACE_CHECK(stack.leave());
  return false;
}

bool DirectoryWatch::is_watchable(int folder) const {
  const auto type = file_system_type(folder);
  return type && !tells_nothing(*type) && (options_.allow_network_mounts || !is_network_file_system(*type));
}

bool DirectoryWatch::is_above(int watch, int other) const {
  while (other != watch) {
    const auto found = folders_.find(other);
    if (found == folders_.end()) return false;
    other = found->second.parent;
  }
  return true;
}

void DirectoryWatch::leave_place(int watch) {
  const Folder& folder = folders_.at(watch);
  const auto parent = folders_.find(folder.parent);
  if (parent == folders_.end()) return;
  const auto entry = parent->second.below.find(folder.name);
  if (entry != parent->second.below.end() && entry->second == watch) parent->second.below.erase(entry);
}

void DirectoryWatch::forget_tree(int watch) {
  if (!folders_.contains(watch) || watch == root_) return;
  leave_place(watch);
  std::vector<int> left{watch};
  while (!left.empty()) {
    const int next = left.back();
    left.pop_back();
    const auto folder = folders_.extract(next);
    moving_.erase(next);
    for (const auto& [name, below] : folder.mapped().below) left.push_back(below);
    ::inotify_rm_watch(inotify_.get(), next);
  }
}

DirectoryWatch::Batch DirectoryWatch::read() {
  alignas(inotify_event) static thread_local std::array<char, read_size> buffer;
  const ssize_t count = ::read(inotify_.get(), buffer.data(), buffer.size());
  if (count < 0 && errno != EAGAIN && errno != EINTR)
    end(RpcCode::internal, fail_errno(errno, "read what happened").error().message);
  const auto size = count < 0 ? 0 : static_cast<std::size_t>(count);
  const std::uint64_t start = read_bytes_;
  read_bytes_ += size;
  ++round_;
  for (std::size_t at = 0; at < size && !batch_.end;) {
    inotify_event event{};
    std::memcpy(&event, buffer.data() + at, sizeof event);
    const std::string_view padded(buffer.data() + at + sizeof event, event.len);
    end_on_failure(handle(event, std::string(padded.substr(0, padded.find('\0'))), start + at));
    at += sizeof event + event.len;
  }
  if (!batch_.end) end_on_failure(finish_round());
  batch_bytes_ = 0;
  return std::exchange(batch_, Batch());
}

void DirectoryWatch::end_on_failure(const Result<void>& result) {
  if (result) return;
  end(result.error().code == Code::exhausted ? RpcCode::resource_exhausted : RpcCode::data_loss,
      result.error().message);
}

Result<void> DirectoryWatch::handle(const inotify_event& event, const std::string& name,
                                    std::uint64_t position) {
  if ((event.mask & IN_Q_OVERFLOW) != 0) {
    end(RpcCode::data_loss, "more happened than could be told; list the folder and watch it again");
    return {};
  }
  if (!folders_.contains(event.wd)) return {};
  if (event.wd == root_ && name.empty()) {
    handle_root(event);
  } else if ((event.mask & IN_IGNORED) != 0) {
    forget_tree(event.wd);
  } else if (name.empty()) {
    return {};  // of a folder itself: the folder above has it with its name
  } else if ((event.mask & (IN_CREATE | IN_MOVED_TO)) != 0) {
    return appeared(event, name, position);
  } else if ((event.mask & (IN_DELETE | IN_MOVED_FROM)) != 0) {
    disappeared(event, name, position);
  } else if ((event.mask & IN_MODIFY) != 0) {
    emit(event.wd, name, WatchEventType::write);
  } else if ((event.mask & IN_ATTRIB) != 0) {
    emit(event.wd, name, WatchEventType::chmod);
  }
  return {};
}

void DirectoryWatch::handle_root(const inotify_event& event) {
  if ((event.mask & IN_ATTRIB) != 0) emit(root_, ".", WatchEventType::chmod);
  if ((event.mask & IN_DELETE_SELF) != 0) {
    emit(root_, ".", WatchEventType::remove);
    end(RpcCode::not_found, "the watched folder was removed");
  }
  if ((event.mask & IN_MOVE_SELF) != 0) {
    emit(root_, ".", WatchEventType::rename);
    end(RpcCode::not_found, "the watched folder was moved");
  }
  if ((event.mask & (IN_UNMOUNT | IN_IGNORED)) != 0)
    end(RpcCode::not_found, "the watched folder's file system was unmounted");
}

Result<void> DirectoryWatch::appeared(const inotify_event& event, const std::string& name,
                                      std::uint64_t position) {
  const auto found = announced_.find({event.wd, name});
  const bool told = found != announced_.end() && position < found->second;
  if (found != announced_.end()) announced_.erase(found);
  if (!told) emit(event.wd, name, WatchEventType::create);
  // A told folder is looked at once more: of two that came to the same name the queue may keep one event, the
  // first.
  if ((event.mask & IN_ISDIR) != 0 && options_.recursive) return folder_appeared(event.wd, name, told);
  return {};
}

Result<void> DirectoryWatch::folder_appeared(int parent, const std::string& name, bool told) {
  const std::uint64_t seen = queue_end();
  const auto above = open_watched(parent);
  if (!above && is_gone(above.error())) {
    unopened_.emplace(parent, name);
    return {};
  }
  if (!above) return std::unexpected(above.error());
  const auto folder = open_folder_below(above->get(), name);
  if (!folder && is_gone(folder.error())) return {};
  if (!folder) return std::unexpected(folder.error());
  if (!is_watchable(folder->get())) return {};

  const auto added = add_watch(folder->get(), {.parent = parent, .name = name, .seen = seen});
  if (!added && added.error().code == Code::conflict) {  // what is known of the folders above is out of date
    unopened_.emplace(parent, name);
    return {};
  }
  if (!added) return std::unexpected(added.error());
  if (added->moved || (told && added->in_place)) return {};  // so are the folders below it
  return watch_below(folder->get(), added->watch, true);
}

void DirectoryWatch::disappeared(const inotify_event& event, const std::string& name,
                                 std::uint64_t position) {
  const bool moved = (event.mask & IN_MOVED_FROM) != 0;
  announced_.erase({event.wd, name});
  emit(event.wd, name, moved ? WatchEventType::rename : WatchEventType::remove);
  const auto& below = folders_.at(event.wd).below;
  const auto folder = below.find(name);
  if ((event.mask & IN_ISDIR) == 0 || folder == below.end()) return;
  const int watch = folder->second;
  if (position < folders_.at(watch).seen) return;
  leave_place(watch);
  moving_.insert_or_assign(watch, round_);
}

// One that can be opened may let others be.
Result<void> DirectoryWatch::open_unopened() {
  for (bool progress = true; progress && !unopened_.empty();) {
    const auto tried = std::exchange(unopened_, {});
    for (const auto& [parent, name] : tried)
      if (folders_.contains(parent)) SPACE_CHECK(folder_appeared(parent, name, false));
    progress = !std::ranges::includes(unopened_, tried);
  }
  return {};
}

// A folder that left and did not arrive within the same queue has left the tree. If its arrival is told later
// after all, it is a new folder then.
Result<void> DirectoryWatch::finish_round() {
  SPACE_CHECK(open_unopened());
  const bool drained = queued_bytes() == 0;
  std::vector<int> left;
  for (const auto& [watch, round] : moving_)
    if (drained || round < round_) left.push_back(watch);
  for (const int watch : left) forget_tree(watch);
  std::erase_if(announced_, [&](const auto& entry) { return drained || entry.second <= read_bytes_; });
  entry_folder_.reset();
  return {};
}

void DirectoryWatch::emit(int watch, std::string_view name, WatchEventType type) {
  if (!options_.include_entry || !has_entry(type)) return emit_at(-1, watch, name, type);
  if (!entry_folder_ || entry_folder_->first != watch) {
    auto folder = open_watched(watch);
    entry_folder_.emplace(watch, folder ? *std::move(folder) : Fd());
  }
  emit_at(entry_folder_->second.get(), watch, name, type);
}

void DirectoryWatch::emit_at(int folder, int watch, std::string_view name, WatchEventType type) {
  const auto relative = relative_path(watch, name);
  if (!relative) return;
  std::optional<EntryInfo> entry;
  if (options_.include_entry && has_entry(type) && folder >= 0) {
    const std::string path = fmt::format("{}/{}", options_.path == "/" ? "" : options_.path, *relative);
    auto found =
        read_entry_at(folder, std::string(name), name == "." ? options_.path : path, *options_.names);
    if (found) entry = *std::move(found);
  }
  push(watch_event_json(*relative, type, entry ? &*entry : nullptr), type);
}

void DirectoryWatch::push(std::string event, WatchEventType type) {
  const bool repeats = type == WatchEventType::write || type == WatchEventType::chmod;
  if (batch_.end || (repeats && !batch_.events.empty() && batch_.events.back() == event)) return;
  batch_bytes_ += event.size();
  if (batch_bytes_ > options_.batch_limit_bytes)
    return end(RpcCode::data_loss,
               "more happened at once than could be told; list the folder and watch it again");
  batch_.events.push_back(std::move(event));
}

void DirectoryWatch::end(RpcCode code, std::string message) {
  if (!batch_.end) batch_.end = RpcError{code, std::move(message)};
}

std::optional<std::string> DirectoryWatch::relative_path(int watch, std::string_view name) const {
  std::vector<std::string_view> names;
  if (!name.empty()) names.push_back(name);
  for (int at = watch; at != root_;) {
    const auto folder = folders_.find(at);
    if (folder == folders_.end()) return std::nullopt;
    names.push_back(folder->second.name);
    at = folder->second.parent;
  }
  std::string path;
  for (auto piece = names.rbegin(); piece != names.rend(); ++piece) {
    if (!path.empty()) path += '/';
    path += *piece;
  }
  return path;
}

Result<Fd> DirectoryWatch::open_watched(int watch) const {
  const auto relative = relative_path(watch, "");
  if (!relative) return fail(Code::not_found, "the folder is not watched any more");
  SPACE_TRY(const Fd root, open_folder(options_.path));
  SPACE_TRY(Fd folder, open_folder_below(root.get(), *relative));
  // Its number tells; an inode's would not, a new folder gets that of one just removed.
  SPACE_TRY(const int found, watch_folder(folder.get(), folder_mask | IN_MASK_ADD));
  if (found == watch) return folder;
  if (!folders_.contains(found)) ::inotify_rm_watch(inotify_.get(), found);
  return fail(Code::not_found, "the folder has another place now");
}

std::uint64_t DirectoryWatch::queued_bytes() const {
  int bytes = 0;
  return ::ioctl(inotify_.get(), FIONREAD, &bytes) == 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

}  // namespace space::guest
