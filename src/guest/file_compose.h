// POST /files/compose: several files become one.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "guest/users.h"
#include "net/task.h"

namespace space::guest {

// Appends the sources in their order to a new file beside `destination`, puts it in its place, then removes
// the sources. Absolute paths; the destination may be one of the sources. Until the new file is on disk under
// its name nothing is removed: after any failure each byte is still where it was, or in the destination.
Task<Result<void>> compose_files(std::vector<std::string> sources, std::string destination, User user);

}  // namespace space::guest
