#include "tests/jail/expected.h"

#include <unistd.h>

#include <sstream>

namespace space::jail {
namespace {

// Lines of "OUTCOME: ROW ROW ...".
Outcomes table(const char* text) {
  Outcomes outcomes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(": ");
    std::istringstream rows(line.substr(colon + 2));
    for (std::string row; rows >> row;) outcomes[row] = line.substr(0, colon);
  }
  return outcomes;
}

Changes tables(std::initializer_list<std::pair<const char*, const char*>> texts) {
  Changes changes;
  for (const auto& [layer, text] : texts) changes[layer] = table(text);
  return changes;
}

// clang-format off
constexpr const char* full_jail =
        "0: limit_core limit_message_queues limit_realtime\n"
        "1: no_new_privs pid\n"
        "2: seccomp_mode\n"
        "512: limit_open_files\n"
        "65534: owner_of_root_folder\n"
        "65536: limit_locked_memory\n"
        "EACCES: bind connect connect_abstract connect_loopback exec_disk exec_kernel_image list_root\n"
        "EACCES: map_memory_shared protect_memory_shared read_canary read_program socket_alg socket_inet socket_inet6\n"
        "EACCES: socket_inet_udp socket_netlink socket_packet socket_raw socket_unix socket_vsock write_firmware\n"
        "EACCES: write_initramfs write_kernel write_memory write_program\n"
        "EAGAIN: accept4_none_waits disk_lease thread_bomb\n"
        "EBADF: leaked_descriptor punch_memory\n"
        "EFBIG: disk_beyond_limit disk_size_beyond_limit\n"
        "EINVAL: drop_no_new_privs readlink_disk\n"
        "EMFILE: descriptor_bomb\n"
        "ENOENT: above_root list_processes open_cgroup open_dev_kvm open_dev_mem open_dev_null open_dev_tty\n"
        "ENOENT: open_dev_tun open_passwd open_proc_first open_proc_maps open_proc_mem open_run open_shadow open_sys\n"
        "ENOENT: open_tmp reopen_by_proc stat_passwd\n"
        "ENOMEM: mlock\n"
        "ENOSYS: clone3 exec_memory_file io_uring_enter io_uring_register io_uring_setup mbind memfd_create openat2\n"
        "ENOSYS: perf_event_open sched_setaffinity_outside set_mempolicy userfaultfd\n"
        "ENOTDIR: beside_disk fchdir_disk\n"
        "ENOTTY: terminal_attributes\n"
        "EOPNOTSUPP: send_to_address\n"
        "EPERM: big_pipe execve_itself execve_shell map_memory_as_code tap_program\n"
        "EROFS: create_anywhere create_in_root temporary_in_root truncate_memory unlink\n"
        "ESRCH: limits_of_outside setown_outside tgkill_outside\n"
        "LC_ALL: environment\n"
        "OOM: memory_bomb\n"
        "SIGSYS: accept acct add_key allow_any_tracer become_dumpable become_subreaper bounding_set bpf capget capset\n"
        "SIGSYS: chdir chmod chown chroot clock_settime clone_newcgroup clone_newipc clone_newnet clone_newns\n"
        "SIGSYS: clone_newpid clone_newuser clone_newuts clone_process clone_untraced copy_file_range core_scheduling\n"
        "SIGSYS: delete_module disk_as_loop disk_chmod disk_chown disk_clone_range disk_freeze_pool\n"
        "SIGSYS: disk_path_of_inode disk_set_flags disk_setxattr disk_subvolume_info disk_tree_search dumpable\n"
        "SIGSYS: exec_disk_made_executable execveat_number_and_path execveat_other_number execveat_path\n"
        "SIGSYS: execveat_shell fanotify_init finit_module fork fsopen get_priority_outside getpgid_outside groups\n"
        "SIGSYS: i386_call init_module inotify_init io_setup ioctl_interfaces ioctl_network_namespace ioperm iopl\n"
        "SIGSYS: ioprio_set kcmp kexec_file_load kexec_load keyctl kill_all kill_first kill_outside\n"
        "SIGSYS: landlock_create_ruleset link link_disk memfd_secret migrate_pages mkdir mknod_device mknod_pipe\n"
        "SIGSYS: mlock2 mlockall modify_ldt mount mount_setattr move_mount move_pages mq_open msgget\n"
        "SIGSYS: name_to_handle_at open_by_handle_at open_tree parent_death_signal_off personality pidfd_getfd\n"
        "SIGSYS: pidfd_open pidfd_open_itself pidfd_send_signal pivot_root pkey_alloc process_madvise\n"
        "SIGSYS: process_mrelease process_vm_readv process_vm_writev ptrace_outside ptrace_traceme quotactl\n"
        "SIGSYS: raise_ambient raise_core raise_file_size raise_open_files reboot remount_root rename\n"
        "SIGSYS: replace_memory_map request_key rmdir sched_fifo sched_setattr_fifo semget sendfile set_securebits\n"
        "SIGSYS: setdomainname setfsuid_root setgid_root setgroups sethostname setns setpriority setresuid_root\n"
        "SIGSYS: setreuid_root setrlimit setsid settimeofday setuid_root setxattr shmget sigqueue_outside socketpair\n"
        "SIGSYS: splice swapoff swapon symlink sync_host syslog tap_debug tap_filter tap_index tap_link_type\n"
        "SIGSYS: tap_namespace tap_other_interface tap_owner tap_persist tap_queue terminal_control\n"
        "SIGSYS: terminal_input terminal_linux thread_in_new_mounts timer_create tkill_outside truncate umount\n"
        "SIGSYS: unknown_call unshare_newcgroup unshare_newipc unshare_newnet unshare_newns unshare_newpid\n"
        "SIGSYS: unshare_newtime unshare_newuser unshare_newuts utimes vfork vhangup wait_any x32_call\n"
        "default: ignored_signal\n"
        "missing-0: own_descriptors\n"
        "none: blocked_signal other_descriptors parent\n"
        "ok: disk_write listen map_disk_as_code map_writable_code read_kernel read_memory tap_name tap_send\n"
        "ok: thread\n"
        "own: euid gid host_name uid\n"
        "ran itself: exec_itself\n";
// clang-format on

}  // namespace

