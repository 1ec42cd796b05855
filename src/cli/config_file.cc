#include "cli/config_file.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "base/fd.h"

namespace space::cli {

namespace {

constexpr const char* known =
    "state, run, listen, pool_mib, memory_limit_mib, disk_mib_per_s, disk_iops, network_mbit_per_s, "
    "allow_tcg_multitenant, allow_missing_layers, warm_pool, warm_pool_max, hot_keep_s, shutdown_limit_s, "
    "[network]";
constexpr const char* known_of_network = "resolvers, deny, egress_default, egress_internal";

struct NumberSetting {
  std::optional<std::int64_t> ConfigFile::* target;
  std::int64_t min;
};
std::optional<NumberSetting> number_setting(std::string_view key) {
  if (key == "pool_mib") return NumberSetting{&ConfigFile::pool_mib, 1};
  if (key == "memory_limit_mib") return NumberSetting{&ConfigFile::memory_limit_mib, 1};
  if (key == "disk_mib_per_s") return NumberSetting{&ConfigFile::disk_mib_per_s, 0};
  if (key == "disk_iops") return NumberSetting{&ConfigFile::disk_iops, 0};
  if (key == "network_mbit_per_s") return NumberSetting{&ConfigFile::network_mbit_per_s, 0};
  if (key == "warm_pool") return NumberSetting{&ConfigFile::warm_pool, 0};
  if (key == "warm_pool_max") return NumberSetting{&ConfigFile::warm_pool_max, 0};
  if (key == "hot_keep_s") return NumberSetting{&ConfigFile::hot_keep_s, 0};
  if (key == "shutdown_limit_s") return NumberSetting{&ConfigFile::shutdown_limit_s, 1};
  return std::nullopt;
}

std::string ConfigFile::* text_setting(std::string_view key) {
  if (key == "state") return &ConfigFile::state;
  if (key == "run") return &ConfigFile::run;
  if (key == "listen") return &ConfigFile::listen;
  return nullptr;
}

Result<std::vector<std::string>> texts_of(const toml::node& node) {
  std::vector<std::string> texts;
  if (!node.is_array()) return fail(Code::invalid_argument, "must be a list of strings");
  for (const auto& item : *node.as_array()) {
    if (!item.is_string()) return fail(Code::invalid_argument, "must be a list of strings");
    texts.push_back(item.as_string()->get());
  }
  return texts;
}

Result<void> set_network(ConfigFile& config, std::string_view key, const toml::node& node) {
  if (key == "resolvers") {
    SPACE_TRY(config.resolvers, texts_of(node));
    return {};
  }
  if (key == "deny") {
    SPACE_TRY(config.deny, texts_of(node));
    return {};
  }
  if (key == "egress_internal") {
    const auto value = node.value_exact<bool>();
    if (!value) return fail(Code::invalid_argument, "must be true or false");
    config.egress_internal = *value;
    return {};
  }
  if (key != "egress_default")
    return fail(Code::not_found, "unknown setting '{}' of [network] (known: {})", key, known_of_network);
  const auto word = node.value_exact<std::string>();
  if (!word || !is_egress_default(*word))
    return fail(Code::invalid_argument, "must be \"allow_all\", \"restricted\" or \"deny_all\"");
  config.egress_default = *word;
  return {};
}

// The error lacks file, line and name; the caller adds them.
Result<void> set(ConfigFile& config, std::string_view key, const toml::node& node) {
  if (const auto number = number_setting(key)) {
    const auto value = node.value_exact<std::int64_t>();
    if (!value || *value < number->min)
      return fail(Code::invalid_argument, "must be a number, at least {}", number->min);
    config.*(number->target) = value;
    return {};
  }
  if (key == "allow_tcg_multitenant") {
    const auto value = node.value_exact<bool>();
    if (!value) return fail(Code::invalid_argument, "must be true or false");
    config.allow_tcg_multitenant = *value;
    return {};
  }
  if (key == "allow_missing_layers") {
    SPACE_TRY(config.allow_missing_layers, texts_of(node));
    return {};
  }
  const auto text = text_setting(key);
  if (text == nullptr) return fail(Code::not_found, "unknown setting '{}' (known: {})", key, known);
  if (!node.is_string()) return fail(Code::invalid_argument, "must be a string");
  config.*text = node.as_string()->get();
  return {};
}

// Sets all of a table; with where the trouble is.
Result<void> set_all(ConfigFile& config, const toml::table& table, const std::string& path,
                     Result<void> (*set_one)(ConfigFile&, std::string_view, const toml::node&)) {
  for (const auto& [key, node] : table) {
    const toml::table* network = set_one == set && key.str() == "network" ? node.as_table() : nullptr;
    if (network != nullptr) {
      SPACE_CHECK(set_all(config, *network, path, set_network));
      continue;
    }
    const auto done = set_one(config, key.str(), node);
    if (done) continue;
    const std::string name = done.error().code == Code::not_found ? "" : fmt::format("'{}' ", key.str());
    return fail(Code::invalid_argument, "{} line {}: {}{}", path, node.source().begin.line, name,
                done.error().message);
  }
  return {};
}

}  // namespace

bool is_egress_default(std::string_view word) {
  return word == "allow_all" || word == "restricted" || word == "deny_all";
}

Result<ConfigFile> parse_config(std::string_view text, const std::string& path) {
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed)
    return fail(Code::invalid_argument, "{} line {}: {}", path, parsed.error().source().begin.line,
                parsed.error().description());
  ConfigFile config;
  SPACE_CHECK(set_all(config, parsed.table(), path, set));
  return config;
}

Result<ConfigFile> read_config_file(const std::string& path) {
  const auto text = read_file(path, 1024 * 1024);
  if (!text && text.error().code == Code::not_found) return ConfigFile{};
  if (!text) return std::unexpected(text.error());
  return parse_config(*text, path);
}

Result<void> read_directories(const std::string& path, bool state_given, bool run_given,
                              Directories& directories) {
  if (state_given && run_given) return {};
  SPACE_TRY(const ConfigFile config, read_config_file(path));
  if (!state_given && !config.state.empty()) directories.state = config.state;
  if (!run_given && !config.run.empty()) directories.run = config.run;
  return {};
}

}  // namespace space::cli
