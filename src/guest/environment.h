// What a started process inherits: its environment, and the paths a client may write short. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "guest/users.h"

namespace space::guest {

using Environment = std::map<std::string, std::string, std::less<>>;

inline constexpr std::string_view default_path =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Later wins: PATH; HOME, USER, LOGNAME of the user; E2B_SANDBOX=true; the sandbox's variables; the
// request's. Nothing else is inherited. Names that are empty or hold '=' or NUL, and values that hold NUL,
// are dropped.
Environment build_environment(std::string_view path, const User& user, const Environment& sandbox,
                              const Environment& request);
std::vector<std::string> to_assignments(const Environment& environment);  // "NAME=value"

// The absolute path, in bytes, that a client's text means (path_text.h). Absolute: kept. "~", "~/x": the
// home.
// "~bob": invalid_argument. Relative: below the home. Empty: the default working folder, else the home. NUL
// inside: invalid_argument. "." and ".." are resolved by text, as the E2B SDKs expect.
Result<std::string> resolve_path(std::string_view text, const User& user, std::string_view default_workdir);

// Where execve is tried for `command`: itself if it holds a '/', else in each folder of PATH.
std::vector<std::string> executable_candidates(std::string_view command, std::string_view path);

}  // namespace space::guest
