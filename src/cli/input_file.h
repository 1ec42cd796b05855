// What a flag names as input: a file, or standard input.
#pragma once

#include <string>

#include "base/result.h"

namespace space::cli {

// `path` "-": standard input, to its end. invalid_argument: it is longer.
Result<std::string> read_input(const std::string& path, std::size_t bytes_max);

}  // namespace space::cli
