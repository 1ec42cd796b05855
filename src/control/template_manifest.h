// The node's manifest of a template (api/template-manifest.md) as far as the control plane uses it. Pure.
#pragma once

#include "base/json.h"
#include "store/records.h"

namespace space::control {

// What a create body may call a template: 1 to 128 of [a-z0-9._-], first and last a letter or digit.
bool is_template_name(std::string_view name);

// A row without id and time. `name` replaces the manifest's. Errors name the member.
Result<store::Template> read_manifest(const JsonObject& manifest, const std::string& digest,
                                      const std::optional<std::string>& name);

}  // namespace space::control
