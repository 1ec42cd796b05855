#include "sandboxd/guest_wake.h"

#include <array>
#include <chrono>

#include "base/bytes.h"
#include "base/ids.h"
#include "sandboxd/faults.h"

namespace space {

JsonObject to_json(GuestInit init) {
  JsonObject body{{"access_token", init.access_token.reveal()}};
  // None said: those that the disk has kept, if it has booted before.
  if (!init.env.reveal().empty()) body[init.adds_env ? "env_added" : "env"] = init.env.reveal();
  if (init.default_user) body["default_user"] = *init.default_user;
  if (init.default_workdir) body["default_workdir"] = *init.default_workdir;
  return body;
}

JsonObject to_json(GuestWake wake) {
  using namespace std::chrono;
  JsonObject body{
      {"wall_clock_us", duration_cast<microseconds>(system_clock::now().time_since_epoch()).count()},
      {"thaw", wake.thaw}};
  if (wake.reseed) {
    std::array<std::byte, 64> entropy{};  // all zero means none
    if (!is_on(Fault::no_reseed)) fill_random(entropy);
    body["entropy"] = to_base64(entropy);
  }
  if (wake.identity) {
    body["sandbox_id"] = *wake.identity;
    body["hostname"] = *wake.identity;
  }
  if (wake.init) body["init"] = to_json(*std::move(wake.init));
  if (wake.generation) body["generation"] = *wake.generation;
  if (wake.hooks) body["hooks"] = true;
  return body;
}

}  // namespace space
