// What a node manager does about snapshots, asked of the fake and of the real one alike. For tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/bytes.h"
#include "base/ids.h"
#include "sandboxd/noded_client.h"
#include "sandboxd/vm_sockets.h"

namespace space::contract {

using namespace std::chrono_literals;

inline constexpr std::int64_t contract_memory_mib = 128;

inline Deadline soon() {
  return Deadline::after(30s);
}

template <class T>
std::string code_of(const Result<T>& result) {
  return result ? "done" : std::string(to_string(result.error().code));
}

inline std::string read_at(const Fd& file, off_t at, std::size_t size) {
  std::string bytes(size, '?');
  const ssize_t got = ::pread(file.get(), bytes.data(), size, at);
  bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return bytes;
}

// One sandbox of `digest`, whose VMs listen in a folder beneath `folder`.
class Subject {
 public:
  Subject(NodedClient& noded, std::string folder) : noded(noded), folder_(std::move(folder)) {}

  Task<std::string> launch(bool restore, std::int64_t memory_mib = contract_memory_mib,
                           std::optional<DiskPair> disks = {}) {
    const VmSockets sockets = open_vm_sockets(folder_ + "/" + id).value();
    effect::LaunchVmm machine;
    machine.vcpus = 1;
    machine.memory_mib = memory_mib;
    machine.restore = restore;
    machine.disks = std::move(disks);
    const auto vmm =
        co_await noded.vmm_launch(id, machine, 2'600'000, sockets.qmp.get(), sockets.channel.get(), soon());
    co_return code_of(vmm);
  }
  Task<void> end() {
    EXPECT_TRUE(co_await noded.vmm_kill(id, soon()));
    const Deadline patience = soon();
    while (!co_await noded.vmm_exit(id, soon()) && !patience.passed()) co_await sleep_for(2ms);
  }
  // Begins one and answers what its memory starts with, or why not.
  Task<std::string> begin(std::uint64_t number, std::uint64_t previous) {
    files = {};
    auto begun = co_await noded.snapshot_begin(id, number, previous, soon());
    if (!begun) co_return code_of(begun);
    files = *std::move(begun);
    EXPECT_EQ(::lseek(files.memory.get(), 0, SEEK_END), contract_memory_mib << 20);
    EXPECT_EQ(read_at(files.state, 0, 1) + read_at(files.manifest, 0, 1), "") << "empty, and not for reading";
    co_return read_at(files.memory, 8192, 4);
  }
  Task<void> take(std::uint64_t number, std::uint64_t previous, std::string text) {
    co_await begin(number, previous);
    EXPECT_EQ(::pwrite(files.memory.get(), text.data(), text.size(), 8192),
              static_cast<ssize_t>(text.size()));
    EXPECT_TRUE(write_all(files.state.get(), as_bytes("state of " + text)));
    EXPECT_TRUE(write_all(files.manifest.get(), as_bytes("manifest of " + text)));
    EXPECT_TRUE(co_await noded.snapshot_finish(id, number, soon()));
  }
  // Of the disk only: what came of its beginning and its end.
  Task<std::string> take_disk(std::uint64_t number) {
    const auto manifest = co_await noded.snapshot_begin_disk(id, number, soon());
    if (!manifest) co_return code_of(manifest);
    EXPECT_EQ(read_at(*manifest, 0, 1), "") << "empty, and not for reading";
    EXPECT_TRUE(write_all(manifest->get(), as_bytes("manifest of a disk")));
    EXPECT_EQ(code_of(co_await noded.snapshot_open(id, number, soon())), "not_found") << "unfinished";
    co_return code_of(co_await noded.snapshot_finish(id, number, soon(), false));
  }
  Task<std::size_t> count() {
    auto held = co_await noded.list(soon());
    co_return held ? held->snapshots[id].size() : 99;
  }

  NodedClient& noded;
  const std::string id = new_sandbox_id();
  SnapshotFiles files;