Outcomes expected_in_full_jail(noded::Accelerator accelerator) {
  Outcomes outcomes = table(full_jail);
  const bool kvm = accelerator == noded::Accelerator::kvm && ::access("/dev/kvm", F_OK) == 0;
  outcomes["kvm_version"] = outcomes["kvm_machine"] = kvm ? "ok" : "no device";
  return outcomes;
}

// clang-format off
const Changes& expected_without() {
  static const Changes changes = tables({
    {"descriptors",
        "any: other_descriptors\n"
        "ignored: ignored_signal\n"
        "ok: leaked_descriptor\n"
        "some: blocked_signal\n"},
    {"cgroups",
        "ok: memory_bomb thread_bomb\n"},
    {"rlimits",
        "any: limit_core limit_locked_memory limit_message_queues limit_open_files\n"
        "ok: descriptor_bomb disk_beyond_limit disk_size_beyond_limit mlock\n"},
    {"namespaces",
        "EPERM: tgkill_outside\n"
        "another: host_name pid\n"
        "ok: limits_of_outside setown_outside\n"
        "shown: parent\n"},
    {"root",
        "EACCES: above_root create_anywhere create_in_root list_processes open_cgroup open_dev_kvm open_dev_tun\n"
        "EACCES: open_passwd open_proc_first open_proc_maps open_proc_mem open_run open_shadow open_sys open_tmp\n"
        "EACCES: temporary_in_root\n"
        "ENOENT: exec_itself exec_kernel_image map_memory_as_code map_memory_shared protect_memory_shared\n"
        "ENOENT: punch_memory read_canary read_kernel read_memory read_program truncate_memory unlink write_initramfs\n"
        "ENOENT: write_kernel write_memory write_program\n"
        "EPERM: open_dev_null open_dev_tty reopen_by_proc\n"
        "ok: stat_passwd\n"},
    {"user namespace",
        "0: owner_of_root_folder\n"},
    {"identity",
        "65534: euid gid uid\n"
        "EACCES: disk_lease\n"},
    {"capabilities",
        ""},
    {"no_new_privs",
        "refused: every-row\n"},
    {"not dumpable",
        "ok: read_program\n"},
    {"landlock",
        "ok: list_root read_canary\n"},
    {"seccomp",
        "0: dumpable groups seccomp_mode\n"
        "EACCES: exec_disk_made_executable execveat_other_number setpriority truncate\n"
        "EAGAIN: accept\n"
        "EBADF: copy_file_range pidfd_getfd pidfd_send_signal process_madvise process_mrelease sendfile\n"
        "ECHILD: wait_any\n"
        "ECONNREFUSED: connect connect_abstract\n"
        "EEXIST: tap_other_interface\n"
        "EFAULT: io_setup settimeofday\n"
        "EINVAL: bind clock_settime setgid_root setns setresuid_root setreuid_root setuid_root tap_filter tap_owner\n"
        "EINVAL: tap_program tap_queue thread_in_new_mounts\n"
        "ENOENT: execve_shell execveat_shell link_disk\n"
        "ENOMEM: mlockall\n"
        "ENOSYS: unknown_call\n"
        "ENOTTY: terminal_control terminal_input terminal_linux\n"
        "EPERM: acct capset chroot clone_newcgroup clone_newipc clone_newnet clone_newns clone_newpid clone_newuts\n"
        "EPERM: disk_freeze_pool fsopen ioctl_network_namespace ioprio_set mount mount_setattr move_mount\n"
        "EPERM: open_by_handle_at open_tree pivot_root raise_ambient raise_core raise_file_size raise_open_files\n"
        "EPERM: reboot remount_root sched_fifo sched_setattr_fifo set_securebits setdomainname setgroups sethostname\n"
        "EPERM: setrlimit setsid socket_packet swapoff swapon syslog tap_index tap_namespace umount\n"
        "EPERM: unshare_newcgroup unshare_newipc unshare_newnet unshare_newns unshare_newpid unshare_newtime\n"
        "EPERM: unshare_newuts vhangup\n"
        "EROFS: chmod chown link mkdir mknod_device mknod_pipe rename rmdir setxattr symlink utimes\n"
        "ESRCH: getpgid_outside kcmp kill_all kill_outside pidfd_open process_vm_readv process_vm_writev\n"
        "ESRCH: ptrace_outside sched_setaffinity_outside sigqueue_outside tkill_outside\n"
        "any: allow_any_tracer bpf core_scheduling delete_module disk_as_loop disk_clone_range disk_path_of_inode\n"
        "any: disk_set_flags disk_subvolume_info disk_tree_search fanotify_init finit_module i386_call init_module\n"
        "any: io_uring_enter io_uring_register io_uring_setup ioperm iopl kexec_file_load kexec_load keyctl mbind\n"
        "any: memfd_secret migrate_pages modify_ldt move_pages mq_open msgget perf_event_open pkey_alloc quotactl\n"
        "any: replace_memory_map request_key semget set_mempolicy shmget socket_alg socket_raw socket_vsock\n"
        "any: tap_link_type userfaultfd x32_call\n"
        "none: bounding_set capget\n"
        "ok: add_key become_dumpable become_subreaper chdir clone3 clone_newuser clone_process clone_untraced\n"
        "ok: disk_chmod disk_chown disk_setxattr fork get_priority_outside inotify_init ioctl_interfaces\n"
        "ok: kill_first landlock_create_ruleset memfd_create mlock2 name_to_handle_at openat2\n"
        "ok: parent_death_signal_off personality pidfd_open_itself ptrace_traceme setfsuid_root socket_inet\n"
        "ok: socket_inet6 socket_inet_udp socket_netlink socket_unix socketpair splice sync_host tap_debug\n"
        "ok: tap_persist timer_create unshare_newuser vfork\n"
        "ran: exec_memory_file\n"
        "ran itself: execve_itself execveat_number_and_path execveat_path\n"},
  });
  return changes;
}

