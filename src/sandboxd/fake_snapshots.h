// FakeSnapshots: the snapshots of a fake node manager. For tests.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/fd.h"

namespace space {

class FakeSnapshots {
 public:
  struct Snapshot {
    Fd memory, state;  // none of a disk snapshot
    Fd manifest;
    std::string disk;  // what was on it
    bool finished = false;
  };

  // Takes the place of an unfinished one. conflict: it is finished. `launch_memory` is for `previous` 0.
  Result<std::vector<Fd>> begin(const std::string& id, std::uint64_t number, std::uint64_t previous,
                                const Fd& launch_memory, std::string disk);
  Result<std::vector<Fd>> begin_disk(const std::string& id, std::uint64_t number, std::string disk);
  Result<void> finish(const std::string& id, std::uint64_t number);
  // Two files of a disk snapshot, else four.
  Result<std::vector<Fd>> open(const std::string& id, std::uint64_t number) const;
  void remove(const std::string& id, std::uint64_t number);
  const Snapshot* finished(const std::string& id, std::uint64_t number) const;  // nullptr: none
  void remove_unfinished();

  std::map<std::string, std::map<std::uint64_t, Snapshot>> of;  // by sandbox, by number
};

}  // namespace space
