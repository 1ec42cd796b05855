// The history of a sandbox as a tree: its snapshots in the order in which one continued the other, from its
// beginning down to now; what branched off below the snapshot it left, with the rollbacks and forks of it.
//
//   iaaaa…
//   ├─ 1  full  2026-11-30 13:00:00Z  asked  12.0 MiB  "clean"
//   │  ├─ fork ibbbb…
//   │  ├─ branch
//   │  │  └─ 2  full  2026-11-30 13:05:00Z  before rollback  1.0 MiB
//   │  └─ 2026-11-30 13:05:01Z  rolled back to 1
//   ├─ 3  disk  …
//   └─ now
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace space::cli {

enum class Charset : unsigned char { unicode, ascii };

// Pure. `history` as the API sends it; a line each, printable whatever a name holds.
std::vector<std::string> history_lines(const std::string& sandbox, const JsonObject& history,
                                       Charset charset);

// What a terminal of these variables takes, as the C library reads them: the first that is not empty decides.
Charset charset_of(const char* lc_all, const char* lc_ctype, const char* lang);

}  // namespace space::cli
