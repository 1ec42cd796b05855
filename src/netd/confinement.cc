#include "netd/confinement.h"

#include <sys/socket.h>
#include <sys/syscall.h>

namespace space::netd {
namespace {

constexpr std::uint64_t whole_int = 0xffffffff;

// It connects to the world, to resolvers and to space-noded; it listens on nothing that was not open before.
constexpr int calls[] = {SYS_connect, SYS_accept, SYS_accept4, SYS_sendmmsg, SYS_recvmmsg};
constexpr confine::CallWhen calls_when[] = {{SYS_socket, {0, whole_int, AF_UNIX}},
                                            {SYS_socket, {0, whole_int, AF_INET}},
                                            {SYS_socket, {0, whole_int, AF_INET6}}};

}  // namespace

confine::DaemonProfile confinement(const std::string& state_folder, const std::string& run_folder) {
  using confine::Reach;
  // The look-up library takes from /dev/urandom what makes its questions hard to guess.
  return {.files = {{state_folder, Reach::write}, {run_folder, Reach::write}, {"/dev/urandom", Reach::read}},
          .calls = {std::begin(calls), std::end(calls)},
          .calls_when = {std::begin(calls_when), std::end(calls_when)},
          .tcp = true};
}

}  // namespace space::netd
