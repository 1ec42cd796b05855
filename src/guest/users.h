// Users of the guest, read from its own /etc/passwd and /etc/group. A static executable cannot use
// getpwnam (it loads NSS modules), and the guest's files are untrusted text anyway.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace space::guest {

struct User {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  std::string home;
  std::vector<gid_t> groups;  // supplementary, the primary one included
};

// Pure: looks `name` up in the text of the two files. Malformed lines are skipped.
std::optional<User> find_user(std::string_view passwd, std::string_view group, std::string_view name);

// Names of numeric ids. A snapshot: any thread may use it.
struct AccountNames {
  std::map<std::uint32_t, std::string> users;
  std::map<std::uint32_t, std::string> groups;
  std::string user(uid_t uid) const;   // the number as text if unknown
  std::string group(gid_t gid) const;  // likewise
};
// Pure. Of several names for one id the first counts.
AccountNames account_names(std::string_view passwd, std::string_view group);

// The two files, re-read when they change (a guest may run adduser at any time).
class UserDatabase {
 public:
  explicit UserDatabase(std::string etc_folder = "/etc") : etc_(std::move(etc_folder)) {}
  // Unknown: Code::unauthenticated "invalid username: 'x'".
  Result<User> find(std::string_view name);
  std::shared_ptr<const AccountNames> names();

 private:
  struct CachedFile {
    std::int64_t modified_ns = -1;
    std::uint64_t inode = 0;
    std::int64_t size = -1;
    std::string text;
  };
  const std::string& read(CachedFile& cached, std::string_view name);

  std::string etc_;
  CachedFile passwd_;
  CachedFile group_;
  std::shared_ptr<const AccountNames> names_;  // null: of files that have changed since
};

}  // namespace space::guest