 private:
  std::string folder_;
};

inline const std::string zeros(4, '\0');

// `digest` is a template that is there.
inline Task<void> snapshots(NodedClient& noded, std::string folder, std::string digest) {
  Subject one(noded, folder);
  EXPECT_EQ(co_await one.begin(1, 0), "not_found") << "no VM runs";
  EXPECT_EQ(co_await one.launch(false), "not_found") << "no disk";
  EXPECT_TRUE(co_await noded.disk_create(one.id, digest, 512, soon()));
  EXPECT_TRUE(co_await noded.slot_create(one.id, soon()));
  EXPECT_EQ(co_await one.launch(true), "not_found") << "its disk came from no snapshot";
  EXPECT_EQ(co_await one.launch(false), "done");

  EXPECT_EQ(co_await one.begin(1, 0), zeros);
  EXPECT_EQ(code_of(co_await noded.snapshot_open(one.id, 1, soon())), "not_found") << "unfinished";
  EXPECT_EQ(code_of(co_await noded.disk_restore(new_sandbox_id(), one.id, 1, soon())), "not_found");
  EXPECT_EQ(code_of(co_await noded.snapshot_finish(one.id, 2, soon())), "not_found");
  EXPECT_EQ(co_await one.count(), 0U);
  co_await one.take(1, 0, "page");  // takes the place of the unfinished one
  EXPECT_EQ(code_of(co_await noded.snapshot_finish(one.id, 1, soon())), "done") << "said twice";
  EXPECT_EQ(co_await one.begin(1, 0), "conflict") << "finished";
  EXPECT_EQ(co_await one.count(), 1U);
  const auto opened = co_await noded.snapshot_open(one.id, 1, soon());
  EXPECT_TRUE(opened);
  if (!opened) co_return;
  EXPECT_EQ(read_at(opened->memory, 8192, 4), "page");
  EXPECT_EQ(read_at(opened->state, 0, 99), "state of page");
  EXPECT_EQ(read_at(opened->manifest, 0, 99), "manifest of page");
  for (const Fd* file : {&opened->memory, &opened->state, &opened->manifest, &opened->disk})
    EXPECT_EQ(::write(file->get(), "x", 1), -1);
  EXPECT_EQ(co_await one.begin(2, 9), "not_found") << "nothing to start from";
  EXPECT_EQ(co_await one.begin(2, 1), "page");
  EXPECT_EQ(co_await one.begin(2, 0), zeros) << "what the VM was launched with";
  EXPECT_EQ(code_of(co_await noded.disk_restore(one.id, one.id, 1, soon())), "conflict") << "its VM runs";
}

// Of the disk only, with a VM and without.
inline Task<void> disk_snapshots(NodedClient& noded, std::string folder, std::string digest) {
  Subject one(noded, folder), other(noded, folder);
  EXPECT_EQ(co_await one.take_disk(1), "not_found") << "no disk";
  EXPECT_TRUE(co_await noded.disk_create(one.id, digest, 512, soon()));
  EXPECT_TRUE(co_await noded.slot_create(one.id, soon()));
  EXPECT_EQ(co_await one.take_disk(1), "done");
  EXPECT_EQ(co_await one.take_disk(1), "conflict") << "finished";
  EXPECT_EQ(co_await one.launch(false), "done");
  EXPECT_TRUE(co_await noded.snapshot_begin_disk(one.id, 2, soon()));
  EXPECT_EQ(co_await one.take_disk(2), "done") << "takes the place of the unfinished one";
  EXPECT_EQ(co_await one.count(), 2U);
  for (const std::uint64_t number : {1U, 2U}) {
    const auto opened = co_await noded.snapshot_open(one.id, number, soon());
    EXPECT_TRUE(opened);
    if (!opened) co_return;
    EXPECT_TRUE(!opened->memory && !opened->state && opened->disk);
    EXPECT_EQ(read_at(opened->manifest, 0, 99), "manifest of a disk");
    for (const Fd* file : {&opened->manifest, &opened->disk}) EXPECT_EQ(::write(file->get(), "x", 1), -1);
  }
  EXPECT_EQ(co_await one.begin(3, 2), "not_found") << "it holds no memory to start from";
  co_await one.take(3, 0, "page");
  EXPECT_EQ(co_await one.take_disk(4), "done") << "after one with memory";
  EXPECT_EQ(co_await one.begin(5, 3), "page") << "which the next may still start from";

  EXPECT_TRUE(co_await noded.slot_create(other.id, soon()));
  EXPECT_TRUE(co_await noded.disk_restore(other.id, one.id, 3, soon()));
  EXPECT_TRUE(co_await noded.disk_restore(other.id, one.id, 4, soon()));
  EXPECT_EQ(co_await other.launch(true), "not_found") << "its disk came from no memory";
  EXPECT_EQ(co_await other.launch(false), "done");
  EXPECT_EQ(co_await other.begin(1, 0), zeros) << "it booted";
  EXPECT_TRUE(co_await noded.snapshot_remove(one.id, 4, soon()));
  EXPECT_EQ(code_of(co_await noded.disk_restore(new_sandbox_id(), one.id, 4, soon())), "not_found");
}

// A VM that sees the disks of two snapshots of another sandbox.
inline Task<void> snapshot_disks(NodedClient& noded, std::string folder, std::string digest) {
  Subject one(noded, folder), other(noded, folder);
  EXPECT_TRUE(co_await noded.disk_create(one.id, digest, 512, soon()));
  EXPECT_TRUE(co_await noded.slot_create(one.id, soon()));
  EXPECT_EQ(co_await one.take_disk(1), "done");
  EXPECT_EQ(co_await one.launch(false), "done");
  co_await one.take(2, 0, "page");
  EXPECT_TRUE(co_await noded.slot_create(other.id, soon()));
  EXPECT_TRUE(co_await noded.disk_restore(other.id, one.id, 2, soon()));

  using Pair = DiskPair;
  const auto launch = [&](bool restore, std::optional<DiskPair> disks) {
    return other.launch(restore, contract_memory_mib, std::move(disks));
  };
  EXPECT_EQ(co_await launch(false, Pair{one.id, 1, 9}), "not_found");
  EXPECT_EQ(co_await launch(false, Pair{other.id, 1, 2}), "not_found") << "another one's";
  EXPECT_EQ(co_await launch(false, Pair{one.id, 1, 0}), "invalid_argument");
  EXPECT_EQ(co_await launch(true, Pair{one.id, 1, 2}), "invalid_argument") << "it was saved without";
  EXPECT_EQ(co_await launch(false, Pair{one.id, 1, 2}), "done");
  for (const std::uint64_t number : {1U, 2U})
    EXPECT_TRUE(co_await noded.snapshot_remove(one.id, number, soon())) << "whoever reads them";
  EXPECT_TRUE(co_await noded.vmm_open(other.id, soon())) << "it goes on";
  co_await other.end();
  EXPECT_TRUE(co_await noded.vmm_forget(other.id, soon()));
  EXPECT_EQ(co_await launch(false, Pair{one.id, 1, 2}), "not_found") << "removed";
}

// Goes on from a snapshot, which is removed meanwhile.
inline Task<void> restored(NodedClient& noded, std::string folder, std::string digest) {
  Subject one(noded, folder), other(noded, folder);
  EXPECT_TRUE(co_await noded.disk_create(one.id, digest, 512, soon()));
  EXPECT_TRUE(co_await noded.slot_create(one.id, soon()));
  EXPECT_EQ(co_await one.launch(false), "done");
  co_await one.take(1, 0, "page");

  EXPECT_TRUE(co_await noded.disk_restore(other.id, one.id, 1, soon()));
  EXPECT_TRUE(co_await noded.disk_restore(other.id, one.id, 1, soon())) << "said twice";
  EXPECT_TRUE(co_await noded.slot_create(other.id, soon()));
  EXPECT_EQ(co_await other.launch(true, 2 * contract_memory_mib), "invalid_argument") << "another size";
  EXPECT_EQ(co_await other.launch(true), "done");
  for (int round = 0; round < 2; ++round)
    EXPECT_EQ(code_of(co_await noded.snapshot_remove(one.id, 1, soon())), "done");
  EXPECT_EQ(code_of(co_await noded.snapshot_open(one.id, 1, soon())), "not_found");
  EXPECT_EQ(co_await one.count(), 0U);
  EXPECT_EQ(co_await other.begin(1, 0), "page") << "what the VM was launched with";

  co_await other.end();
  EXPECT_EQ(co_await other.launch(false), "conflict") << "its end is not forgotten";
  EXPECT_TRUE(co_await noded.vmm_forget(other.id, soon()));
  EXPECT_EQ(co_await other.launch(true), "not_found") << "the snapshot is gone";
  EXPECT_EQ(co_await other.launch(false), "done");
  EXPECT_EQ(co_await other.begin(1, 0), zeros) << "it booted";
  for (Subject* each : {&one, &other}) {
    co_await each->end();
    EXPECT_TRUE(co_await noded.vmm_forget(each->id, soon()));
    EXPECT_TRUE(co_await noded.snapshot_remove(each->id, 1, soon()));
    EXPECT_TRUE(co_await noded.slot_remove(each->id, soon()));
    EXPECT_TRUE(co_await noded.disk_remove(each->id, soon()));
  }
  auto held = co_await noded.list(soon());
  EXPECT_TRUE(held);
  if (held) EXPECT_FALSE(held->sandboxes.contains(one.id) || held->sandboxes.contains(other.id));
}

}  // namespace space::contract
