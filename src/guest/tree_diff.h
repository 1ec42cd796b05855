// Which files differ between two folders' trees. Links are named and never followed, other file systems not
// entered. What the trees hold is hostile: everything is bounded. Blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/deadline.h"

namespace space::guest {

struct TreeChange {
  enum class Kind : unsigned char { added, removed, changed };
  Kind kind = Kind::changed;
  std::string path;        // absolute within the tree, as base/path_text.h shows bytes
  std::uint32_t type = 0;  // S_IFMT part of its mode, of the later one where there are two
  std::int64_t size = 0;   // of files and links
};

struct TreeDiffLimits {
  std::size_t changes = 1'000;
  std::size_t entries = 4'000'000;      // looked at
  std::size_t text_bytes = 512 * 1024;  // of all paths, as JSON
  int depth = 100;
  Deadline until = Deadline::after(Millis(60'000));
};

struct TreeDiff {
  std::vector<TreeChange> changes;  // a folder before what is in it, names in the order of their bytes
  bool truncated = false;           // a limit was met: there may be more
};

// Changed is another type, mode, owner, device number, size or content; times and extended attributes are not
// looked at. The content is read only where inode, size or times do not say that it is the same.
TreeDiff diff_trees(int from_folder, int to_folder, const TreeDiffLimits& limits);

std::string_view type_name(std::uint32_t type);  // "file", "directory", "symlink", "device", "fifo", "socket"

}  // namespace space::guest
