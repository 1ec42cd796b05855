// BareVm: a template's virtual machine with the product's own command line and nothing of the platform around
// it. Integration tests talk to its guest directly; benchmarks measure the platform against it. Needs root.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "net/h2_session.h"
#include "vmm/command_line.h"

namespace space {

class BareVm {
 public:
  struct Shape {
    std::uint32_t vcpus = 1;
    std::uint32_t memory_mib = 512;
    bool zero_free_pages = false;         // of a boot
    std::string second_disk, third_disk;  // paths of images that it may write to; both or neither
  };

  // Copies the disk of `template_folder` (manifest.json, disk.raw, vmlinuz, initramfs.img) into a folder of
  // its own. QEMU does not run yet.
  static Result<std::unique_ptr<BareVm>> prepare(const std::string& template_folder, Shape shape);
  // Another one that goes on from this: a copy of its disk as it is now, guest memory that begins as `memory`
  // (a file of its own from here on), waiting for the devices.
  Result<std::unique_ptr<BareVm>> prepare_restored(const std::string& memory) const;
  ~BareVm();  // kills QEMU and removes the folder
  BareVm(const BareVm&) = delete;
  BareVm& operator=(const BareVm&) = delete;

  // Starts QEMU as an unprivileged user in an empty network namespace that holds only its tap.
  Result<void> start();
  // Attaches the channel; a session that runs until it is closed or the VM ends. May be called again after
  // that.
  Task<Result<std::shared_ptr<H2Session>>> attach(Deadline deadline);
  // Guest memory's file is called "memory", as in the jail.
  std::string folder() const { return folder_; }
  pid_t pid() const { return pid_; }
  std::string qmp_path() const { return folder_ + "/qmp.sock"; }

  void kill() noexcept;  // SIGKILL
  // The wait(2) status; an error when QEMU still runs at the deadline.
  Result<int> wait(Deadline deadline);

 private:
  BareVm(std::string folder, Shape shape) : folder_(std::move(folder)), shape_(shape) {}
  static Result<std::unique_ptr<BareVm>> make(Shape shape);
  Result<void> open_files(const std::string& template_folder);
  Result<void> open_memory();
  [[noreturn]] void become_qemu();

  std::string folder_;
  Shape shape_;
  std::uint32_t tsc_khz_ = 0;
  bool incoming_ = false;
  Fd qmp_, channel_, disk_, second_disk_, third_disk_, memory_, kernel_, initramfs_;
  pid_t pid_ = -1;
  int status_ = -1;
  std::uint64_t epoch_ = 0;
};

}  // namespace space
