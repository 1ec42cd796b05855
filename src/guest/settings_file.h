// SettingsFile: what `init` set and a stopped sandbox starts with again: variables, default user and folder,
// on the guest's own disk and readable to root alone. The access token is never in it.
#pragma once

#include <functional>
#include <string>

#include "guest/control_messages.h"
#include "guest/guest_state.h"

namespace space::guest {

// The file's text and back. Pure; the way back is fuzzed.
std::string settings_text(const GuestState& state);
Result<InitMessage> parse_settings(std::string_view text);

class SettingsFile {
 public:
  static constexpr const char* default_path = "/var/lib/space/init.json";

  SettingsFile(const Executor& executor, GuestState& state, std::string path = default_path)
      : executor_(executor), state_(state), path_(std::move(path)) {}

  // While it says so, save_soon waits with its write: the disk is frozen.
  void hold_back(std::function<bool()> is_held) { is_held_ = std::move(is_held); }
  // At the daemon's start. Blocks. not_found: there is none.
  Result<void> load();
  // Writes what has changed a moment later: nobody waits for it.
  void save_soon();
  // Writes at once what save_soon has not written yet. deadline: the disk does not answer.
  Task<Result<void>> flush(Deadline deadline);

 private:
  Task<void> save_later();

  Executor executor_;
  GuestState& state_;
  std::string path_;
  std::function<bool()> is_held_ = [] { return false; };
  std::string written_;
  bool pending_ = false;
};

}  // namespace space::guest
