#include "control/bootstrap.h"

#include "base/fd.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/secret.h"
#include "base/sha256.h"

namespace space::control {
namespace {

constexpr const char* team_id = "default";
constexpr std::size_t file_limit_bytes = 4096;

// not_found when there is no file yet.
Result<SecretText> read_key(const std::string& path) {
  SPACE_TRY(const std::string text, read_file(path, file_limit_bytes));
  SPACE_TRY(const JsonObject object, parse_json_object(text, "bootstrap.json"));
  SPACE_TRY(std::string key, require_text(object, "api_key"));
  return SecretText(std::move(key));
}

Result<void> write_key(const std::string& path, const std::string& api_url, const SecretText& key) {
  const JsonObject object{{"api_url", api_url}, {"api_key", key.reveal()}};
  return write_file_durably(path, to_text(object) + "\n", 0600);
}

}  // namespace

Task<Result<void>> bootstrap(store::Repository& repository, std::string folder, std::string api_url,
                             Wall now) {
  const std::string path = folder + "/bootstrap.json";
  auto key = read_key(path);
  if (!key && key.error().code != Code::not_found) co_return std::unexpected(std::move(key).error());
  SPACE_CO_TRY(const bool has_keys, co_await repository.has_api_keys());
  if (has_keys) co_return key ? write_key(path, api_url, *key) : Result<void>();

  if (!key) key = SecretText(new_api_key());
  SPACE_CO_CHECK(write_key(path, api_url, *key));
  const auto added = co_await repository.add_team({team_id, "default"});
  if (!added && added.error().code != Code::conflict) co_return std::unexpected(added.error());
  co_return co_await repository.add_api_key({sha256_hex(key->reveal()), team_id, "first", now});
}

}  // namespace space::control
