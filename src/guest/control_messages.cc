#include "guest/control_messages.h"

#include "base/ids.h"
#include "guest/identity.h"

namespace space::guest {

namespace {

constexpr std::size_t sandbox_id_bytes_max = 64;

Result<Environment> text_map(const JsonObject& object) {
  Environment result;
  for (const auto& [name, value] : object) {
    if (!value.is_string()) return fail(Code::invalid_argument, "'env' must hold strings");
    result.insert_or_assign(std::string(name), std::string(value.get_string()));
  }
  return result;
}

}  // namespace

Result<IdentityMessage> parse_identity(const JsonObject& message) {
  IdentityMessage result;
  SPACE_TRY(result.sandbox_id, require_text(message, "sandbox_id"));
  SPACE_TRY(result.host_name, require_text(message, "hostname"));
  if (result.sandbox_id.empty() || result.sandbox_id.size() > sandbox_id_bytes_max)
    return fail(Code::invalid_argument, "'sandbox_id' is 1 to {} bytes", sandbox_id_bytes_max);
  if (!is_host_name(result.host_name))
    return fail(Code::invalid_argument, "'{}' is not a host name", result.host_name);
  return result;
}

Result<InitMessage> parse_init(const JsonObject& message) {
  InitMessage result;
  SPACE_TRY(auto token, text_member(message, "access_token"));
  if (token) result.access_token.emplace(*std::move(token));
  SPACE_TRY(result.default_user, text_member(message, "default_user"));
  SPACE_TRY(result.default_workdir, text_member(message, "default_workdir"));
  SPACE_TRY(const JsonObject* variables, object_member(message, "env"));
  if (variables != nullptr) {
    SPACE_TRY(result.environment, text_map(*variables));
  }
  SPACE_TRY(const JsonObject* more, object_member(message, "env_added"));
  if (more != nullptr) {
    SPACE_TRY(result.more_environment, text_map(*more));
  }
  return result;
}

Result<Bytes> parse_entropy(const JsonObject& message) {
  SPACE_TRY(const std::string text, require_text(message, "entropy"));
  auto bytes = from_base64(text);
  if (!bytes) return fail(Code::invalid_argument, "'entropy' is not base64");
  if (bytes->empty() || bytes->size() > entropy_bytes_max)
    return fail(Code::invalid_argument, "'entropy' is 1 to {} bytes", entropy_bytes_max);
  return *std::move(bytes);
}

Result<WakeMessage> parse_wake(const JsonObject& message) {
  WakeMessage result;
  SPACE_TRY(const auto entropy, text_member(message, "entropy"));
  if (entropy) {
    SPACE_TRY(result.entropy, parse_entropy(message));
  }
  SPACE_TRY(result.wall_clock_us, int_member(message, "wall_clock_us", 0, INT64_MAX));
  SPACE_TRY(const auto sandbox_id, text_member(message, "sandbox_id"));
  if (sandbox_id) {
    SPACE_TRY(result.identity, parse_identity(message));
  }
  SPACE_TRY(const JsonObject* init, object_member(message, "init"));
  if (init != nullptr) {
    SPACE_TRY(result.init, parse_init(*init));
  }
  SPACE_TRY(const auto generation, int_member(message, "generation", 0, INT64_MAX));
  if (generation) result.generation = static_cast<std::uint64_t>(*generation);
  SPACE_TRY(const auto hooks, bool_member(message, "hooks"));
  SPACE_TRY(const auto thaw, bool_member(message, "thaw"));
  result.hooks = hooks.value_or(false);
  result.thaw = thaw.value_or(false);
  return result;
}

Result<UpgradePiece> parse_upgrade(const JsonObject& message) {
  constexpr auto bytes_max = static_cast<std::int64_t>(program_bytes_max);
  UpgradePiece piece;
  SPACE_TRY(piece.sha256, require_text(message, "sha256"));
  if (!is_digest(piece.sha256)) return fail(Code::invalid_argument, "'sha256' is 64 lower-case hex digits");
  SPACE_TRY(const std::int64_t size, require_int(message, "size", 1, bytes_max));
  SPACE_TRY(const std::int64_t offset, require_int(message, "offset", 0, size));
  piece.size = static_cast<std::size_t>(size);
  piece.offset = static_cast<std::size_t>(offset);
  SPACE_TRY(const std::string data, require_text(message, "data"));
  auto bytes = from_base64(data);
  if (!bytes) return fail(Code::invalid_argument, "'data' is not base64");
  piece.data = *std::move(bytes);
  if (piece.data.size() > piece_bytes_max || piece.data.size() > piece.size - piece.offset)
    return fail(Code::invalid_argument, "'data' is too long");
  return piece;
}

}  // namespace space::guest
