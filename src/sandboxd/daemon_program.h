// DaemonProgram: the guest's daemon as this node has it, for guests whose own is older: one that was restored
// from a checkpoint of long ago gets it in place, and everything it runs goes on.
#pragma once

#include <string>

#include "sandboxd/machine.h"

namespace space {

class DaemonProgram {
 public:
  // `version`: that of this build, of which the file is a part.
  static Result<DaemonProgram> load(const std::string& path, std::string version);

  const std::string& version() const { return version_; }
  // Does nothing where `running` is no older. Attached again when it returns. An error leaves the guest with
  // the daemon it has.
  Task<Result<void>> replace_older(std::shared_ptr<Machine> machine, std::string running,
                                   Deadline deadline) const;

 private:
  std::string program_;
  std::string sha256_;
  std::string version_;
};

}  // namespace space
