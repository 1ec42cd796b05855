#include "guest/guest_state.h"

namespace space::guest {

void take_init(GuestState& state, InitMessage message) {
  if (message.access_token) state.access_token = *std::move(message.access_token);
  if (message.environment) state.environment = *std::move(message.environment);
  if (message.more_environment)
    for (auto& [name, value] : *message.more_environment)
      state.environment.insert_or_assign(name, std::move(value));
  if (message.default_user) state.default_user = *std::move(message.default_user);
  if (message.default_workdir) state.default_workdir = *std::move(message.default_workdir);
}

}  // namespace space::guest
