#include "cli/settings.h"

#include <pwd.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include "base/fd.h"
#include "base/json.h"

namespace space::cli {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string first_of(std::initializer_list<std::string> candidates) {
  for (const std::string& candidate : candidates)
    if (!candidate.empty()) return candidate;
  return "";
}

}  // namespace

std::string config_path() {
  std::string home = environment("HOME");
  if (home.empty()) {
    const passwd* entry = ::getpwuid(::geteuid());
    home = entry == nullptr ? "/root" : entry->pw_dir;
  }
  return home + "/.config/space/config.json";
}

Result<Settings> parse_api_url(const std::string& url) {
  constexpr std::string_view scheme = "http://";
  if (!url.starts_with(scheme))
    return fail(Code::invalid_argument, "API URL '{}' must look like http://127.0.0.1:3000", url);
  std::string rest = url.substr(scheme.size());
  if (rest.ends_with('/')) rest.pop_back();
  Settings settings;
  const auto colon = rest.rfind(':');
  settings.host = rest.substr(0, colon);
  if (settings.host == "localhost") settings.host = "127.0.0.1";
  if (colon == std::string::npos) return fail(Code::invalid_argument, "API URL '{}' has no port", url);
  const std::string digits = rest.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), settings.port);
  if (error != std::errc() || end != digits.data() + digits.size() || settings.host.empty())
    return fail(Code::invalid_argument, "API URL '{}' must look like http://127.0.0.1:3000", url);
  return settings;
}

Result<Settings> load_settings(const std::string& url_flag, const std::string& key_flag) {
  std::string url = first_of({url_flag, environment("SPACE_API_URL"), environment("E2B_API_URL")});
  std::string key = first_of({key_flag, environment("SPACE_API_KEY"), environment("E2B_API_KEY")});
  if (url.empty() || key.empty()) {
    if (auto text = read_file(config_path(), 64 * 1024)) {
      SPACE_TRY(const JsonObject file, parse_json_object(*text, config_path()));
      if (url.empty()) {
        SPACE_TRY(auto value, text_member(file, "api_url"));
        url = value.value_or("");
      }
      if (key.empty()) {
        SPACE_TRY(auto value, text_member(file, "api_key"));
        key = value.value_or("");
      }
    }
  }
  if (url.empty()) url = "http://127.0.0.1:3000";
  if (key.empty())
    return fail(Code::unauthenticated,
                "no API key: run 'sudo space up -d' once (it writes {}), or set SPACE_API_KEY",
                config_path());
  SPACE_TRY(Settings settings, parse_api_url(url));
  settings.api_key = SecretText(std::move(key));
  return settings;
}

}  // namespace space::cli
