// `space cp`: what its arguments name.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace space::cli {

struct Place {
  std::string sandbox;  // id or the beginning of one; empty: this machine
  std::string path;
  bool is_folder = false;  // ends with a slash
  bool contents = false;   // ends with "/.": what is in it, not itself
};

// "ID:path", ID being letters and digits; anything else, "./a:b" among it, is a path of this machine. Pure.
Result<Place> parse_place(std::string_view text);

}  // namespace space::cli
