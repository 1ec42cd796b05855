// The host's control calls (api/channel.md) from their JSON form to plain structs. A message that is wrong
// anywhere is refused as a whole, so that nothing of it takes effect. Pure; fuzzed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/json.h"
#include "base/secret.h"
#include "guest/environment.h"

namespace space::guest {

inline constexpr std::size_t entropy_bytes_max = 512;
inline constexpr std::size_t program_bytes_max = 16 * 1024 * 1024;
inline constexpr std::size_t piece_bytes_max = 512 * 1024;

struct IdentityMessage {
  std::string sandbox_id;
  std::string host_name;
};
struct InitMessage {  // what is absent stays as it is
  std::optional<SecretText> access_token;
  std::optional<Environment> environment;
  std::optional<Environment> more_environment;  // added to what is there
  std::optional<std::string> default_user;
  std::optional<std::string> default_workdir;
};
struct WakeMessage {  // what is absent is left out
  std::optional<Bytes> entropy;
  std::optional<std::int64_t> wall_clock_us;
  std::optional<IdentityMessage> identity;
  std::optional<InitMessage> init;
  std::optional<std::uint64_t> generation;
  bool hooks = false;
  bool thaw = false;
};

struct UpgradePiece {
  std::string sha256;  // of the whole program, lower-case hex
  std::size_t size = 0;
  std::size_t offset = 0;
  Bytes data;
};

Result<IdentityMessage> parse_identity(const JsonObject& message);
Result<InitMessage> parse_init(const JsonObject& message);
Result<Bytes> parse_entropy(
    const JsonObject& message);  // member "entropy": 1 to entropy_bytes_max bytes in base64
Result<WakeMessage> parse_wake(const JsonObject& message);

// At most program_bytes_max in all and piece_bytes_max in `data`, which ends within the program.
Result<UpgradePiece> parse_upgrade(const JsonObject& message);

}  // namespace space::guest
