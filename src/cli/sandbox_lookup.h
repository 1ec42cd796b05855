// Which sandbox a person means: an id, or the beginning of exactly one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/api_client.h"

namespace space::cli {

// All of the team's, page by page.
Task<Result<JsonArray>> list_sandboxes(const ApiClient& api);
std::vector<std::string> ids_of(const JsonArray& sandboxes);

// Pure. Not found or ambiguous: the error names the ids that are close.
Result<std::string> choose_sandbox(std::string_view wanted, const std::vector<std::string>& ids);

// Asks the API only when `wanted` is not a whole id.
Task<Result<std::string>> resolve_sandbox(const ApiClient& api, std::string wanted);
// A whole id that the API does not know: its error, with the ids that are close to it.
Task<Error> explain_missing(const ApiClient& api, std::string wanted, Error error);
// The same where a snapshot of it may be what is missing.
Task<Error> explain_missing_snapshot(const ApiClient& api, std::string sandbox, Error error);

}  // namespace space::cli
