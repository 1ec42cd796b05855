// Settings: where the API is and with which key. Order: flags, environment (SPACE_API_URL, SPACE_API_KEY,
// then the E2B_ names), ~/.config/space/config.json written by `space up`.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/secret.h"

namespace space::cli {

struct Settings {
  std::string host = "127.0.0.1";
  std::uint16_t port = 3000;
  SecretText api_key;
};

// Empty strings mean: not given. The error says how to get a key.
Result<Settings> load_settings(const std::string& url_flag, const std::string& key_flag);
// Only http://HOST:PORT; the API is on loopback, TLS ends elsewhere.
Result<Settings> parse_api_url(const std::string& url);
std::string config_path();  // ~/.config/space/config.json of the effective user

}  // namespace space::cli
