// PolicyFiles: the last policy of each sandbox, `<folder>/<id>.json`, so that a gateway that starts enforces
// what the one before it did. Blocking.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/egress_policy.h"

namespace space::netd {

struct StoredPolicy {
  EgressPolicy policy;
  std::uint64_t generation = 0;
};

class PolicyFiles {
 public:
  explicit PolicyFiles(std::string folder) : folder_(std::move(folder)) {}

  // Durable when it returns; after an error what was there before is there still.
  Result<void> write(const std::string& id, const StoredPolicy& stored) const;
  Result<void> remove(const std::string& id) const;
  // Files that are none of ours or cannot be read are left out, and said in the log: their sandboxes have no
  // policy.
  Result<std::map<std::string, StoredPolicy>> read_all() const;

 private:
  std::string path_of(const std::string& id) const { return folder_ + "/" + id + ".json"; }
  Result<StoredPolicy> read(const std::string& id) const;

  std::string folder_;
};

}  // namespace space::netd
