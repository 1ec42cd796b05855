#include "vmm/command_line.h"

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace space::vmm {
namespace {

// Groups inside QEMU's fd sets, named by /dev/fdset/N.
constexpr int disk_fdset = 1;
constexpr int kvm_fdset = 2;
constexpr int second_disk_fdset = 3;
constexpr int third_disk_fdset = 4;

std::string kernel_arguments(const MachineSpec& spec) {
  // A panic or reboot ends the VM (-no-reboot), so that the cause is seen at once.
  // Crypto self-tests would cost a sixth of the boot; the packaged kernel passed them when it was built.
  std::string text = "console=ttyS0 quiet panic=-1 reboot=t pci=off cryptomgr.notests";
  if (spec.zero_free_pages) text += " init_on_free=1";
  // Under TCG a busy host makes timer calibration fail or hang: give the frequency, skip the check.
  if (spec.accelerator == Accelerator::tcg) {
    text += fmt::format(" no_timer_check tsc=reliable tsc_early_khz={}", spec.tsc_khz);
  }
  return text;
}

class Arguments {
 public:
  void add(std::string option) { list_.push_back(std::move(option)); }
  void add(std::string option, std::string value) {
    add(std::move(option));
    add(std::move(value));
  }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

void add_machine(Arguments& out, const MachineSpec& spec) {
  out.add("-name", "space");
  // acpi=on: Debian's kernel finds virtio-mmio devices through ACPI only.
  // No 8259 and no 8254: Linux uses local APIC and TSC, and does not initialise the legacy pair on this
  // machine, where its stray interrupt once hit vector 0.
  out.add("-machine",
          "microvm,acpi=on,isa-serial=on,rtc=on,pic=off,pit=off,memory-backend=ram0,mem-merge=off,"
          "dump-guest-core=off,suppress-vmdesc=on");
  // A saved device state has neither this section nor the description above, and a loader would ask for both.
  out.add("-global", "migration.send-configuration=off");
  out.add("-global", "virtio-mmio.force-legacy=false");  // virtio 1.0
  out.add("-nodefaults");
  out.add("-no-user-config");
  out.add("-display", "none");
  out.add("-no-reboot");
  out.add("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
  if (spec.accelerator == Accelerator::kvm) {
    out.add("-add-fd", fmt::format("fd={},set={}", spec.fds.kvm, kvm_fdset));
    out.add("-accel", fmt::format("kvm,device=/dev/fdset/{}", kvm_fdset));
    out.add("-cpu", "host");
  } else {
    // Without erms and fsrm the guest does not copy by `rep movsb`, which TCG runs byte by byte.
    out.add("-accel", "tcg,thread=multi,tb-size=32");
    out.add("-cpu", "max,-erms,-fsrm");
  }
  out.add("-smp", fmt::format("{}", spec.vcpus));
}

void add_memory_and_boot(Arguments& out, const MachineSpec& spec) {
  out.add("-m", fmt::format("{}M", spec.memory_mib));
  // A private mapping of a file opened read-only: the guest writes its own copy, never the file.
  out.add("-object", fmt::format("memory-backend-file,id=ram0,size={}M,mem-path={},"
                                 "share=off,readonly=on,rom=off",
                                 spec.memory_mib, spec.files.memory_base));
  out.add("-kernel", spec.files.kernel);
  out.add("-initrd", spec.files.initramfs);
  out.add("-append", kernel_arguments(spec));
}

void add_channels(Arguments& out, const InheritedFds& fds) {
  out.add("-chardev", fmt::format("socket,id=qmp,fd={},server=on,wait=off", fds.qmp));
  out.add("-mon", "chardev=qmp,mode=control");
  out.add("-chardev", fmt::format("socket,id=channel,fd={},server=on,wait=off", fds.channel));
  out.add("-device", "virtio-serial-device,max_ports=2");
  out.add("-device", "virtserialport,chardev=channel,name=space.0");
  // The console is a bounded ring that QMP ringbuf-read empties: a guest cannot fill anything with it.
  out.add("-chardev", "ringbuf,id=console,size=65536");
  out.add("-serial", "chardev:console");
}

// A guest that writes without end leaves the host's disk to the others.
void add_disk_limits(Arguments& out, const DiskLimits& limits) {
  std::string group = "throttle-group,id=disk-limits";
  if (limits.mib_per_s != 0) group += fmt::format(",x-bps-total={}", std::uint64_t{limits.mib_per_s} << 20);
  if (limits.operations_per_s != 0) group += fmt::format(",x-iops-total={}", limits.operations_per_s);
  out.add("-object", std::move(group));
  out.add("-blockdev",
          "driver=throttle,node-name=disk,throttle-group=disk-limits,file=disk-raw,discard=unmap");
}

// Its serial number tells the guest which one it is.
void add_snapshot_disk(Arguments& out, int fd, int set, std::string_view name) {
  if (fd < 0) return;
  out.add("-add-fd", fmt::format("fd={},set={}", fd, set));
  out.add("-blockdev", fmt::format("driver=file,node-name={}-file,filename=/dev/fdset/{},aio=threads,"
                                   "locking=off,auto-read-only=off",
                                   name, set));
  out.add("-blockdev", fmt::format("driver=raw,node-name={0},file={0}-file", name));
  out.add("-device", fmt::format("virtio-blk-device,drive={0},serial={0}", name));
}

void add_devices(Arguments& out, const MachineSpec& spec) {
  const InheritedFds& fds = spec.fds;
  out.add("-add-fd", fmt::format("fd={},set={}", fds.disk, disk_fdset));
  out.add("-blockdev", fmt::format("driver=file,node-name=disk-file,filename=/dev/fdset/{},aio=threads,"
                                   "locking=off,auto-read-only=off,discard=unmap",
                                   disk_fdset));
  out.add("-blockdev", "driver=raw,node-name=disk-raw,file=disk-file,discard=unmap");
  add_disk_limits(out, spec.disk_limits);
  out.add("-device", "virtio-blk-device,drive=disk");
  out.add("-netdev", fmt::format("tap,id=net,fd={},vhost=off", fds.tap));
  out.add("-device", "virtio-net-device,netdev=net,mac=02:53:50:41:43:45");
  out.add("-object", "rng-builtin,id=rng");
  out.add("-device", "virtio-rng-device,rng=rng,max-bytes=1024,period=1000");
  add_snapshot_disk(out, fds.second_disk, second_disk_fdset, "second");
  add_snapshot_disk(out, fds.third_disk, third_disk_fdset, "third");
}

}  // namespace

std::vector<std::string> command_line(const MachineSpec& spec) {
  Arguments out;
  out.add("qemu-system-x86_64");
  add_machine(out, spec);
  add_memory_and_boot(out, spec);
  add_channels(out, spec.fds);
  add_devices(out, spec);
  if (spec.incoming) {
    out.add("-S");
    out.add("-incoming", "defer");
  }
  return out.take();
}

}  // namespace space::vmm
