#include "cli/config_file.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "base/fd.h"

namespace space::cli {

Result<ConfigFile> parse_config(std::string_view text, const std::string& path) {
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed)
    return fail(Code::invalid_argument, "{} line {}: {}", path, parsed.error().source().begin.line,
                parsed.error().description());
  ConfigFile config;
  for (const auto& [key, node] : parsed.table()) {
    std::optional<std::int64_t>* number = key == "pool_mib"           ? &config.pool_mib
                                          : key == "memory_limit_mib" ? &config.memory_limit_mib
                                                                      : nullptr;
    if (number != nullptr) {
      *number = node.value_exact<std::int64_t>();
      if (!*number || **number <= 0)
        return fail(Code::invalid_argument, "{} line {}: '{}' must be a positive number of MiB", path,
                    node.source().begin.line, key.str());
      continue;
    }
    if (key == "allow_tcg_multitenant") {
      const auto value = node.value_exact<bool>();
      if (!value)
        return fail(Code::invalid_argument, "{} line {}: '{}' must be true or false", path,
                    node.source().begin.line, key.str());
      config.allow_tcg_multitenant = *value;
      continue;
    }
    std::string* target = key == "state"    ? &config.state
                          : key == "run"    ? &config.run
                          : key == "listen" ? &config.listen
                                            : nullptr;
    if (target == nullptr)
      return fail(Code::invalid_argument,
                  "{} line {}: unknown setting '{}' (known: state, run, listen, pool_mib, memory_limit_mib, "
                  "allow_tcg_multitenant)",
                  path, node.source().begin.line, key.str());
    if (!node.is_string())
      return fail(Code::invalid_argument, "{} line {}: '{}' must be a string", path, node.source().begin.line,
                  key.str());
    *target = node.as_string()->get();
  }
  return config;
}

Result<ConfigFile> read_config_file(const std::string& path) {
  const auto text = read_file(path, 1024 * 1024);
  if (!text && text.error().code == Code::not_found) return ConfigFile{};
  if (!text) return std::unexpected(text.error());
  return parse_config(*text, path);
}

}  // namespace space::cli