const Changes& expected_without_seccomp_and() {
  static const Changes changes = tables({
    {"descriptors",
        "any: other_descriptors\n"
        "ignored: ignored_signal\n"
        "ok: leaked_descriptor setsid\n"
        "some: blocked_signal\n"},
    {"cgroups",
        "ok: memory_bomb thread_bomb\n"},
    {"rlimits",
        "any: limit_core limit_locked_memory limit_message_queues limit_open_files mq_open\n"
        "ok: descriptor_bomb disk_beyond_limit disk_size_beyond_limit mlock mlockall raise_core raise_file_size\n"
        "ok: setrlimit\n"},
    {"namespaces",
        "EINVAL: sched_setaffinity_outside\n"
        "EPERM: kcmp kill_first kill_outside process_vm_readv process_vm_writev ptrace_outside sigqueue_outside\n"
        "EPERM: tgkill_outside tkill_outside\n"
        "another: host_name pid\n"
        "any: migrate_pages move_pages mq_open\n"
        "ok: getpgid_outside kill_all limits_of_outside pidfd_open setown_outside\n"
        "shown: parent\n"},
    {"root",
        "EACCES: above_root create_anywhere create_in_root execve_shell execveat_shell list_processes mkdir\n"
        "EACCES: mknod_device mknod_pipe open_cgroup open_dev_kvm open_dev_tun open_passwd open_proc_first\n"
        "EACCES: open_proc_maps open_proc_mem open_run open_shadow open_sys open_tmp rmdir symlink temporary_in_root\n"
        "ENOENT: chmod chown exec_itself exec_kernel_image execve_itself execveat_number_and_path execveat_path link\n"
        "ENOENT: map_memory_as_code map_memory_shared openat2 protect_memory_shared punch_memory read_canary\n"
        "ENOENT: read_kernel read_memory read_program rename setxattr truncate truncate_memory unlink utimes\n"
        "ENOENT: write_initramfs write_kernel write_memory write_program\n"
        "EPERM: open_dev_null open_dev_tty reopen_by_proc\n"
        "ok: stat_passwd\n"},
    {"user namespace",
        "0: owner_of_root_folder\n"
        "EPERM: setgid_root setresuid_root setreuid_root setuid_root\n"
        "ok: tap_owner\n"},
    {"identity",
        "65534: euid gid uid\n"
        "EACCES: disk_lease disk_setxattr\n"
        "EPERM: clone_newuser disk_chmod exec_disk_made_executable unshare_newuser\n"
        "any: disk_set_flags\n"},
    {"capabilities",
        "some: bounding_set\n"},
    {"no_new_privs",
        "refused: every-row\n"},
    {"not dumpable",
        "1: dumpable\n"
        "ok: read_program\n"},
    {"landlock",
        "ENETUNREACH: connect_loopback\n"
        "ETXTBSY: exec_disk_made_executable\n"
        "ok: list_root read_canary\n"},
  });
  return changes;
}
// clang-format on

const std::set<std::string>& same_everywhere() {
  static const std::set<std::string> rows = {"accept4_none_waits",
                                             "beside_disk",
                                             "big_pipe",
                                             "disk_write",
                                             "drop_no_new_privs",
                                             "exec_disk",
                                             "fchdir_disk",
                                             "limit_realtime",
                                             "listen",
                                             "map_disk_as_code",
                                             "map_writable_code",
                                             "open_dev_mem",
                                             "own_descriptors",
                                             "readlink_disk",
                                             "send_to_address",
                                             "tap_name",
                                             "tap_send",
                                             "terminal_attributes",
                                             "thread",
                                             "kvm_version",
                                             "kvm_machine"};
  return rows;
}

}  // namespace space::jail
