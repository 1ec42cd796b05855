// /etc/space/space.toml: what an operator sets once. Flags win over it.
#pragma once

#include <string>

#include "base/result.h"

namespace space::cli {

struct ConfigFile {
  std::string state;   // directory, absolute
  std::string run;     // directory, absolute
  std::string listen;  // "127.0.0.1:3000"
};

// A missing file is an empty configuration; an unknown key or a wrong type is an error with its line.
Result<ConfigFile> read_config_file(const std::string& path);

}  // namespace space::cli
