// /etc/space/space.toml: what an operator sets once. Flags win over it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/options.h"

namespace space::cli {

struct ConfigFile {
  std::string state;   // directory, absolute
  std::string run;     // directory, absolute
  std::string listen;  // "127.0.0.1:3000"
  std::optional<std::int64_t> pool_mib;
  std::optional<std::int64_t> memory_limit_mib;
  std::optional<std::int64_t> disk_mib_per_s, disk_iops, network_mbit_per_s;  // of each sandbox; 0: no limit
  bool allow_tcg_multitenant = false;
  std::vector<std::string> allow_missing_layers;         // of the jail, where this kernel has none
  std::optional<std::int64_t> warm_pool, warm_pool_max;  // VMs parked: of each template, of all
  std::optional<std::int64_t> hot_keep_s;                // how long a paused sandbox stays in memory
  std::optional<std::int64_t> shutdown_limit_s;          // for keeping what runs
  // Table [network].
  std::vector<std::string> resolvers;  // "ADDRESS[:PORT]" that names are asked of; empty: the machine's own
  std::vector<std::string> deny;       // "CIDR"s that no sandbox reaches, besides those of every node
  std::string egress_default;          // allow_all, restricted or deny_all; empty: the API's own
  bool egress_internal = false;        // API keys may open addresses that are closed to sandboxes
};

bool is_egress_default(std::string_view word);

// A missing file is an empty configuration; an unknown key or a wrong type is an error with its line.
Result<ConfigFile> parse_config(std::string_view text, const std::string& path);
Result<ConfigFile> read_config_file(const std::string& path);
// Fills what the command line left open.
Result<void> read_directories(const std::string& path, bool state_given, bool run_given,
                              Directories& directories);

}  // namespace space::cli
