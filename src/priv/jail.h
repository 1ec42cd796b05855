// The jail of a VMM process: layers, put on in one order by the process itself between fork and exec. A
// hostile guest is assumed to own that process: each layer is one more thing it must break to reach anything
// else.
//
// Two processes take part. The child (fork_into_jail) calls enter_jail and execs; its parent calls
// oversee_jail, which gives it leave to begin, maps its uid, and hears how far it came.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "priv/cgroup.h"

namespace space::priv {

// The file system of the jail, as detached mounts made before it is entered (mount_tree.h). Each is
// read-only.
struct JailRoot {
  Fd bundle;                     // becomes /
  Fd memory, kernel, initramfs;  // mounted over its empty files
};
// Of `bundle` (a folder, bundle.h) and the three files. Needs CAP_SYS_ADMIN.
Result<JailRoot> make_jail_root(const Fd& bundle, const Fd& memory, const Fd& kernel, const Fd& initramfs);

struct JailSpec {
  const Cgroups* cgroups;
  std::string id;                // of its control group
  uid_t uid;                     // and gid
  std::uint64_t processes_max;   // threads included
  std::uint64_t file_bytes_max;  // the largest file it may write
  const JailRoot* root;
  std::string scratch;  // any folder of the host, for a moment
  // Descriptors below are the VMM's own; the next number is the program's, O_PATH, from which alone it may be
  // exec'd; every other is closed.
  int inherited_end;
  int parent;  // SOCK_SEQPACKET to the parent, close-on-exec

  int program() const { return inherited_end; }
};

struct JailLayer {
  const char* name;
  Result<void> (*put_on)(const JailSpec& spec);
  const char* advice;  // to the operator of a kernel that does not have it
};

// In the order in which they are put on: each needs a power that a later one takes away.
std::span<const JailLayer> jail_layers();

// The child is the first process of a new process namespace. Every later child of the caller would be born
// into that too: it forks once.
Result<pid_t> fork_into_jail(bool new_process_namespace = true);

// For the child: waits for leave, puts on all of `layers` and tells the parent. Layers named in `may_miss`
// are left out where this kernel does not have them. When it returns an error the process must end at once:
// it may be half in.
Result<void> enter_jail(const JailSpec& spec, std::span<const std::string> may_miss,
                        std::span<const JailLayer> layers = jail_layers());
// The same, and execs the program; returns only to say why not, after it told the parent.
Error enter_jail_and_exec(const JailSpec& spec, std::span<const std::string> may_miss,
                          std::span<const std::string> arguments,
                          std::span<const JailLayer> layers = jail_layers());

// What of the jail shows from inside only.
struct Worn {
  std::vector<std::string> missing;  // layers that this kernel does not have
  int landlock_abi = 0;              // 0: not on, or what it must refuse was not refused

  bool operator==(const Worn&) const = default;
};
// For the parent: until the child has exec'd, or the reason why it did not.
Result<Worn> oversee_jail(int socket, pid_t child, uid_t uid);

// Pure: one line of text, for messages and records.
std::string to_text(const Worn& worn);
Result<Worn> parse_worn(std::string_view text);

// Also for noded and its workers: every capability goes for good, except those of `kept` (bits by the numbers
// of <linux/capability.h>), in itself and in what it may run.
Result<void> keep_capabilities(std::uint64_t kept);

}  // namespace space::priv
