// What a hostile daemon may do on the private channel: each attack is bytes, said once and then over and
// over.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace space::hostile {

// When an attack begins.
enum class Stage {
  boot,    // at the first SYNC of a machine that never answered one
  sync,    // at every SYNC once the sandbox ran
  call,    // at every control call once the sandbox ran
  tunnel,  // when the host opens a tunnel
};

struct Script {
  std::string once;
  std::string again;  // repeated until time or the host ends it
  int pause_ms = 0;   // before each repetition; and a byte at a time where it is set
  bool reads = true;  // takes what the host says meanwhile
};

// What an attack may build on.
struct Scene {
  std::uint32_t stream = 0;  // the tunnel or the call
  std::string sync;          // the host's message, as it came
  std::string answer;        // the right answer to it
  std::string old_answer;    // the right answer to an earlier one
  std::string no_version;    // an answer with a version nobody speaks
};

struct Attack {
  std::string_view name;
  Stage stage;
  Script (*script)(const Scene&);
};

// nullptr: there is no such attack.
const Attack* find_attack(std::string_view name);

}  // namespace space::hostile
