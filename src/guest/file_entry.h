// EntryInfo: what the daemon says about one file (api/envd.md), and the metadata a client attached to it,
// which is kept as extended attributes "user.e2b.KEY". Blocking system calls, for any thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "guest/users.h"

namespace space::guest {

enum class FileKind : unsigned char { unspecified, file, directory };  // special files are unspecified
using Metadata = std::map<std::string, std::string>;

struct EntryInfo {
  std::string name;  // names and paths as bytes; the JSON form makes text of them
  std::string path;
  FileKind kind = FileKind::unspecified;  // a link's is its target's
  std::uint64_t size = 0;                 // bytes; of the link itself
  std::uint32_t mode = 0;                 // permission bits; a link's are its target's, 0 without one
  std::string permissions;                // "-rw-r--r--", "Lrwxrwxrwx"; of the link itself
  std::string owner;
  std::string group;
  timespec modified{};
  std::optional<std::string> symlink_target;  // resolved; the link's own path if it leads nowhere
  Metadata metadata;
};

// The file at `path`, which is absolute and as long as it likes. Missing: not_found.
Result<EntryInfo> read_entry(const std::string& path, const AccountNames& names);
// The file `name` in an open folder (O_PATH will do); `path` is what the entry will say.
Result<EntryInfo> read_entry_at(int folder, std::string name, std::string path, const AccountNames& names);

// {"name":…,"type":"FILE_TYPE_FILE",…}
void append_entry_json(std::string& out, const EntryInfo& entry);

// Pure. The file mode as Go writes it: type letters, then rwx three times.
std::string permission_text(mode_t mode);

// Of an open file (not O_PATH). What the file system cannot hold is an error only if there is something to
// hold.
Result<void> replace_metadata(int file, const Metadata& metadata);

}  // namespace space::guest
