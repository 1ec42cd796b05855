// Source: what a sandbox begins as.
#pragma once

#include <optional>
#include <string>

#include "store/records.h"

namespace space::control {

struct Source {
  store::Template shown;               // what the sandbox is said to be of; its digest, shape and defaults
  std::optional<SnapshotId> snapshot;  // nullopt: begins as the template does
  std::int64_t build = 0;              // of the snapshot template it is; 0: none
  std::string title;                   // for messages: "Snapshot 'default/ready:default'"
};

}  // namespace space::control
