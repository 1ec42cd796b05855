// FolderStack: a walk down a tree of folders by descriptors, as deep as the tree is. Only the last few
// folders are held open; one further up is opened again through ".." and recognised by its inode. Blocking.
#pragma once

#include <sys/types.h>

#include <deque>
#include <string>
#include <vector>

#include "base/fd.h"

namespace space::guest {

struct FolderItem {
  std::string name;
  unsigned char type = 0;  // DT_DIR, …; DT_UNKNOWN where the file system does not say
};
// What the open folder holds besides "." and "..", unordered. More than `limit` items: exhausted.
Result<std::vector<FolderItem>> read_folder(int folder, std::size_t limit);

class FolderStack {
 public:
  // `folder` may be an O_PATH descriptor; depth 1.
  static Result<FolderStack> open(int folder);

  // Into folder `name` of the current one, never through a link. False: it is gone, or no folder (any more).
  Result<bool> enter(const std::string& name);
  Result<void> leave();  // conflict: the folder was moved away meanwhile, so the one above is not known

  int fd() const { return levels_.back().fd.get(); }  // of the current folder, readable
  dev_t device() const { return levels_.back().device; }
  std::size_t depth() const { return levels_.size(); }

 private:
  struct Level {
    Fd fd;
    dev_t device = 0;
    ino_t inode = 0;
  };
  static Result<Level> open_level(int parent, const char* name);

  std::deque<Level> levels_;
};

}  // namespace space::guest
