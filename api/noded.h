// The whole interface of space-noded, the one root process: a closed list of verbs.
//
// Transport: a SOCK_SEQPACKET unix socket. One request is one datagram of exactly sizeof(Request) bytes plus
// the file descriptors its verb names; one answer is one datagram of sizeof(Reply) plus descriptors. The
// connecting process's uid (SO_PEERCRED) says which daemon it is: space-sandboxd may use every verb but
// `slot_open`, space-netd that and `list`, space-volumed `pool_info`, `list` and `template_open`. Requests
// carry ids and bounded integers, never a path or a string that root would interpret; what comes back is
// descriptors, never names. Every verb is idempotent: repeated, it answers as the first time. Verbs on one id
// are carried out in their order, on different ids at the same time, so answers may overtake each other:
// match them by sequence.
#pragma once

#include <cstdint>

namespace space::noded {

inline constexpr std::uint32_t protocol = 0x53504e04;  // "SPN", version 4

enum class Verb : std::uint32_t {
  pool_info = 1,    // -> values: free bytes, total bytes
  list,             // -> fd: memfd of ListRecord[], what the kernel really holds
  template_import,  // digest -> fd: pipe, one byte 0 = done, else an errno; end without a byte: it was cut
                    // off, repeat. Copies images/<digest> into the pool
  template_open,    // digest -> fd: manifest.json, read only
  template_remove,  // digest; refused with conflict never: clones are independent
  disk_create,      // sandbox, digest, values[0] = disk MiB -> values[0] = uid; clones the template
  disk_remove,      // sandbox; conflict while its VMM runs
  slot_create,  // sandbox, values[0] = Mbit/s each way or 0 -> network namespace with lo and a tap, no way
                // out: what the guest sends ends in the sockets of slot_open, or is refused
  slot_remove,  // sandbox; conflict while its VMM runs
  vmm_launch,   // sandbox, LaunchValues, source if it has disks of snapshots; fds in: listening sockets for
                // QMP and channel -> fd: pidfd; values[0] = pid. conflict while an exit is not forgotten
  vmm_open,  // sandbox -> fd: pidfd of its VMM; values[0] = pid. unavailable in the moment it begins or ends
  vmm_kill,  // sandbox; SIGKILL to everything of its cgroup. Answers at once; the exit follows
  vmm_exit,  // sandbox -> ExitValues; not_found while it runs or when it never ran, unavailable in the moment
             // between its end and the record of it: ask again
  vmm_forget,       // sandbox; removes cgroup and exit record; conflict while it runs
  vmm_open_memory,  // sandbox -> fds: mem, maps and pagemap of its VMM, read only
  vmm_isolation,    // sandbox -> fd: memfd of IsolationRecord[], one a layer, read back from the kernel as it
                    // is now: a VMM that still loads has open what its loader opens, so ask once it answers
  // values[0] of each of the next five is a snapshot's number.
  snapshot_begin,  // sandbox, values[1] = number of the snapshot of the same sandbox whose memory the new one
                   // starts from, 0 = the memory the VMM was launched with -> fds: mem.raw (read and write),
                   // vmstate (write), manifest.json (write), the last two empty. A writable copy of the
                   // sandbox's subvolume as it is now. Replaces an unfinished one; conflict: it is finished,
                   // not_found: no VMM runs, or the memory to start from is gone. values[2] = 1: of the disk
                   // only, whether a VMM runs or not; values[1] is 0 -> fd: manifest.json (write), empty
  snapshot_finish,  // sandbox, values[1] = 1: the VM goes on, and the next one that starts from this one
                    // shall begin fast (not of a disk's). Durable, read-only, and from now on there. Its
                    // files are the caller's to sync
  snapshot_open,    // sandbox -> values[0] = 1, fds: mem.raw, vmstate, manifest.json, disk.raw; of one of the
                  // disk only values[0] = 0, fds: manifest.json, disk.raw. Read only. not_found: not finished
  snapshot_remove,  // sandbox; finished or not. Who has a file of it open goes on reading, and keeps the
                    // space of all of it
  disk_restore,     // sandbox, source -> values[0] = uid. The disk (also of a sandbox that had none) becomes
                    // that of the source's snapshot. conflict while its VMM runs
  slot_open,  // sandbox -> fds: TCP for IPv4 and IPv6 (listening on 4000), UDP for IPv4 and IPv6 (on 53), all
              // transparent and non-blocking. A connection's own address is where the guest wanted to go, and
              // a datagram says it (original destination, packet information). conflict while those of an
              // earlier call are open, not_found: no slot
  slot_check,  // sandbox, values[0] = Mbit/s as of slot_create -> values[0]: 0 = the slot is sound, 1 =
               // rules, addresses or routes were missing and were put back. not_found: there is none;
               // conflict: it is not the one its VM is connected to, or has a way out: the VM must end
};

// Indices into Request::values for vmm_launch.
enum LaunchValue {
  launch_vcpus,
  launch_memory_mib,
  launch_accelerator /* Accelerator */,
  launch_tsc_khz,
  launch_disk_mib_per_s /* 0 = no limit */,
  launch_disk_iops /* 0 = no limit */,
  launch_restore /* 1 = with the memory and the QEMU of the snapshot its disk came from, waiting for
                    migrate-incoming; not_found: the disk came from no snapshot, or that is gone */
  ,
  launch_zero_free_pages /* 1 = the guest keeps its free pages zero: its snapshot is small, its boot slow */,
  launch_second_disk /* number of a snapshot of `source` a copy of whose disk is seen too; 0 = none */,
  launch_third_disk /* the same; either both or neither, and only of a VM that boots */,
  launch_value_count
};
enum class Accelerator : std::uint32_t { tcg = 0, kvm = 1 };
// Indices into Reply::values for vmm_exit.
enum ExitValue {
  exit_signal /* 0 = exited by itself */,
  exit_status,
  exit_oom /* 1 = the cgroup ran out of memory */,
  exit_known /* 0 = nobody saw the end, the rest is 0 */,
  exit_value_count
};

inline constexpr unsigned values_count = 10;

struct Request {
  std::uint32_t protocol;
  Verb verb;
  std::uint64_t sequence;  // echoed
  char sandbox[24];        // 20 characters, zero-padded; all zero where the verb takes none
  char source[24];         // another sandbox, likewise
  char digest[72];         // 64 hex characters, zero-padded; all zero where the verb takes none
  std::uint64_t values[values_count];
};
static_assert(sizeof(Request) == 216);

struct Reply {
  std::uint32_t protocol;
  std::uint32_t status;  // 0 = done, else 1 + space::Code
  std::uint64_t sequence;
  std::uint64_t values[values_count];
  char message[160];  // UTF-8, zero-terminated; why, when status != 0
};
static_assert(sizeof(Reply) == 256);

enum class Kind : std::uint32_t {
  template_,
  disk,
  slot,
  vmm /* running */,
  vmm_exited,
  snapshot /* finished */
};
struct ListRecord {
  Kind kind;
  std::uint32_t uid;     // disk: owner
  std::uint64_t number;  // vmm: its pid, 0 while it begins or ends. snapshot: its number
  char id[72];           // sandbox id or digest, zero-padded
};
static_assert(sizeof(ListRecord) == 88);

enum class LayerState : std::uint32_t { active = 0, off, unavailable /* this kernel has none */ };
struct IsolationRecord {
  LayerState state;
  char layer[28];   // zero-padded: "seccomp"
  char detail[96];  // zero-padded: what was read, "2 filters"
};
static_assert(sizeof(IsolationRecord) == 128);

// Bounds checked at the door.
inline constexpr std::uint64_t vcpus_max = 32;
inline constexpr std::uint64_t memory_mib_min = 128, memory_mib_max = 65536;
inline constexpr std::uint64_t disk_mib_min = 512, disk_mib_max = 1024 * 1024;
inline constexpr std::uint64_t tsc_khz_max = 10'000'000;  // 0 = unknown
inline constexpr std::uint64_t disk_mib_per_s_max = 100'000, disk_iops_max = 10'000'000;
inline constexpr std::uint64_t network_mbit_max = 400'000;
inline constexpr std::uint64_t snapshot_number_max = 1'000'000'000;  // from 1
inline constexpr std::uint32_t vm_uid_first = 200000, vm_uid_last = 265535;

}  // namespace space::noded
