#include "sandboxd/confinement.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "vmm/private_pages.h"

namespace space {
namespace {

// A folder with two listening sockets for every VM; connections to them, to space-noded and to space-control.
// QEMU leaves the state of its devices in a file of memory, which is no way to run code: there is neither
// exec nor memory to execute.
constexpr int calls[] = {SYS_bind,    SYS_listen, SYS_connect,     SYS_mkdir,
                         SYS_mkdirat, SYS_rmdir,  SYS_memfd_create};
constexpr confine::CallWhen calls_when[] = {
    {SYS_socket, {0, 0xffffffff, AF_UNIX}},
    {SYS_ioctl, {1, 0xffffffff, vmm::pagemap_scan_request}},  // which pages of its memory a VMM has written
    {SYS_ioctl, {1, 0xffffffff, FS_IOC_FIEMAP}}};             // what a snapshot holds of the pool by itself

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
