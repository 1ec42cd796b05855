#include "priv/slot.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/magic.h>
#include <nftables/libnftables.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "priv/folder.h"

namespace space::priv {
namespace {

constexpr const char* own_namespace = "/proc/self/ns/net";

ifreq request_for(const char* device) {
  ifreq request{};
  std::strncpy(request.ifr_name, device, IFNAMSIZ - 1);
  return request;
}

// In the other namespace from construction to destruction.
class ScopedNamespace {
 public:
  static Result<ScopedNamespace> enter(const std::string& path) {
    ScopedNamespace scope;
    SPACE_TRY(scope.home_, open_fd(own_namespace, O_RDONLY));
    SPACE_TRY(const Fd other, open_fd(path, O_RDONLY));
    if (::setns(other.get(), CLONE_NEWNET) != 0) return fail_errno(errno, "enter the network namespace");
    return scope;
  }
  ScopedNamespace(ScopedNamespace&&) = default;
  ~ScopedNamespace() {
    // A process that stayed behind would do its next work in a guest's network.
    if (home_ && ::setns(home_.get(), CLONE_NEWNET) != 0) std::abort();
  }

 private:
  ScopedNamespace() = default;
  Fd home_;
};

Result<void> bring_up(const char* device) {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno(errno, "open a socket");
  ifreq request = request_for(device);
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return fail_errno(errno, "read flags of a device");
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return fail_errno(errno, "bring a device up");
  return {};
}

Result<Fd> attach_tap() {
  SPACE_TRY(Fd tun, open_fd("/dev/net/tun", O_RDWR | O_NONBLOCK));
  ifreq request = request_for(slot_tap);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (::ioctl(tun.get(), TUNSETIFF, &request) != 0) return fail_errno(errno, "attach the tap");
  return tun;
}

// The kernel gives every device an IPv6 address by itself unless told not to.
Result<void> forbid_own_addresses() {
  const auto sysctl = open_fd("/proc/sys/net/ipv6/conf/default/addr_gen_mode", O_WRONLY);
  if (!sysctl)
    return sysctl.error().code == Code::not_found ? Result<void>{} : std::unexpected(sysctl.error());
  return write_all(sysctl->get(), as_bytes("1"));
}

// Policed, not queued: what is too much is dropped, and no packet of a guest waits in this kernel's memory.
std::string limit_rules(std::uint64_t mbit_per_s) {
  const std::uint64_t bytes_per_s = mbit_per_s * 1'000'000 / 8;
  const std::uint64_t burst_bytes = std::max<std::uint64_t>(bytes_per_s / 10, 256 << 10);
  std::string rules = "table netdev limits {\n";
  for (const char* way : {"ingress", "egress"})
    rules += fmt::format(
        "chain {0} {{\n type filter hook {0} device {1} priority -300; policy accept;\n"
        " limit rate over {2} bytes/second burst {3} bytes drop\n}}\n",
        way, slot_tap, bytes_per_s, burst_bytes);
  return rules + "}\n";
}

Result<void> limit_tap(std::uint64_t mbit_per_s) {
  if (mbit_per_s == 0) return {};
  nft_ctx* context = ::nft_ctx_new(NFT_CTX_DEFAULT);
  if (context == nullptr) return fail(Code::internal, "nftables: no memory");
  ::nft_ctx_buffer_error(context);
  const int status = ::nft_run_cmd_from_buffer(context, limit_rules(mbit_per_s).c_str());
  const std::string why = status == 0 ? "" : ::nft_ctx_get_error_buffer(context);
  ::nft_ctx_free(context);
  if (status != 0) return fail(Code::internal, "limit the tap: {}", why);
  return {};
}

Result<void> furnish(std::uint64_t mbit_per_s) {
  SPACE_CHECK(forbid_own_addresses());
  SPACE_CHECK(bring_up("lo"));
  SPACE_TRY(const Fd tap, attach_tap());
  if (::ioctl(tap.get(), TUNSETPERSIST, 1) != 0) return fail_errno(errno, "keep the tap");
  SPACE_CHECK(limit_tap(mbit_per_s));
  return bring_up(slot_tap);
}

Result<void> remove_by_name(const Layout& layout, const std::string& id) {
  const std::string path = layout.slot(id);
  if (slot_exists(layout, id) && ::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0)
    return fail_errno(errno, "unmount the network namespace");
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno(errno, "remove the slot");
  return {};
}

}  // namespace

bool slot_exists(const Layout& layout, const std::string& id) {
  struct statfs status{};
  return ::statfs(layout.slot(id).c_str(), &status) == 0 && status.f_type == NSFS_MAGIC;
}

Result<void> create_slot(const Layout& layout, const SandboxPermit& sandbox, std::uint64_t mbit_per_s) {
  const std::string& id = sandbox.id();
  if (slot_exists(layout, id)) return {};
  if (::unshare(CLONE_NEWNET) != 0) return fail_errno(errno, "make a network namespace");
  SPACE_CHECK(furnish(mbit_per_s));
  const std::string path = layout.slot(id);
  SPACE_TRY(const Fd name, open_fd(path, O_RDONLY | O_CREAT | O_NOFOLLOW, 0400));
  // Last, so that a slot that can be seen is complete.
  if (::mount(own_namespace, path.c_str(), nullptr, MS_BIND, nullptr) != 0)
    return fail_errno(errno, "name the network namespace");
  return {};
}

Result<void> remove_slot(const Layout& layout, const SandboxPermit& sandbox) {
  return remove_by_name(layout, sandbox.id());
}

Result<Fd> open_tap(const Layout& layout, const SandboxPermit& sandbox) {
  SPACE_TRY(const auto scope, ScopedNamespace::enter(layout.slot(sandbox.id())));
  return attach_tap();
}

Result<void> remove_half_made_slots(const Layout& layout) {
  SPACE_TRY(const auto names, names_in(layout.slots()));
  for (const std::string& name : names)
    if (!slot_exists(layout, name)) SPACE_CHECK(remove_by_name(layout, name));
  return {};
}

}  // namespace space::priv
