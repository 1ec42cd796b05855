// Machine: all that a check may ask of the computer it runs on. Checks decide on these answers alone, so a
// test gives them a machine of its own. Nothing here changes anything.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace space::cli::doctor {

struct FileFacts {
  mode_t mode = 0;  // type and permissions, as stat(2)
  uid_t uid = 0;
  gid_t gid = 0;
  unsigned major = 0;  // of a device
  unsigned minor = 0;
  std::uint64_t bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::int64_t modified_s = 0;  // since 1970

  unsigned permissions() const { return mode & 07777; }
};

struct DiskFacts {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;  // for an unprivileged writer
  std::uint64_t files = 0;       // 0: the file system does not count them
  std::uint64_t free_files = 0;
};

class Machine {
 public:
  virtual ~Machine() = default;

  // The file's beginning, at most 4 MiB; nullopt when it cannot be read.
  virtual std::optional<std::string> text(const std::string& path) const = 0;
  // Its last 256 KiB.
  virtual std::optional<std::string> tail(const std::string& path) const = 0;
  virtual std::optional<FileFacts> file(const std::string& path) const = 0;  // follows links
  virtual std::optional<std::string> link(const std::string& path) const = 0;
  virtual std::vector<std::string> names(const std::string& folder) const = 0;  // sorted; empty: cannot
  virtual std::optional<DiskFacts> disk(const std::string& path) const = 0;
  // Standard output of a program that ends within seconds with exit code 0.
  virtual std::optional<std::string> output(const std::vector<std::string>& argv) const = 0;
  virtual bool locked(const std::string& path) const = 0;  // some process holds its flock(2)
  virtual uid_t user() const = 0;                          // effective
  virtual std::int64_t now_s() const = 0;                  // since 1970
  virtual std::uint64_t descriptor_limit() const = 0;      // soft limit of open files
  virtual int landlock_abi() const = 0;                    // 0: none
  virtual std::string own_folder() const = 0;              // where this program is installed
};

}  // namespace space::cli::doctor
