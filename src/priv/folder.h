// Folders of ours: made, listed, opened beneath a folder without following any link.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"

namespace space::priv {

// Makes it, or sets mode and owner root of the one that is there. Its parent exists.
Result<void> make_folder(const std::string& path, unsigned mode);
// Names in the folder, without those that begin with a dot; order undefined.
Result<std::vector<std::string>> names_in(const std::string& path);
Result<std::vector<std::string>> names_in(int folder);
// The same, only those that begin with a dot (. and .. left out): our names for half-made things.
Result<std::vector<std::string>> half_made_in(int folder);
inline std::string half_made(const std::string& name) {
  return "." + name;
}

// A short text in a file of its own. It is there whole once its folder has its final name.
Result<std::string> read_note(int folder, const char* name);
Result<void> write_note(int folder, const char* name, const std::string& text);

// `path` is relative, and stays beneath `folder`: no symbolic link, no magic link, no "..".
Result<Fd> open_beneath(int folder, const std::string& path, int flags, unsigned mode = 0);

}  // namespace space::priv
