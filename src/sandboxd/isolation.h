// What holds a sandbox's VMM, layer by layer, as the node manager read it back from the kernel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/noded.h"
#include "base/json.h"

namespace space {

struct IsolationLayer {
  std::string name;
  noded::LayerState state = noded::LayerState::off;
  std::string detail;
  bool operator==(const IsolationLayer&) const = default;
};

inline constexpr std::size_t isolation_layers_max = 64;

// The content of vmm_isolation's answer. internal when it is not exactly IsolationRecord[]: none or too many,
// text without an end or with control characters, a state that does not exist. A report that cannot be read
// must never pass for one without faults.
Result<std::vector<IsolationLayer>> decode_isolation(std::string_view content);

// [{"name","state":"active"|"off"|"unavailable","detail"}]
JsonArray to_json(const std::vector<IsolationLayer>& layers);

}  // namespace space
