// The command line of a sandbox's virtual machine. Pure: the same spec gives the same text.
//
// Linked into the root process, so it takes bounded integers only: every file QEMU uses reaches it as an
// inherited descriptor, and no name from anywhere becomes an argument.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace space::vmm {

enum class Accelerator : std::uint8_t { tcg, kvm };

// The numbers under which QEMU finds its files after exec. Each is >= 3, distinct, and not close-on-exec.
// QEMU runs as a uid that owns none of these files and opens four of them anew through /proc/self/fd:
// kernel, initramfs and memory_base must be readable by that uid (mode 0444 or a memfd; the folders
// above them need not be). The others are used as they are, whatever their mode.
struct InheritedFds {
  int qmp = -1;          // listening SOCK_STREAM unix socket; QEMU accepts one client at a time
  int channel = -1;      // the same, for the private channel
  int tap = -1;          // IFF_TAP | IFF_NO_PI | IFF_VNET_HDR, attached
  int disk = -1;         // the VM's disk.raw, O_RDWR
  int memory_base = -1;  // what guest memory reads as until written; exactly memory_mib long, opened O_RDONLY
  int kernel = -1;       // bzImage, O_RDONLY
  int initramfs = -1;    // O_RDONLY
  int kvm = -1;          // /dev/kvm, O_RDWR; used with Accelerator::kvm only
};

struct MachineSpec {
  std::uint32_t vcpus = 1;
  std::uint32_t memory_mib = 512;
  Accelerator accelerator = Accelerator::tcg;
  std::uint32_t tsc_khz =
      0;  // of the host; used with Accelerator::tcg only, where a boot under load needs it
  InheritedFds fds;
};

// The program first. `spec` is within the bounds of api/noded.h; that is the caller's to check.
std::vector<std::string> command_line(const MachineSpec& spec);

}  // namespace space::vmm
