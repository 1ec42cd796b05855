// Templates: those in this node's pool, with their manifests (api/template-manifest.md).
#pragma once

#include <map>
#include <string>

#include "base/json.h"
#include "sandboxd/noded_client.h"

namespace space {

class Templates {
 public:
  explicit Templates(NodedClient& noded) : noded_(noded) {}

  // Manifests with their "digest", ordered by it. One that cannot be read is left out and logged.
  Task<Result<JsonArray>> list(Deadline deadline);
  // The manifest; a template's content never changes, so it is read once.
  Task<Result<JsonObject>> get(std::string digest, Deadline deadline);
  Task<Result<JsonObject>> import(std::string digest, Deadline deadline);
  Task<Result<void>> remove(std::string digest, Deadline deadline);
  // A manifest that was read already, also of one removed since; nullptr: none.
  const JsonObject* known(const std::string& digest) const;

 private:
  NodedClient& noded_;
  std::map<std::string, JsonObject> manifests_;  // by digest, of templates that are there
  std::map<std::string, JsonObject> known_;      // and of those that were
};

}  // namespace space
