// Devices: the tap, the accelerator, terminals, and those that it must not find.
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/if_tun.h>
#include <linux/kvm.h>
#include <linux/loop.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "tests/jail/probe.h"

namespace space::jail {
namespace {

template <long request>
const char* on_tap() {
  int number = 0;
  return outcome(call(SYS_ioctl, given.tap, static_cast<unsigned>(request), address_of(&number)));
}
template <long request>
const char* on_disk() {
  char space[8192] = {};
  return outcome(call(SYS_ioctl, given.disk, static_cast<unsigned>(request), address_of(space)));
}
const char* another_interface() {
  ifreq request{};
  std::memcpy(request.ifr_name, "probe0", 7);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  return outcome(call(SYS_ioctl, given.tap, TUNSETIFF, address_of(&request)));
}
const char* name_of_tap() {
  ifreq request{};
  return outcome(call(SYS_ioctl, given.tap, TUNGETIFF, address_of(&request)));
}
const char* send_frame() {
  unsigned char frame[10 + 60] = {};
  std::memset(frame + 10, 0xff, 6);
  return outcome(call(SYS_write, given.tap, address_of(frame), sizeof frame));
}
const char* type_into_terminal() {
  const char letter = 'x';
  return outcome(call(SYS_ioctl, 0, TIOCSTI, address_of(&letter)));
}
const char* control_terminal() {
  return outcome(call(SYS_ioctl, 0, TIOCSCTTY, 1));
}
const char* linux_console() {
  char code = 2;
  return outcome(call(SYS_ioctl, 0, 0x541c /* TIOCLINUX */, address_of(&code)));
}
const char* terminal_asked() {
  char space[256];
  return outcome(call(SYS_ioctl, 0, TCGETS, address_of(space)));
}
const char* kvm_version() {
  if (given.kvm < 0) return "no device";
  return outcome(call(SYS_ioctl, given.kvm, KVM_GET_API_VERSION, 0));
}
const char* kvm_machine() {
  if (given.kvm < 0) return "no device";
  return outcome(call(SYS_ioctl, given.kvm, KVM_CREATE_VM, 0));
}

constexpr Row rows[] = {
    {"tap_other_interface", another_interface},
    {"tap_persist", on_tap<TUNSETPERSIST>},
    {"tap_owner", on_tap<TUNSETOWNER>},
    {"tap_link_type", on_tap<TUNSETLINK>},
    {"tap_debug", on_tap<TUNSETDEBUG>},
    {"tap_queue", on_tap<TUNSETQUEUE>},
    {"tap_filter", on_tap<TUNATTACHFILTER>},
    {"tap_program", on_tap<TUNSETSTEERINGEBPF>},
    {"tap_namespace", on_tap<_IO('T', 227)>},  // TUNGETDEVNETNS: a descriptor of the slot's namespace
    {"tap_index", on_tap<TUNSETIFINDEX>},
    {"tap_name", name_of_tap},
    {"tap_send", send_frame},
    {"terminal_input", type_into_terminal},
    {"terminal_control", control_terminal},
    {"terminal_linux", linux_console},
    {"terminal_attributes", terminal_asked},
    {"kvm_version", kvm_version},
    {"kvm_machine", kvm_machine},
    {"disk_clone_range", on_disk<FICLONERANGE>},
    {"disk_set_flags", on_disk<FS_IOC_SETFLAGS>},
    {"disk_freeze_pool", [] { return call(SYS_getuid) == 0 ? "not tried as root" : on_disk<FIFREEZE>(); }},
    {"disk_as_loop", on_disk<LOOP_GET_STATUS64>},
    {"disk_subvolume_info", on_disk<_IOR(0x94, 60, char[504])>},   // BTRFS_IOC_GET_SUBVOL_INFO
    {"disk_tree_search", on_disk<_IOWR(0x94, 17, char[4096])>},    // BTRFS_IOC_TREE_SEARCH
    {"disk_path_of_inode", on_disk<_IOWR(0x94, 18, char[4096])>},  // BTRFS_IOC_INO_LOOKUP
};

}  // namespace

std::span<const Row> device_rows() {
  return rows;
}

}  // namespace space::jail
