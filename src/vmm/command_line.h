// The command line of a sandbox's virtual machine. Pure: the same spec gives the same text.
//
// Linked into the root process, so it takes bounded integers only: every file QEMU uses reaches it as an
// inherited descriptor or as a mount of a fixed name, and no name from anywhere becomes an argument.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace space::vmm {

enum class Accelerator : std::uint8_t { tcg, kvm };

// Raised with every change of what a saved device state belongs to: machine, devices, their order and
// options, the processor. A snapshot is restored on the revision it was saved on only.
inline constexpr int machine_revision = 1;

// The numbers under which QEMU finds its descriptors after exec. Each is >= 3, distinct, and not
// close-on-exec.
struct InheritedFds {
  int qmp = -1;      // listening SOCK_STREAM unix socket; QEMU accepts one client at a time
  int channel = -1;  // the same, for the private channel
  int tap = -1;      // IFF_TAP | IFF_NO_PI | IFF_VNET_HDR, attached
  int disk = -1;     // the VM's disk.raw, O_RDWR
  // Copies of two snapshots' disks, O_RDWR: to be read a journal has to be replayed. None: it has one disk.
  // They come after all other devices.
  int second_disk = -1, third_disk = -1;
  int kvm = -1;  // /dev/kvm, O_RDWR; used with Accelerator::kvm only
};

// Where QEMU, as the uid it runs under, can open and read these. The product's are the constants below:
// mounts in the jail.
struct BootFiles {
  std::string memory_base = "/memory";  // what guest memory reads as until written; exactly memory_mib long
  std::string kernel = "/kernel";       // bzImage
  std::string initramfs = "/initramfs";
};

// Of the sandbox's disk, reads and writes together; 0 = no limit.
struct DiskLimits {
  std::uint32_t mib_per_s = 0;
  std::uint32_t operations_per_s = 0;
};

struct MachineSpec {
  std::uint32_t vcpus = 1;
  std::uint32_t memory_mib = 512;
  Accelerator accelerator = Accelerator::tcg;
  std::uint32_t tsc_khz =
      0;  // of the host; used with Accelerator::tcg only, where a boot under load needs it
  DiskLimits disk_limits;
  // Boots nothing: waits for migrate-incoming, which brings the devices of a snapshot to its memory. The rest
  // of the line is the same, so that each loads what the other saved.
  bool incoming = false;
  // What the guest's kernel frees it fills with zeros. At a boot that is all of its memory.
  bool zero_free_pages = false;
  InheritedFds fds;
  BootFiles files;
};

// The program first. `spec` is within the bounds of api/noded.h; that is the caller's to check.
std::vector<std::string> command_line(const MachineSpec& spec);

}  // namespace space::vmm
