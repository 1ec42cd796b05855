// The snapshot driver against the real QEMU, without the platform: devices saved and loaded, memory captured
// from the VMM's own process, a guest that goes on in another VM, and again in a third.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <filesystem>

#include "base/fd.h"
#include "tests/integration/bare_vm.h"
#include "tests/integration/guest_exec.h"
#include "vmm/memory_capture.h"
#include "vmm/snapshot_contract.h"

namespace space {
namespace {

using SessionPtr = std::shared_ptr<H2Session>;
using vmm::contract::soon;

constexpr std::uint32_t memory_mib = 256;
constexpr std::uint64_t content_bytes = 60'000'000;  // of a file that a guest makes
constexpr std::uint64_t memory_bytes = std::uint64_t{memory_mib} << 20;

Deadline boot_limit() {
  return Deadline::after(std::chrono::seconds(120));
}

// The files of /proc that space-noded would hand out.
struct ProcFiles {
  explicit ProcFiles(pid_t pid) {
    const std::string folder = "/proc/" + std::to_string(pid);
    mem = open_fd(folder + "/mem", O_RDONLY).value();
    maps = open_fd(folder + "/maps", O_RDONLY).value();
    pagemap = open_fd(folder + "/pagemap", O_RDONLY).value();
  }
  vmm::MemoryFds fds() const { return {mem.get(), maps.get(), pagemap.get()}; }
  Fd mem, maps, pagemap;
};

std::uint64_t count_differences(const ProcFiles& vmm, int image) {
  const std::uint64_t address = vmm::find_private_pages(vmm.fds(), memory_bytes, true).value().address;
  std::vector<char> live(1 << 20), stored(1 << 20);
  std::uint64_t differences = 0;
  for (std::uint64_t at = 0; at < memory_bytes; at += live.size()) {
    EXPECT_EQ(::pread(vmm.mem.get(), live.data(), live.size(), static_cast<off_t>(address + at)),
              static_cast<ssize_t>(live.size()));
    EXPECT_EQ(::pread(image, stored.data(), stored.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(stored.size()));
    for (std::size_t page = 0; page < live.size(); page += vmm::page_bytes)
      differences += std::memcmp(&live[page], &stored[page], vmm::page_bytes) != 0;
  }
  return differences;
}

class VmSnapshot : public testing::Test {
 protected:
  using VmPtr = std::unique_ptr<BareVm>;

  void run(std::function<Task<void>()> body) {
    bool ended = false;
    spawn(loop_.get_executor(), "test", [](std::function<Task<void>()> script, bool& done) -> Task<void> {
      co_await script();
      done = true;
    }(std::move(body), ended));
    loop_.run();
    loop_.restart();
    ASSERT_TRUE(ended);
  }

  static VmPtr boot(bool zero_free_pages = false) {
    const char* images = std::getenv("SPACE_TEST_IMAGES");
    if (images == nullptr) ADD_FAILURE() << "SPACE_TEST_IMAGES names a template's folder";
    if (images == nullptr) return nullptr;
    return started(BareVm::prepare(images, {.memory_mib = memory_mib, .zero_free_pages = zero_free_pages}));
  }
  static VmPtr started(Result<VmPtr> vm) {
    EXPECT_TRUE(vm) << vm.error().message;
    if (!vm) return nullptr;
    const auto running = (*vm)->start();
    EXPECT_TRUE(running) << running.error().message;
    return running ? std::move(*vm) : nullptr;
  }
  static Task<std::unique_ptr<vmm::Qmp>> qmp_of(const BareVm& vm) {
    auto stream = co_await connect_unix(vm.qmp_path(), soon());
    EXPECT_TRUE(stream) << stream.error().message;
    auto qmp = co_await vmm::Qmp::open(std::move(*stream), {}, soon());
    EXPECT_TRUE(qmp) << qmp.error().message;
    co_return qmp ? std::move(*qmp) : nullptr;
  }
  // What a shell in the guest prints.
  static Task<std::string> shell(BareVm& vm, std::string script) {
    auto session = co_await vm.attach(boot_limit());
    EXPECT_TRUE(session) << session.error().message;
    if (!session) co_return "";
    const auto ran = co_await run_in_guest(*session, {"/bin/bash", "-c", script}, soon());
    EXPECT_TRUE(ran) << ran.error().message;
    (*session)->close("done");
    co_return ran ? ran->output : "";
  }

  struct Saved {
    std::string devices;
    std::string memory;  // a file
    vmm::CaptureStats stats;
  };
  // Of a running VM, which stands still afterwards. `before`: the memory its own began as.
  Task<Saved> save(BareVm& vm, vmm::Qmp& qmp, std::string before) {
    const ProcFiles files(vm.pid());
    Saved saved;
    saved.memory = vm.folder() + "/mem.raw";
    std::filesystem::copy_file(before, saved.memory);
    std::filesystem::permissions(saved.memory, std::filesystem::perms::owner_all);
    const Fd image = open_fd(saved.memory, O_RDWR).value();

    const auto ahead = vmm::MemoryCapture::private_bytes(files.fds(), {.memory_bytes = memory_bytes});
    EXPECT_TRUE(ahead.has_value() && buffer_.grow(*ahead).has_value());
    EXPECT_TRUE(co_await qmp.stop(soon()));
    auto devices = co_await qmp.save_device_state(soon());
    EXPECT_TRUE(devices) << devices.error().message;
    saved.devices = devices.value_or("");
    auto capture = vmm::MemoryCapture::stage(files.fds(), {.memory_bytes = memory_bytes}, buffer_);
    EXPECT_TRUE(capture) << capture.error().message;
    if (!capture) co_return saved;
    EXPECT_GT(count_differences(files, image.get()), 0u) << "it has run";
    const auto stats = capture->write(image.get());
    EXPECT_TRUE(stats) << stats.error().message;
    saved.stats = stats.value_or(vmm::CaptureStats{});
    EXPECT_EQ(count_differences(files, image.get()), 0u);
    fmt::print(
        "# {} pages private, {} differ, {} zero, {} bytes of devices; staged in {} us, written in {} us\n",
        saved.stats.private_pages, saved.stats.dirty_pages, saved.stats.zero_pages, saved.devices.size(),
        saved.stats.stage_us, saved.stats.write_us);
    co_return saved;
  }

  vmm::StagingBuffer buffer_;

 private:
  boost::asio::io_context loop_;
};

TEST_F(VmSnapshot, TheRealQemuKeepsTheContractOfTheFake) {
  run([]() -> Task<void> {
    const VmPtr vm = boot();
    if (!vm) co_return;
    co_await shell(*vm, "true");
    const auto qmp = co_await qmp_of(*vm);
    if (!qmp) co_return;
    const std::string saved = co_await vmm::contract::saves_and_goes_on(*qmp);
    EXPECT_EQ(co_await shell(*vm, "echo $((6*7))"), "42\n");
    co_await vmm::contract::takes_no_state_when_booted(*qmp, saved);

    const VmPtr waiting = started(vm->prepare_restored(vm->folder() + "/memory"));
    if (!waiting) co_return;
    const auto loader = co_await qmp_of(*waiting);
    if (loader) co_await vmm::contract::refuses_what_is_no_state(*loader, "this is not a device state");
  });
}

TEST_F(VmSnapshot, AGuestGoesOnInAnotherVmAndInAThird) {
  run([this]() -> Task<void> {
    VmPtr vm = boot();
    if (!vm) co_return;
    co_await shell(*vm,
                   "head -c 20000000 /dev/urandom >/dev/shm/data; sha256sum </dev/shm/data >/dev/shm/sum; "
                   "echo disk >/home/user/file; sync");
    std::string before = vm->folder() + "/memory";
    for (int generation = 1; generation <= 2; ++generation) {
      const auto qmp = co_await qmp_of(*vm);
      if (!qmp) co_return;
      const Saved saved = co_await save(*vm, *qmp, before);
      EXPECT_LE(saved.stats.written_bytes, saved.stats.dirty_pages * vmm::page_bytes);

      VmPtr next = started(vm->prepare_restored(saved.memory));
      if (!next) co_return;
      const auto loader = co_await qmp_of(*next);
      if (!loader) co_return;
      co_await vmm::contract::loads_and_runs(*loader, saved.devices);
      EXPECT_EQ(co_await shell(*next, "sha256sum </dev/shm/data | cmp - /dev/shm/sum && cat /home/user/file"),
                "disk\n");
      // The one it came from is unharmed.
      EXPECT_TRUE(co_await qmp->cont(soon()));
      EXPECT_EQ(co_await shell(*vm, "sha256sum </dev/shm/data | cmp - /dev/shm/sum && echo whole"),
                "whole\n");
      vm = std::move(next);
      before = vm->folder() + "/memory";
    }
    // The comparison would have seen other bytes.
    EXPECT_EQ(co_await shell(*vm,
                             "echo x >>/dev/shm/data; sha256sum </dev/shm/data | cmp -s - /dev/shm/sum || "
                             "echo different"),
              "different\n");
  });
}

// A clone goes on clearing what it frees, because the VM it came from was booted to.
TEST_F(VmSnapshot, WhatTheGuestHasFreedIsNotStored) {
  run([this]() -> Task<void> {
    const VmPtr builder = boot(true);
    if (!builder) co_return;
    co_await shell(*builder, "true");
    const auto qmp = co_await qmp_of(*builder);
    if (!qmp) co_return;
    const Saved base = co_await save(*builder, *qmp, builder->folder() + "/memory");
    EXPECT_LT(base.stats.written_bytes, memory_bytes / 2) << "free memory is zero";

    for (const bool freed : {true, false}) {
      const VmPtr clone = started(builder->prepare_restored(base.memory));
      if (!clone) co_return;
      const auto loader = co_await qmp_of(*clone);
      if (!loader) co_return;
      co_await vmm::contract::loads_and_runs(*loader, base.devices);
      co_await shell(*clone, fmt::format("head -c {} /dev/urandom >/dev/shm/data; {}", content_bytes,
                                         freed ? "rm /dev/shm/data" : "true"));
      const Saved saved = co_await save(*clone, *loader, clone->folder() + "/memory");
      EXPECT_GE(saved.stats.private_pages * vmm::page_bytes, content_bytes) << "it was written";
      if (freed)
        EXPECT_LT(saved.stats.written_bytes, content_bytes / 3);
      else
        EXPECT_GE(saved.stats.written_bytes, content_bytes);
    }
  });
}

}  // namespace
}  // namespace space
