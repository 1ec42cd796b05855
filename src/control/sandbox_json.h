// Sandboxes and templates as clients read them. Pure.
#pragma once

#include <string>

#include "base/json.h"
#include "store/records.h"

namespace space::control {

// The version of the guest protocol that clients adapt to, and a constant that old clients expect.
inline constexpr std::string_view envd_version = "0.6.13";
inline constexpr std::string_view client_id = "6532622b";

// Answer of create and connect. `domain` "" = the client's own.
JsonObject sandbox_json(const store::Sandbox& row, const std::string& domain);
// Answer of get.
JsonObject sandbox_detail_json(const store::Sandbox& row, const std::string& domain);
// An entry of a listing.
JsonObject listed_sandbox_json(const store::Sandbox& row);

JsonObject template_json(const store::Template& row);

}  // namespace space::control
