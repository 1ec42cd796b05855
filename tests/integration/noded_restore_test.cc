// The real QEMU in its jail saves itself into a snapshot of space-noded, and another sandbox goes on from it:
// what it needs for that is on the lists of the jail, and the jail is the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cstring>
#include <fstream>
#include <map>

#include "net/stream.h"
#include "tests/integration/noded_fixture.h"
#include "vmm/memory_capture.h"
#include "vmm/snapshot_contract.h"

namespace space::noded {
namespace {

using vmm::contract::soon;

constexpr std::uint64_t memory_bytes = 128 << 20;

class RestoreTest : public NodedTest {
 protected:
  RestoreTest() {
    program_ = "/usr/bin/qemu-system-x86_64";
    ::chmod(root_.c_str(), 0755);
    start_noded();
  }

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
  Task<std::unique_ptr<vmm::Qmp>> connect(const Listeners& listeners) {
    auto stream = co_await connect_unix(listeners.qmp_path, soon());
    EXPECT_TRUE(stream);
    auto qmp = co_await vmm::Qmp::open(*std::move(stream), [](const vmm::QmpEvent&) {}, soon());
    EXPECT_TRUE(qmp) << qmp.error().message;
    co_return *std::move(qmp);
  }

  // What the snapshot manager does; the VM stands still.
  void save(const std::string& id, std::uint64_t number, const std::string& devices) {
    const Got vmm = client().call(Verb::vmm_open_memory, id);
    ASSERT_TRUE(vmm.done()) << vmm.message;
    const vmm::MemoryFds fds{vmm.fd.get(), vmm.more[0].get(), vmm.more[1].get()};
    vmm::StagingBuffer buffer;
    auto capture = vmm::MemoryCapture::stage(fds, {.memory_bytes = memory_bytes}, buffer);
    ASSERT_TRUE(capture) << capture.error().message;
    const Got begun = client().call(Verb::snapshot_begin, id, "", {number});
    ASSERT_TRUE(begun.done()) << begun.message;
    const auto written = capture->write(begun.fd.get());
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_GT(written->private_pages, 0U);
    EXPECT_TRUE(write_all(begun.more[0].get(), as_bytes(devices)));
    const Got finished = client().call(Verb::snapshot_finish, id, "", {number});
    ASSERT_TRUE(finished.done()) << finished.message;
  }
  std::map<std::string, LayerState> layers_of(const std::string& id) {
    const std::string bytes = text_of(client().call(Verb::vmm_isolation, id).fd);
    std::map<std::string, LayerState> layers;
    for (std::size_t at = 0; at + sizeof(IsolationRecord) <= bytes.size(); at += sizeof(IsolationRecord)) {
      IsolationRecord record;
      std::memcpy(&record, bytes.data() + at, sizeof record);
      layers[record.layer] = record.state;
    }
    return layers;
  }
  // Apart from who and where it is.
  static std::vector<std::string> confinement_of(std::uint64_t pid) {
    std::vector<std::string> lines;
    const auto add = [&](const char* name, const std::vector<std::string>& wanted) {
      std::ifstream file("/proc/" + std::to_string(pid) + "/" + name);
      for (std::string line; std::getline(file, line);)
        for (const std::string& start : wanted)
          if (line.starts_with(start)) lines.push_back(line);
    };
    add("status", {"Cap", "NoNewPrivs", "Seccomp", "Groups"});
    add("limits", {"Max"});
    return lines;
  }

  boost::asio::io_context loop_;
};

TEST_F(RestoreTest, QemuSavesItselfAndGoesOnInAnotherSandboxAsConfined) {
  const std::string digest = make_image(halting_kernel());
  ASSERT_TRUE(import(digest).done());
  const std::string first = make_sandbox(digest), id = new_sandbox_id();
  const Listeners listeners(root_, first), own(root_, id);
  const Got booted = launch(first, listeners);
  ASSERT_TRUE(booted.done()) << booted.message;
  run([&]() -> Task<void> {
    const auto qmp = co_await connect(listeners);
    const std::string devices = co_await vmm::contract::saves_and_goes_on(*qmp);
    co_await vmm::contract::takes_no_state_when_booted(*qmp, devices);
    EXPECT_TRUE(co_await qmp->stop(soon()));
    const auto last = co_await qmp->save_device_state(soon());
    EXPECT_TRUE(last) << last.error().message;
    if (last) save(first, 1, *last);
  });
  const Got restored = client().restore(id, first, 1);
  ASSERT_TRUE(restored.done()) << restored.message;
  ASSERT_TRUE(client().call(Verb::slot_create, id).done());
  const Got launched = launch(id, own, true);
  ASSERT_TRUE(launched.done()) << launched.message;
  const Got snapshot = client().call(Verb::snapshot_open, first, "", {1});
  ASSERT_TRUE(snapshot.done()) << snapshot.message;
  run([&]() -> Task<void> {
    const auto qmp = co_await connect(own);
    EXPECT_EQ(co_await vmm::contract::state_of(*qmp), "inmigrate");
    Fd devices = open_fd(fmt::format("/proc/self/fd/{}", snapshot.more[0].get()), O_RDONLY).value();
    const auto loaded = co_await qmp->load_device_state(std::move(devices), soon());
    EXPECT_TRUE(loaded) << loaded.error().message;
    EXPECT_TRUE(co_await qmp->cont(soon()));
    EXPECT_EQ(co_await vmm::contract::state_of(*qmp), "running");
    co_await vmm::contract::saves_and_goes_on(*qmp);
  });

  const auto layers = layers_of(id);
  EXPECT_EQ(layers.size(), 13U);
  for (const auto& [layer, state] : layers) EXPECT_EQ(state, LayerState::active) << layer;
  EXPECT_EQ(layers, layers_of(first));
  EXPECT_THAT(confinement_of(launched.values[0]), testing::ContainerEq(confinement_of(booted.values[0])));
  EXPECT_GT(confinement_of(booted.values[0]).size(), 15U);

  // Memory the guest has not written is the snapshot's own file, which nobody can write through it.
  const Got memory = client().call(Verb::vmm_open_memory, id);
  ASSERT_TRUE(memory.done()) << memory.message;
  const vmm::MemoryFds fds{memory.fd.get(), memory.more[0].get(), memory.more[1].get()};
  const auto pages = vmm::find_private_pages(fds, memory_bytes, true);
  ASSERT_TRUE(pages) << pages.error().message;
  EXPECT_LT(vmm::count_pages(pages->runs), memory_bytes / vmm::page_bytes / 2);
  std::string live(1 << 20, '\0'), stored = live;
  std::size_t different = 0;
  for (std::uint64_t at = 0; at < memory_bytes; at += live.size()) {
    ASSERT_EQ(::pread(fds.mem, live.data(), live.size(), static_cast<off_t>(pages->address + at)), 1 << 20);
    ASSERT_EQ(::pread(snapshot.fd.get(), stored.data(), stored.size(), static_cast<off_t>(at)), 1 << 20);
    different += live != stored;
  }
  EXPECT_EQ(different, 0U) << "a halted guest has the memory it was saved with";
  EXPECT_NE(stored.size(), 0U);
  struct stat file{};
  ASSERT_EQ(::fstat(snapshot.fd.get(), &file), 0);
  EXPECT_THAT(text_of(memory.more[0]), testing::HasSubstr(fmt::format(" {} ", file.st_ino)));

  for (const std::string& each : {first, id}) {
    EXPECT_TRUE(client().call(Verb::vmm_kill, each).done());
    EXPECT_TRUE(await_exit(each).done());
    forget_all(each);
  }
}

}  // namespace
}  // namespace space::noded
