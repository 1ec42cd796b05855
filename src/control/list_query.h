// The query of GET /v2/sandboxes, and its paging cursor. Pure; fuzzed.
#pragma once

#include <string>
#include <string_view>

#include "store/records.h"

namespace space::control {

inline constexpr std::size_t page_limit_max = 100;

// Everything but the team. `metadata` arrives encoded three times over: the query string itself, the list of
// pairs, and each key and value. invalid_argument names the parameter.
Result<store::SandboxQuery> parse_list_query(std::string_view query);

// Opaque to clients; holds for one order only.
std::string encode_cursor(const store::ListPosition& position, store::Order order);

}  // namespace space::control
