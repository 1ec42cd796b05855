// Bootstrap: the first start makes a team and one API key, and leaves the key for the operator.
#pragma once

#include <string>

#include "store/repository.h"

namespace space::control {

// While the database has no key: makes one and writes `<folder>/bootstrap.json` {"api_url","api_key"}, mode
// 0600. The file comes first, so a crash in between repeats with the same key. Later starts only refresh the
// URL in it.
Task<Result<void>> bootstrap(store::Repository& repository, std::string folder, std::string api_url,
                             Wall now);

}  // namespace space::control
