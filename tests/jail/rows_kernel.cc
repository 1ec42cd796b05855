// Parts of the kernel that a VMM has no business with. Arguments are such that nothing happens even where the
// call is let through: what counts is whether the kernel refuses before it looks at them.
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/keyctl.h>
#include <linux/mount.h>
#include <linux/quota.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "tests/jail/probe.h"

namespace space::jail {
namespace {

constexpr long private_object = 0;  // IPC_PRIVATE

template <long number, long... arguments>
const char* plain() {
  return outcome(call(number, arguments...));
}
// Of the root folder and nothing that makes sense: capable processes get EINVAL, ENODEV or EBUSY.
const char* mount_unknown() {
  return outcome(
      call(SYS_mount, address_of("none"), address_of("/"), address_of("no-such-file-system"), 0, 0));
}
const char* mount_remount() {
  return outcome(call(SYS_mount, 0, address_of("/"), 0, MS_REMOUNT | MS_BIND, 0));
}
const char* unmount() {
  return outcome(call(SYS_umount2, address_of("/"), MNT_EXPIRE));
}
const char* change_root() {
  return outcome(call(SYS_chroot, address_of("/")));
}
const char* pivot() {
  return outcome(call(SYS_pivot_root, address_of("/"), address_of("/")));
}
const char* open_mount_tree() {
  return outcome(call(SYS_open_tree, AT_FDCWD, address_of("/"), OPEN_TREE_CLONE));
}
const char* set_mount_attributes() {
  mount_attr attributes{};
  attributes.attr_clr = MOUNT_ATTR_RDONLY;
  return outcome(
      call(SYS_mount_setattr, AT_FDCWD, address_of("/"), 0, address_of(&attributes), sizeof attributes));
}
const char* new_file_system() {
  return outcome(call(SYS_fsopen, address_of("tmpfs"), 0));
}

struct Handle {
  unsigned size = 64;
  int type = 0;
  unsigned char bytes[64] = {};
};
const char* name_handle() {
  Handle handle;
  int mount = 0;
  return outcome(
      call(SYS_name_to_handle_at, AT_FDCWD, address_of("/"), address_of(&handle), address_of(&mount), 0));
}
const char* open_handle() {
  Handle handle{.size = 8, .type = 1};
  return outcome(call(SYS_open_by_handle_at, given.disk, address_of(&handle), O_RDONLY));
}

const char* bpf_map() {
  struct {
    unsigned type, key, value, entries, more[28];
  } map{.type = 2, .key = 4, .value = 4, .entries = 1, .more = {}};
  return outcome(call(SYS_bpf, 0, address_of(&map), sizeof map));
}
const char* perf_event() {
  unsigned attributes[32] = {1, sizeof attributes};
  attributes[2] = 1;
  return outcome(call(SYS_perf_event_open, address_of(attributes), 0, -1, -1, 0));
}
const char* io_uring() {
  unsigned parameters[30] = {};
  return outcome(call(SYS_io_uring_setup, 4, address_of(parameters)));
}
const char* add_key() {
  return outcome(call(SYS_add_key, address_of("user"), address_of("probe"), address_of("x"), 1,
                      KEY_SPEC_PROCESS_KEYRING));
}
const char* request_key() {
  return outcome(call(SYS_request_key, address_of("user"), address_of("probe"), 0, 0));
}
const char* message_queue() {
  return outcome(call(SYS_mq_open, address_of("probe"), O_RDWR | O_CREAT | O_EXCL, 0600, 0));
}
const char* host_name_change() {
  return outcome(call(SYS_sethostname, 0, -1));
}
const char* load_module() {
  return outcome(call(SYS_init_module, 0, 0, 0));
}
const char* load_module_file() {
  return outcome(call(SYS_finit_module, given.disk, address_of(""), 0));
}
const char* unload_module() {
  return outcome(call(SYS_delete_module, address_of("no-such-module"), O_NONBLOCK));
}
const char* set_clock() {
  const timespec never{.tv_sec = -1, .tv_nsec = -1};
  return outcome(call(SYS_clock_settime, CLOCK_REALTIME, address_of(&never)));
}
const char* accounting() {
  return outcome(call(SYS_acct, address_of("/no-such-file")));
}
const char* swap_on() {
  return outcome(call(SYS_swapon, address_of("/no-such-file"), 0));
}
const char* swap_off() {
  return outcome(call(SYS_swapoff, address_of("/no-such-file")));
}
const char* quota() {
  return outcome(call(SYS_quotactl, QCMD(Q_QUOTAON, 0), address_of("/no-such-device"), 0, 0));
}
const char* local_descriptor_table() {
  long entry[2] = {};
  return outcome(call(SYS_modify_ldt, 0, address_of(entry), sizeof entry));
}
const char* new_landlock() {
  unsigned long handled[3] = {1, 0, 0};
  return outcome(call(SYS_landlock_create_ruleset, address_of(handled), 8, 0));
}
const char* timer() {
  int id = 0;
  return outcome(call(SYS_timer_create, CLOCK_MONOTONIC, 0, address_of(&id)));
}

constexpr Row rows[] = {
    {"mount", mount_unknown},
    {"remount_root", mount_remount},
    {"umount", unmount},
    {"chroot", change_root},
    {"pivot_root", pivot},
    {"open_tree", open_mount_tree},
    {"move_mount", plain<SYS_move_mount, -1, 0, -1, 0, 0>},
    {"mount_setattr", set_mount_attributes},
    {"fsopen", new_file_system},
    {"name_to_handle_at", name_handle},
    {"open_by_handle_at", open_handle},
    {"fanotify_init", plain<SYS_fanotify_init, 0, 0>},
    {"inotify_init", plain<SYS_inotify_init1, 0>},
    {"bpf", bpf_map},
    {"perf_event_open", perf_event},
    {"userfaultfd", plain<SYS_userfaultfd, 0>},
    {"io_uring_setup", io_uring},
    {"io_uring_enter", plain<SYS_io_uring_enter, 0, 0, 0, 0, 0, 0>},
    {"io_uring_register", plain<SYS_io_uring_register, 0, 0, 0, 0>},
    {"io_setup", plain<SYS_io_setup, 0, 0>},
    {"keyctl", plain<SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1>},
    {"add_key", add_key},
    {"request_key", request_key},
    {"shmget", plain<SYS_shmget, private_object, 4096, 0600>},
    {"semget", plain<SYS_semget, private_object, 1, 0600>},
    {"msgget", plain<SYS_msgget, private_object, 0600>},
    {"mq_open", message_queue},
    {"memfd_create", [] { return outcome(call(SYS_memfd_create, address_of("probe"), 0)); }},
    {"memfd_secret", plain<SYS_memfd_secret, 0>},
    {"reboot", plain<SYS_reboot, 0, 0, 0, 0>},
    {"kexec_load", plain<SYS_kexec_load, 0, 0, 0, -1>},
    {"kexec_file_load", plain<SYS_kexec_file_load, -1, -1, 0, 0, -1>},
    {"init_module", load_module},
    {"finit_module", load_module_file},
    {"delete_module", unload_module},
    {"syslog", plain<SYS_syslog, 3, 0, 0>},
    {"swapon", swap_on},
    {"swapoff", swap_off},
    {"acct", accounting},
    {"quotactl", quota},
    {"clock_settime", set_clock},
    {"settimeofday", plain<SYS_settimeofday, 1, 1>},
    {"sethostname", host_name_change},
    {"setdomainname", plain<SYS_setdomainname, 0, -1>},
    {"iopl", plain<SYS_iopl, 3>},
    {"ioperm", plain<SYS_ioperm, 0x80, 1, 1>},
    {"modify_ldt", local_descriptor_table},
    {"vhangup", [] { return call(SYS_getuid) == 0 ? "not tried as root" : outcome(call(SYS_vhangup)); }},
    {"move_pages", plain<SYS_move_pages, 1, 0, 0, 0, 0, 0>},
    {"migrate_pages", plain<SYS_migrate_pages, 1, 0, 0, 0>},
    {"mbind", plain<SYS_mbind, 0, 0, 0, 0, 0, 0>},
    {"set_mempolicy", plain<SYS_set_mempolicy, 0, 0, 0>},
    {"splice", plain<SYS_splice, -1, 0, -1, 0, 0, 0>},
    {"sendfile", plain<SYS_sendfile, -1, -1, 0, 0>},
    {"copy_file_range", plain<SYS_copy_file_range, -1, 0, -1, 0, 0, 0>},
    {"pkey_alloc", plain<SYS_pkey_alloc, 0, 0>},
    {"landlock_create_ruleset", new_landlock},
    {"timer_create", timer},
    {"unknown_call", plain<999>},
};

}  // namespace

std::span<const Row> kernel_rows() {
  return rows;
}

}  // namespace space::jail
