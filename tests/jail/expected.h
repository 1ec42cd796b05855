// What must come of every row: in the whole jail, and what changes when one layer is left out.
#pragma once

#include <map>
#include <set>
#include <string>

#include "tests/jail/harness.h"

namespace space::jail {

Outcomes expected_in_full_jail(noded::Accelerator accelerator);

// Layer -> the rows that come out otherwise without it, and how. `any`: the kernel's configuration decides
// how.
inline constexpr const char* any = "any";
using Changes = std::map<std::string, Outcomes>;
const Changes& expected_without();
// The same where seccomp is left out too: what the layer is worth once that wall is down.
const Changes& expected_without_seccomp_and();

// Rows that come out the same with any layer missing, and outside: what they ask for is harmless, or not to
// be had on the machine at all.
const std::set<std::string>& same_everywhere();

}  // namespace space::jail
