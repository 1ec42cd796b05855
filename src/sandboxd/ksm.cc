#include "sandboxd/ksm.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace space {

KsmSwitch::KsmSwitch(const std::string& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (!file_) error_ = errno;
}

Result<void> KsmSwitch::check_off() const {
  if (error_ == ENOENT || error_ == ENOTDIR) return {};
  char value = 0;
  const ssize_t n = file_ ? ::pread(file_.get(), &value, 1, 0) : -1;
  if (n != 1)
    return fail(Code::unavailable,
                "whether KSM merges the memory of sandboxes cannot be told: "
                "/sys/kernel/mm/ksm/run is not readable to space-sandboxd");
  if (value != '1') return {};
  return fail(Code::unavailable,
              "KSM is on, so one sandbox could tell what is in another's memory, and none "
              "is started. On the node: echo 2 > /sys/kernel/mm/ksm/run");
}

}  // namespace space
