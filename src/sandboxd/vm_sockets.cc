#include "sandboxd/vm_sockets.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/unix_address.h"

namespace space {
namespace {

Result<Fd> listen_on(const std::string& path) {
  SPACE_TRY(const UnixAddress address, UnixAddress::of(path));
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno(errno, "remove an old socket");
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno(errno, "make a socket");
  if (::bind(fd.get(), address.get(), address.size()) != 0) return fail_errno(errno, "bind a socket");
  if (::listen(fd.get(), 4) != 0) return fail_errno(errno, "listen on a socket");
  return fd;
}

}  // namespace

Result<VmSockets> open_vm_sockets(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(errno, "make the VM's socket folder");
  SPACE_TRY(Fd qmp, listen_on(qmp_path(folder)));
  SPACE_TRY(Fd channel, listen_on(channel_path(folder)));
  return VmSockets{std::move(qmp), std::move(channel)};
}

Result<void> remove_vm_sockets(const std::string& folder) {
  for (const std::string& path : {qmp_path(folder), channel_path(folder)})
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno(errno, "remove a VM's socket");
  if (::rmdir(folder.c_str()) != 0 && errno != ENOENT)
    return fail_errno(errno, "remove a VM's socket folder");
  return {};
}

}  // namespace space
