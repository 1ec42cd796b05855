#include "vmm/command_line.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace space::vmm {
namespace {

std::string joined(const MachineSpec& spec) {
  return fmt::format("{}", fmt::join(command_line(spec), "\n"));
}

MachineSpec spec_of(Accelerator accelerator) {
  MachineSpec spec;
  spec.vcpus = 2;
  spec.memory_mib = 1024;
  spec.accelerator = accelerator;
  spec.tsc_khz = 2596132;
  spec.disk_limits = {.mib_per_s = 100, .operations_per_s = 5000};
  spec.fds = {.qmp = 3, .channel = 4, .tap = 5, .disk = 6, .kvm = 7};
  return spec;
}

// The whole text: a change of the machine is a change of what old snapshots can be restored on. Who changes a
// line of it that a saved device state depends on raises the revision.
TEST(CommandLine, UnderTcg) {
  EXPECT_EQ(fmt::format("revision {}\n{}", machine_revision, joined(spec_of(Accelerator::tcg))),
            R"(revision 1
qemu-system-x86_64
-name
space
-machine
microvm,acpi=on,isa-serial=on,rtc=on,pic=off,pit=off,memory-backend=ram0,mem-merge=off,dump-guest-core=off,suppress-vmdesc=on
-global
migration.send-configuration=off
-global
virtio-mmio.force-legacy=false
-nodefaults
-no-user-config
-display
none
-no-reboot
-sandbox
on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
-accel
tcg,thread=multi,tb-size=32
-cpu
max,-erms,-fsrm
-smp
2
-m
1024M
-object
memory-backend-file,id=ram0,size=1024M,mem-path=/memory,share=off,readonly=on,rom=off
-kernel
/kernel
-initrd
/initramfs
-append
console=ttyS0 quiet panic=-1 reboot=t pci=off cryptomgr.notests no_timer_check tsc=reliable tsc_early_khz=2596132
-chardev
socket,id=qmp,fd=3,server=on,wait=off
-mon
chardev=qmp,mode=control
-chardev
socket,id=channel,fd=4,server=on,wait=off
-device
virtio-serial-device,max_ports=2
-device
virtserialport,chardev=channel,name=space.0
-chardev
ringbuf,id=console,size=65536
-serial
chardev:console
-add-fd
fd=6,set=1
-blockdev
driver=file,node-name=disk-file,filename=/dev/fdset/1,aio=threads,locking=off,auto-read-only=off,discard=unmap
-blockdev
driver=raw,node-name=disk-raw,file=disk-file,discard=unmap
-object
throttle-group,id=disk-limits,x-bps-total=104857600,x-iops-total=5000
-blockdev
driver=throttle,node-name=disk,throttle-group=disk-limits,file=disk-raw,discard=unmap
-device
virtio-blk-device,drive=disk
-netdev
tap,id=net,fd=5,vhost=off
-device
virtio-net-device,netdev=net,mac=02:53:50:41:43:45
-object
rng-builtin,id=rng
-device
virtio-rng-device,rng=rng,max-bytes=1024,period=1000)");
}

TEST(CommandLine, UnderKvmDiffersInAcceleratorCpuAndTimerOnly) {
  std::string expected = joined(spec_of(Accelerator::tcg));
  const auto replace = [&](std::string_view from, std::string_view to) {
    const auto at = expected.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    expected.replace(at, from.size(), to);
  };
  replace("-accel\ntcg,thread=multi,tb-size=32\n-cpu\nmax,-erms,-fsrm\n",
          "-add-fd\nfd=7,set=2\n-accel\nkvm,device=/dev/fdset/2\n-cpu\nhost\n");
  replace(" no_timer_check tsc=reliable tsc_early_khz=2596132", "");
  EXPECT_EQ(joined(spec_of(Accelerator::kvm)), expected);
}

TEST(CommandLine, AGuestThatClearsWhatItFreesDiffersInOneWord) {
  MachineSpec spec = spec_of(Accelerator::tcg);
  std::string expected = joined(spec);
  expected.insert(expected.find(" no_timer_check"), " init_on_free=1");
  spec.zero_free_pages = true;
  EXPECT_EQ(joined(spec), expected);
}

// After all others, so that these stay where they are.
TEST(CommandLine, TwoMoreDisksAreAddedAtItsEnd) {
  MachineSpec spec = spec_of(Accelerator::tcg);
  const std::string one_disk = joined(spec);
  spec.fds.second_disk = 8;
  spec.fds.third_disk = 9;
  EXPECT_EQ(joined(spec), one_disk + R"(
-add-fd
fd=8,set=3
-blockdev
driver=file,node-name=second-file,filename=/dev/fdset/3,aio=threads,locking=off,auto-read-only=off
-blockdev
driver=raw,node-name=second,file=second-file
-device
virtio-blk-device,drive=second,serial=second
-add-fd
fd=9,set=4
-blockdev
driver=file,node-name=third-file,filename=/dev/fdset/4,aio=threads,locking=off,auto-read-only=off
-blockdev
driver=raw,node-name=third,file=third-file
-device
virtio-blk-device,drive=third,serial=third)");
}

TEST(CommandLine, OneThatWaitsForASnapshotDiffersAtItsEndOnly) {
  for (const Accelerator accelerator : {Accelerator::tcg, Accelerator::kvm}) {
    MachineSpec spec = spec_of(accelerator);
    const std::string saving = joined(spec);
    spec.incoming = true;
    EXPECT_EQ(joined(spec), saving + "\n-S\n-incoming\ndefer");
  }
}

}  // namespace
}  // namespace space::vmm
