// What the file system service does to trees of files: each works at any depth and path length, with a
// bounded number of descriptors, while programs change the tree. Paths are absolute. Blocking, for any
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "guest/file_entry.h"
#include "guest/users.h"

namespace space::guest {

// The folder and its missing parents, for `user`. False: it existed. A file in the way: invalid_argument.
Result<bool> make_folder(const std::string& path, const User& user);

// Renames; a file at `destination` is replaced, its missing parents are made for `user`. Missing source:
// not_found; a folder with content in the way, or another file system: conflict.
Result<void> move_file(const std::string& source, const std::string& destination, const User& user);

// The file, link or whole folder; nothing there is fine. Never follows a link, never leaves the tree.
Result<void> remove_tree(const std::string& path);

// Calls `visit` for everything below the folder, `depth` levels deep: a folder before its content, names in
// byte order. Links are shown, not followed; but `path` itself may be one. What vanishes meanwhile is left
// out, what cannot be looked at is shown with its name alone. Ends at the first error of `visit`.
Result<void> list_folder(const std::string& path, std::uint32_t depth, const AccountNames& names,
                         const std::function<Result<void>(const EntryInfo&)>& visit);

}  // namespace space::guest
