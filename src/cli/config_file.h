// /etc/space/space.toml: what an operator sets once. Flags win over it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace space::cli {

struct ConfigFile {
  std::string state;   // directory, absolute
  std::string run;     // directory, absolute
  std::string listen;  // "127.0.0.1:3000"
  std::optional<std::int64_t> pool_mib;
  std::optional<std::int64_t> memory_limit_mib;
  bool allow_tcg_multitenant = false;
};

// A missing file is an empty configuration; an unknown key or a wrong type is an error with its line.
Result<ConfigFile> parse_config(std::string_view text, const std::string& path);
Result<ConfigFile> read_config_file(const std::string& path);

}  // namespace space::cli
