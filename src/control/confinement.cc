#include "control/confinement.h"

#include <sys/syscall.h>

namespace space::control {
namespace {

// Both doors were opened before: it makes no socket any more and connects to nobody.
constexpr int calls[] = {SYS_accept, SYS_accept4};

}  // namespace

confine::DaemonProfile confinement(const std::string& state_folder) {
  return {.files = {{state_folder, confine::Reach::write}},
          .calls = {std::begin(calls), std::end(calls)},
          .calls_when = {}};
}

}  // namespace space::control
