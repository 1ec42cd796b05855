// DirectoryWatch: what happens in a folder, and with `recursive` in all folders below it, by inotify. Plain
// blocking code of one user at a time; watcher.h puts it on the loop.
//
// inotify watches single folders, so a folder that appears is watched first and listed then: what the listing
// shows is announced, and what the queue says about the same names again is left out. A moved folder keeps
// its watch. Links are not followed below the root; folders of file systems that report nothing (proc, sysfs)
// or that would block (network, unless allowed) are passed over.
#pragma once

#include <sys/inotify.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "guest/file_entry.h"
#include "guest/folder_stack.h"
#include "net/connect.h"

namespace space::guest {

struct WatchOptions {
  std::string path;  // absolute
  bool recursive = false;
  bool include_entry = false;
  bool allow_network_mounts = false;
  std::shared_ptr<const AccountNames> names;  // for include_entry
  std::size_t batch_limit_bytes = 32 * 1024 * 1024;
};

enum class WatchEventType : unsigned char { create, write, remove, rename, chmod };

// Pure. By statfs's type: NFS, SMB, CIFS, FUSE.
bool is_network_file_system(std::int64_t type);

// {"name":…,"type":"EVENT_TYPE_CREATE","entry"?:…}; `name` relative to the watched folder, "." is itself.
std::string watch_event_json(std::string_view name, WatchEventType type, const EntryInfo* entry);

class DirectoryWatch {
 public:
  struct Batch {
    std::vector<std::string> events;  // JSON, in order
    std::optional<connect::RpcError>
        end;  // after these nothing more comes: the folder has gone, events were lost
  };

  // Missing: not_found. No folder, or on a network file system that is not allowed: invalid_argument. Out of
  // the kernel's watches: exhausted.
  static Result<std::unique_ptr<DirectoryWatch>> open(WatchOptions options);

  int fd() const { return inotify_.get(); }  // readable when there is something to read
  // What has happened; empty if nothing has. Not to be called after an end.
  Batch read();

 private:
  struct Folder {
    int parent = -1;  // watch descriptor; of the root -1
    std::string name;
    std::uint64_t seen = 0;  // bytes of the queue before it was found here: what they say is of a former one
    std::map<std::string, int, std::less<>> below;
  };
  // Found by listing a folder: events up to `until` bytes of the queue may speak of it again.
  using Announced = std::map<std::pair<int, std::string>, std::uint64_t>;

  struct Added {
    int watch = -1;
    bool moved = false;     // it was watched before and had left its place: so are the folders below it
    bool in_place = false;  // it was watched before, by the same name
  };

  explicit DirectoryWatch(WatchOptions options) : options_(std::move(options)) {}

  Result<int> watch_folder(int folder, std::uint32_t mask) const;
  Result<Added> add_watch(int folder, Folder place);
  Result<void> watch_below(int folder, int watch, bool announce);
  Result<std::vector<std::string>> list_level(FolderStack& stack, int watch, bool announce);
  Result<bool> enter_watchable(FolderStack& stack, const std::string& name) const;
  bool is_watchable(int folder) const;
  bool is_above(int watch, int other) const;
  void leave_place(int watch);
  void forget_tree(int watch);

  Result<void> handle(const inotify_event& event, const std::string& name, std::uint64_t position);
  void handle_root(const inotify_event& event);
  Result<void> appeared(const inotify_event& event, const std::string& name, std::uint64_t position);
  Result<void> folder_appeared(int parent, const std::string& name, bool told);
  void disappeared(const inotify_event& event, const std::string& name, std::uint64_t position);
  Result<void> open_unopened();
  Result<void> finish_round();

  void emit(int watch, std::string_view name, WatchEventType type);
  void emit_at(int folder, int watch, std::string_view name, WatchEventType type);
  void push(std::string event, WatchEventType type);
  void end(connect::RpcCode code, std::string message);
  void end_on_failure(const Result<void>& result);
  std::optional<std::string> relative_path(int watch, std::string_view name) const;
  Result<Fd> open_watched(int watch) const;  // not_found: it is not where it is known to be
  std::uint64_t queued_bytes() const;
  std::uint64_t queue_end() const { return read_bytes_ + queued_bytes(); }

  WatchOptions options_;
  Fd inotify_;
  int root_ = -1;
  std::unordered_map<int, Folder> folders_;
  Announced announced_;
  std::map<int, std::uint64_t> moving_;  // folders that left their place -> in which round
  // Folders that appeared (parent, name) where their parent was not: it is being moved, its own event is yet
  // to come.
  std::set<std::pair<int, std::string>> unopened_;
  std::uint64_t read_bytes_ = 0;  // of the queue, ever
  std::uint64_t round_ = 0;       // calls of read
  Batch batch_;
  std::size_t batch_bytes_ = 0;
  std::optional<std::pair<int, Fd>> entry_folder_;  // the one opened last for an entry, within one round
};

}  // namespace space::guest
