#include "sandboxd/confinement.h"

#include <sys/socket.h>
#include <sys/syscall.h>

namespace space {
namespace {

// A folder with two listening sockets for every VM; connections to them, to space-noded and to space-control.
constexpr int calls[] = {SYS_bind, SYS_listen, SYS_connect, SYS_mkdir, SYS_mkdirat, SYS_rmdir};
constexpr confine::CallWhen calls_when[] = {{SYS_socket, {0, 0xffffffff, AF_UNIX}}};

}  // namespace

confine::DaemonProfile sandboxd_confinement(const std::string& state_folder, const std::string& run_folder) {
  using confine::Reach;
  return {.files = {{state_folder, Reach::write},
                    {run_folder, Reach::write},
                    {"/proc", Reach::read}},  // time and memory of VMs, the boot's id
          .calls = {std::begin(calls), std::end(calls)},
          .calls_when = {std::begin(calls_when), std::end(calls_when)}};
}

}  // namespace space
