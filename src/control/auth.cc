#include "control/auth.h"

#include "base/sha256.h"

namespace space::control {
namespace {

constexpr Millis remembered_for{30'000};
constexpr std::size_t remembered_max = 1024;
constexpr std::size_t key_length_max = 256;

std::unexpected<Error> refuse() {
  return fail(
      Code::unauthenticated,
      "Invalid API key, please send a valid one in the X-API-Key header. `space up` writes the first key "
      "to ~/.config/space/config.json");
}

}  // namespace

Task<Result<store::Team>> Auth::team_of(std::optional<std::string> api_key) {
  if (!api_key || api_key->empty() || api_key->size() > key_length_max) co_return refuse();
  const std::string hash = sha256_hex(*api_key);
  const Monotonic now = clock_.monotonic();
  if (const auto found = known_.find(hash); found != known_.end() && now < found->second.until)
    co_return found->second.team;
  SPACE_CO_TRY(auto team, co_await repository_.team_of_key(hash));
  known_.erase(hash);
  if (!team) co_return refuse();
  if (known_.size() >= remembered_max) known_.clear();
  known_.emplace(hash, Known{*team, now + remembered_for});
  co_return *std::move(team);
}

}  // namespace space::control
