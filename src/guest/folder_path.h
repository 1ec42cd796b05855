// Folders by absolute paths of any length: one system call takes less than PATH_MAX bytes, folders go deeper.
// Blocking. Links are followed as the kernel does it.
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "guest/users.h"

namespace space::guest {

// Where a path's last component is: its folder (O_PATH) and its name; of "/" the folder itself and ".".
struct Place {
  Fd folder;
  std::string name;
};
// A missing folder on the way, or a file in place of one: not_found.
Result<Place> open_place(const std::string& path);

// O_PATH. Missing: not_found; no folder: invalid_argument; a loop of links: conflict.
Result<Fd> open_folder(const std::string& path);
// The same below an open folder; no component of `relative`, which may be empty, is followed if it is a link.
Result<Fd> open_folder_below(int folder, std::string_view relative);

struct MadeFolder {
  Fd folder;  // O_PATH
  bool existed = false;
};
// The folder and its missing parents (0755), given to `user`. A file on the way: invalid_argument.
Result<MadeFolder> make_folder_path(const std::string& path, const User& user);

}  // namespace space::guest
