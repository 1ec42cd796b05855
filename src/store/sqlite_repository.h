// The Repository of an embedded control plane: one SQLite file, one thread that owns it. Calls run in their
// order on that thread, so the event loop never waits for a disk.
#pragma once

#include <memory>

#include "store/repository.h"

namespace space::store {

// Opens or creates the database (mode 0600) and brings its schema up to date. Blocking; for the start.
Result<std::unique_ptr<Repository>> open_sqlite_repository(const std::string& path);

}  // namespace space::store
