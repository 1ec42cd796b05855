// Snapshots through space-noded: begun, finished, opened, removed, and sandboxes made from them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/integration/noded_fixture.h"

namespace space::noded {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr off_t memory_bytes = 128 << 20;

std::string read_at(const Fd& fd, off_t at, std::size_t size) {
  std::string bytes(size, '?');
  const ssize_t got = ::pread(fd.get(), bytes.data(), size, at);
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return bytes;
}

bool write_at(const Fd& fd, off_t at, const std::string& bytes) {
  return ::pwrite(fd.get(), bytes.data(), bytes.size(), at) == static_cast<ssize_t>(bytes.size());
}

// A file as root finds it.
std::string read_path(const fs::path& path, std::size_t size) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return read_at(fd, 0, size);
}

void write_path(const fs::path& path, const std::string& bytes) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_TRUE(write_at(fd, 0, bytes)) << path;
}

struct stat status_of(const fs::path& path) {
  struct stat status{};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status;
}

class SnapshotTest : public NodedTest {
 protected:
  SnapshotTest() {
    // A copy, so that a test can put another in its place, as an upgrade of QEMU does.
    fs::copy_file(program_, root_ + "/vmm");
    program_ = root_ + "/vmm";
    ::chmod(root_.c_str(), 0755);
    start_noded();
    digest_ = make_image();
    EXPECT_TRUE(import(digest_).done());
  }

  fs::path disk_of(const std::string& id) const { return state_ + "/pool/sandboxes/" + id + "/disk.raw"; }
  fs::path snapshot(const std::string& id, int number) const {
    return state_ + "/pool/snapshots/" + id + "/" + std::to_string(number);
  }
  Got begin(const std::string& id, std::uint64_t number, std::uint64_t previous = 0) {
    return client().call(Verb::snapshot_begin, id, "", {number, previous});
  }
  Got on(Verb verb, const std::string& id, std::uint64_t number) {
    return client().call(verb, id, "", {number});
  }
  // One with this at the start of its memory.
  void take(const std::string& id, std::uint64_t number, std::uint64_t previous, const std::string& memory) {
    const Got begun = begin(id, number, previous);
    ASSERT_TRUE(begun.done()) << begun.message;
    ASSERT_EQ(begun.more.size(), 2U);
    EXPECT_TRUE(write_at(begun.fd, 0, memory));
    EXPECT_TRUE(write_at(begun.more[0], 0, "state of " + memory));
    EXPECT_TRUE(write_at(begun.more[1], 0, "manifest of " + memory));
    const Got finished = client().call(Verb::snapshot_finish, id, "", {number, 1});
    ASSERT_TRUE(finished.done()) << finished.message;
  }
  // One of the disk only; its folder.
  fs::path take_disk(const std::string& id, std::uint64_t number) {
    const Got begun = client().call(Verb::snapshot_begin, id, "", {number, 0, 1});
    EXPECT_TRUE(begun.done()) << begun.message;
    EXPECT_TRUE(begun.more.empty());
    EXPECT_TRUE(write_at(begun.fd, 0, "manifest of a disk"));
    EXPECT_TRUE(on(Verb::snapshot_finish, id, number).done());
    return snapshot(id, static_cast<int>(number));
  }
  static std::vector<std::string> files_in(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& file : fs::directory_iterator(folder)) names.push_back(file.path().filename());
    std::ranges::sort(names);
    return names;
  }
  std::vector<std::uint64_t> numbers_of(const std::string& id) {
    std::vector<std::uint64_t> numbers;
    for (const ListRecord& record : list())
      if (record.kind == Kind::snapshot && record.id == id) numbers.push_back(record.number);
    return numbers;
  }
  void end(const std::string& id) {
    EXPECT_TRUE(client().call(Verb::vmm_kill, id).done());
    EXPECT_TRUE(await_exit(id).done());
    EXPECT_TRUE(client().call(Verb::vmm_forget, id).done());
  }

  std::string digest_;
};

TEST_F(SnapshotTest, WholeLife) {
  const std::string id = make_sandbox(digest_);
  EXPECT_EQ(begin(id, 1).failed, Code::not_found) << "no VM runs";
  const Listeners listeners(root_, id);
  ASSERT_TRUE(launch(id, listeners).done());
  write_path(disk_of(id), "as it was");
  const Got dropped = begin(id, 1);
  ASSERT_TRUE(dropped.done()) << dropped.message;
  EXPECT_TRUE(write_at(dropped.fd, 0, "dropped"));
  const Got begun = begin(id, 1);
  ASSERT_TRUE(begun.done()) << begun.message;
  write_path(disk_of(id), "as it is ");

  EXPECT_EQ(read_at(begun.fd, 0, 7), std::string(7, '\0')) << "of the one before nothing is left";
  EXPECT_TRUE(write_at(begun.fd, 0, "memory"));
  EXPECT_TRUE(write_at(begun.more[0], 0, "state"));
  EXPECT_TRUE(write_at(begun.more[1], 0, "manifest"));
  EXPECT_EQ(numbers_of(id).size(), 0U);
  EXPECT_EQ(on(Verb::snapshot_open, id, 1).failed, Code::not_found);
  EXPECT_EQ(client().restore(new_sandbox_id(), id, 1).failed, Code::not_found);
  for (int round = 0; round < 2; ++round) EXPECT_TRUE(on(Verb::snapshot_finish, id, 1).done());
  EXPECT_THAT(numbers_of(id), testing::ElementsAre(1U));
  EXPECT_EQ(begin(id, 1).failed, Code::conflict);
  EXPECT_EQ(on(Verb::snapshot_finish, id, 2).failed, Code::not_found);

  const Got opened = on(Verb::snapshot_open, id, 1);
  ASSERT_TRUE(opened.done()) << opened.message;
  ASSERT_EQ(opened.more.size(), 3U);
  EXPECT_EQ(opened.values[0], 1U);
  EXPECT_EQ(read_at(opened.more[2], 0, 9), "as it was");
  EXPECT_EQ(::lseek(opened.fd.get(), 0, SEEK_END), memory_bytes);
  EXPECT_EQ(read_at(opened.fd, 0, 6), "memory");
  EXPECT_EQ(text_of(opened.more[0]), "state");
  EXPECT_EQ(text_of(opened.more[1]), "manifest");
  EXPECT_FALSE(write_at(opened.fd, 0, "x"));
  EXPECT_EQ(read_path(snapshot(id, 1) / "disk.raw", 9), "as it was");
  EXPECT_EQ(read_path(disk_of(id), 9), "as it is ");
  EXPECT_EQ(status_of(snapshot(id, 1) / "disk.raw").st_uid, 0U) << "its uid may be another's one day";
  EXPECT_EQ(status_of(snapshot(id, 1) / "mem.raw").st_mode & 07777, 0444U);
  EXPECT_EQ(::open((snapshot(id, 1) / "vmlinuz").c_str(), O_WRONLY), -1);
  EXPECT_EQ(errno, EROFS);

  take(id, 7, 0, "seven");
  for (int round = 0; round < 2; ++round) EXPECT_TRUE(on(Verb::snapshot_remove, id, 1).done());
  EXPECT_THAT(numbers_of(id), testing::ElementsAre(7U));
  ASSERT_TRUE(begin(id, 8).done());
  EXPECT_TRUE(fs::exists(state_ + "/pool/snapshots/" + id + "/.8"));
  for (const std::uint64_t number : {8U, 7U}) EXPECT_TRUE(on(Verb::snapshot_remove, id, number).done());
  EXPECT_TRUE(fs::is_empty(state_ + "/pool/snapshots"));
}

// What space-sandboxd does with the descriptors, under a uid that owns nothing.
TEST_F(SnapshotTest, ItsFilesAreWrittenWithoutAnyPower) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  ASSERT_TRUE(launch(id, listeners).done());
  const Got begun = begin(id, 1);
  ASSERT_TRUE(begun.done()) << begun.message;
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int memory = begun.fd.get();
    const std::string page(4096, 'p');
    bool right = ::setresgid(54321, 54321, 54321) == 0 && ::setresuid(54321, 54321, 54321) == 0;
    right = right && ::open(snapshot(id, 1).parent_path().c_str(), O_RDONLY) < 0;
    right = right && write_at(begun.fd, 4096, page) && read_at(begun.fd, 4096, 4096) == page;
    right = right && write_at(begun.more[0], 0, page) && write_at(begun.more[1], 0, page);
    right = right && ::fallocate(memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096) == 0;
    right = right && read_at(begun.fd, 4096, 4096) == std::string(4096, '\0');
    right = right && ::fdatasync(memory) == 0 && ::fdatasync(begun.more[0].get()) == 0;
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(SnapshotTest, EachStartsFromTheMemoryOfTheOneNamed) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  ASSERT_TRUE(launch(id, listeners).done());
  take(id, 1, 0, "first");
  const auto start_of = [&](std::uint64_t number, std::uint64_t previous) {
    const Got begun = begin(id, number, previous);
    EXPECT_TRUE(begun.done()) << begun.message;
    if (!begun.done()) return std::string();
    EXPECT_EQ(::lseek(begun.fd.get(), 0, SEEK_END), memory_bytes);
    EXPECT_EQ(text_of(begun.more[0]) + text_of(begun.more[1]), "");
    return read_at(begun.fd, 0, 6);
  };
  const std::string zeros(6, '\0');
  EXPECT_EQ(start_of(2, 1), std::string("first\0", 6));
  EXPECT_EQ(start_of(2, 0), zeros) << "the VM was launched with nothing";
  take(id, 2, 1, "second");
  EXPECT_EQ(start_of(3, 2), "second");
  EXPECT_EQ(start_of(3, 1), std::string("first\0", 6));
  EXPECT_EQ(begin(id, 3, 9).failed, Code::not_found);
  EXPECT_FALSE(fs::exists(state_ + "/pool/snapshots/" + id + "/.3"));
  // The same without what is kept beside the disk for the next one.
  ASSERT_TRUE(fs::remove(disk_of(id).parent_path() / "memory")) << "it is kept";
  EXPECT_EQ(start_of(3, 2), "second");
  ASSERT_TRUE(begin(id, 3, 2).done() && on(Verb::snapshot_finish, id, 3).done());
  EXPECT_FALSE(fs::exists(disk_of(id).parent_path() / "memory")) << "not asked for";
  EXPECT_EQ(read_path(snapshot(id, 2) / "mem.raw", 6), "second");
}

TEST_F(SnapshotTest, ASandboxGoesOnFromIt) {
  const std::string first = make_sandbox(digest_);
  const Listeners listeners(root_, first);
  ASSERT_TRUE(launch(first, listeners).done());
  EXPECT_EQ(listeners.command("memory"), std::string(16, '\0'));
  write_path(disk_of(first), "one");
  take(first, 1, 0, "memory of first!");
  write_path(disk_of(first), "two");
  EXPECT_EQ(client().restore(first, first, 1).failed, Code::conflict) << "its VM runs";

  const std::string id = new_sandbox_id();
  EXPECT_EQ(client().restore(id, first, 2).failed, Code::not_found);
  EXPECT_FALSE(lists(Kind::disk, id));
  const Got restored = client().restore(id, first, 1);
  ASSERT_TRUE(restored.done()) << restored.message;
  EXPECT_EQ(read_path(disk_of(id), 3), "one");
  const auto uid = restored.values[0];
  EXPECT_EQ(status_of(disk_of(id)).st_uid, uid);
  EXPECT_EQ(status_of(disk_of(id)).st_mode & 07777, 0600U);
  EXPECT_NE(uid, status_of(disk_of(first)).st_uid);
  EXPECT_FALSE(fs::exists(disk_of(id).parent_path() / "vmstate"));
  // Its own writes go when it is restored again, its uid stays.
  write_path(disk_of(id), "new");
  EXPECT_EQ(client().restore(id, first, 1).values[0], uid);
  EXPECT_EQ(read_path(disk_of(id), 3), "one");

  ASSERT_TRUE(client().call(Verb::slot_create, id).done());
  const Listeners own(root_, id);
  const Got other_size =
      client().call(Verb::vmm_launch, id, "", {1, 256, 0, 0, 0, 0, 1}, {own.qmp.get(), own.channel.get()});
  EXPECT_EQ(other_size.failed, Code::invalid_argument);
  EXPECT_THAT(other_size.message, HasSubstr("128 MiB"));
  const Got launched = launch(id, own, true);
  ASSERT_TRUE(launched.done()) << launched.message;
  EXPECT_EQ(own.command("memory"), "memory of first!");
  std::ifstream words("/proc/" + std::to_string(launched.values[0]) + "/cmdline");
  std::stringstream line;
  line << words.rdbuf();
  EXPECT_THAT(line.str(), HasSubstr("-incoming"));
  EXPECT_EQ(client().restore(id, first, 1).failed, Code::conflict);
}

TEST_F(SnapshotTest, OfTheDiskOnlyItHoldsTheDiskAndNothingOfTheMemory) {
  const std::string first = make_sandbox(digest_), id = new_sandbox_id();
  const Listeners listeners(root_, first), own(root_, id);
  EXPECT_EQ(client().call(Verb::snapshot_begin, new_sandbox_id(), "", {1, 0, 1}).failed, Code::not_found);
  write_path(disk_of(first), "rests");
  const std::vector<std::string> files{"disk.raw", "initramfs.img", "manifest.json", "vmlinuz"};
  EXPECT_EQ(files_in(take_disk(first, 1)), files);
  ASSERT_TRUE(launch(first, listeners).done());
  write_path(disk_of(first), "as it was");
  take(first, 2, 0, "memory of first!");
  ASSERT_TRUE(client().restore(id, first, 2).done() && client().call(Verb::slot_create, id).done());
  ASSERT_TRUE(launch(id, own, true).done());
  for (const char* kept : {"mem.raw", "memory", "origin"})
    EXPECT_TRUE(fs::exists(disk_of(id).parent_path() / kept)) << "or there is nothing to leave out";

  const fs::path made = take_disk(id, 1);
  write_path(disk_of(id), "as it is ");
  EXPECT_EQ(files_in(made), files);
  EXPECT_EQ(read_path(made / "disk.raw", 9), "as it was");
  EXPECT_EQ(status_of(made / "disk.raw").st_uid, 0U);
  EXPECT_EQ(::open((made / "disk.raw").c_str(), O_WRONLY), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(own.command("memory"), "memory of first!") << "the VM has it still";
  const Got begun = begin(id, 2);
  ASSERT_TRUE(begun.done()) << begun.message;
  EXPECT_EQ(read_at(begun.fd, 0, 16), "memory of first!");
  const Got opened = on(Verb::snapshot_open, id, 1);
  ASSERT_TRUE(opened.done()) << opened.message;
  ASSERT_EQ(opened.more.size(), 1U);
  EXPECT_EQ(opened.values[0], 0U);
  EXPECT_EQ(text_of(opened.fd), "manifest of a disk");
  EXPECT_EQ(read_at(opened.more[0], 0, 9), "as it was");

  end(id);
  ASSERT_TRUE(client().restore(id, first, 1).done());
  EXPECT_EQ(read_path(disk_of(id), 5), "rests");
  EXPECT_EQ(files_in(disk_of(id).parent_path()),
            (std::vector<std::string>{"disk.raw", "initramfs.img", "vmlinuz"}));
  EXPECT_EQ(launch(id, own, true).failed, Code::not_found);
  EXPECT_TRUE(launch(id, own).done());
}

TEST_F(SnapshotTest, ADiskNeedsNoVmm) {
  const std::string id = make_sandbox(digest_);
  take_disk(id, 1);
  const auto bundles = [&] {
    return std::distance(fs::directory_iterator(state_ + "/vmm"), fs::directory_iterator());
  };
  const std::string before = fs::directory_iterator(state_ + "/vmm")->path();
  EXPECT_EQ(stop_noded(SIGTERM), 0);
  std::ofstream(program_, std::ios::app) << "newer";
  start_noded();
  EXPECT_EQ(bundles(), 1) << "it keeps none";
  EXPECT_FALSE(fs::exists(before));
  EXPECT_THAT(numbers_of(id), testing::ElementsAre(1U));
}

// A crash between the two steps of a finish leaves a name on a writable one; the manager asks again.
TEST_F(SnapshotTest, AFinishThatIsSaidAgainIsWhole) {
  const std::string id = make_sandbox(digest_);
  const fs::path made = take_disk(id, 1);
  ASSERT_EQ(std::system(("btrfs property set " + made.string() + " ro false").c_str()), 0);
  const auto opens_for_writing = [&] { return Fd(::open((made / "vmlinuz").c_str(), O_WRONLY)); };
  EXPECT_TRUE(opens_for_writing());
  EXPECT_TRUE(on(Verb::snapshot_finish, id, 1).done());
  EXPECT_FALSE(opens_for_writing());
}

// Removing one costs the same with many there: nothing looks at the others.
TEST_F(SnapshotTest, OneOfAThousandIsRemoved) {
  const std::string id = make_sandbox(digest_);
  constexpr std::uint64_t count = 1000;
  const fs::path first = take_disk(id, 1), folder = first.parent_path();
  std::string copies;  // as space-noded makes them, without asking it a thousand times
  for (std::uint64_t number = 2; number <= count; ++number)
    copies += fmt::format("btrfs subvolume snapshot -r {} {}/{} >/dev/null\n", first.string(),
                          folder.string(), number);
  std::ofstream(root_ + "/copies.sh") << copies;
  ASSERT_EQ(std::system(("sh " + root_ + "/copies.sh").c_str()), 0);
  EXPECT_EQ(numbers_of(id).size(), count);
  for (std::uint64_t number = 500; number < 520; ++number)
    EXPECT_TRUE(on(Verb::snapshot_remove, id, number).done());
  EXPECT_EQ(numbers_of(id).size(), count - 20);
  EXPECT_TRUE(fs::exists(folder / "499") && !fs::exists(folder / "500") && fs::exists(folder / "520"));
  Client::print_times();
}

TEST_F(SnapshotTest, ASandboxOfATemplateGoesOnFromNothing) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  const Got refused = launch(id, listeners, true);
  EXPECT_EQ(refused.failed, Code::not_found);
  EXPECT_THAT(refused.message, HasSubstr("came from no snapshot"));
  EXPECT_FALSE(lists(Kind::vmm, id));
  EXPECT_TRUE(launch(id, listeners).done());
}

// A template may go while sandboxes that came from its checkpoint run.
TEST_F(SnapshotTest, ItsMemoryOutlivesItsRemoval) {
  const std::string first = make_sandbox(digest_), id = new_sandbox_id();
  const Listeners listeners(root_, first), own(root_, id);
  ASSERT_TRUE(launch(first, listeners).done());
  take(first, 1, 0, "memory of first!");
  ASSERT_TRUE(client().restore(id, first, 1).done());
  ASSERT_TRUE(client().call(Verb::slot_create, id).done());
  ASSERT_TRUE(launch(id, own, true).done());
  const Got held = on(Verb::snapshot_open, first, 1);
  ASSERT_TRUE(on(Verb::snapshot_remove, first, 1).done());
  EXPECT_FALSE(fs::exists(state_ + "/pool/snapshots/" + first));
  // Whatever the kernel's cleaner does, and without the page cache.
  ASSERT_EQ(std::system(("btrfs filesystem sync " + state_ + "/pool").c_str()), 0);
  std::ofstream("/proc/sys/vm/drop_caches") << "3";
  EXPECT_EQ(own.command("memory"), "memory of first!");
  EXPECT_EQ(read_at(held.fd, 0, 16), "memory of first!");
  // And it can be saved: what it was launched with is kept beside its disk.
  const Got begun = begin(id, 1);
  ASSERT_TRUE(begun.done()) << begun.message;
  EXPECT_EQ(read_at(begun.fd, 0, 16), "memory of first!");

  end(id);
  const Got gone = launch(id, own, true);
  EXPECT_EQ(gone.failed, Code::not_found);
  EXPECT_THAT(gone.message, HasSubstr("is gone"));
  EXPECT_TRUE(launch(id, own).done()) << "it boots";
  EXPECT_EQ(own.command("memory"), std::string(16, '\0'));
  const Got booted = begin(id, 1);
  ASSERT_TRUE(booted.done()) << booted.message;
  EXPECT_EQ(read_at(booted.fd, 0, 16), std::string(16, '\0'))
      << "launched with nothing, whatever the disk was";
}

TEST_F(SnapshotTest, ARestartRemovesUnfinishedOnes) {
  const std::string id = make_sandbox(digest_), other = make_sandbox(digest_);
  const Listeners listeners(root_, id), others(root_, other);
  ASSERT_TRUE(launch(id, listeners).done() && launch(other, others).done());
  take(id, 1, 0, "first");
  ASSERT_TRUE(begin(id, 2, 1).done());
  ASSERT_TRUE(begin(other, 1).done());
  EXPECT_EQ(stop_noded(SIGKILL) & 0x7f, SIGKILL);
  EXPECT_TRUE(fs::exists(state_ + "/pool/snapshots/" + id + "/.2"));
  start_noded();
  EXPECT_THAT(numbers_of(id), testing::ElementsAre(1U));
  EXPECT_FALSE(fs::exists(state_ + "/pool/snapshots/" + id + "/.2"));
  EXPECT_FALSE(fs::exists(state_ + "/pool/snapshots/" + other));
  EXPECT_EQ(on(Verb::snapshot_finish, id, 2).failed, Code::not_found);
  EXPECT_TRUE(begin(id, 2, 1).done());
}

// A VM that runs, and a snapshot, need the very QEMU they began with.
TEST_F(SnapshotTest, KeepsTheVmmThatASnapshotNeeds) {
  const auto bundles = [&] {
    return std::distance(fs::directory_iterator(state_ + "/vmm"), fs::directory_iterator());
  };
  const auto upgrade = [&] {
    EXPECT_EQ(stop_noded(SIGTERM), 0);
    std::ofstream(program_, std::ios::app) << "newer";
    start_noded();
  };
  const std::string first = make_sandbox(digest_), id = new_sandbox_id();
  const Listeners listeners(root_, first), own(root_, id);
  ASSERT_TRUE(launch(first, listeners).done());
  take(first, 1, 0, "first");
  upgrade();
  EXPECT_EQ(bundles(), 2) << "a VM runs and a snapshot is there";
  end(first);
  upgrade();
  EXPECT_EQ(bundles(), 2) << "nothing is left of the one between";
  ASSERT_TRUE(client().restore(id, first, 1).done());
  ASSERT_TRUE(client().call(Verb::slot_create, id).done());
  ASSERT_TRUE(launch(id, own, true).done());
  const std::string needed = read_path(snapshot(first, 1) / "vmm", 64);
  EXPECT_TRUE(fs::exists(state_ + "/vmm/" + needed));
  take(id, 1, 0, "second");
  EXPECT_EQ(read_path(snapshot(id, 1) / "vmm", 64), needed) << "saved by what it goes on with";
  ASSERT_TRUE(on(Verb::snapshot_remove, first, 1).done() && on(Verb::snapshot_remove, id, 1).done());
  upgrade();
  EXPECT_TRUE(fs::exists(state_ + "/vmm/" + needed)) << "a VM runs from it";
  end(id);
  upgrade();
  EXPECT_EQ(bundles(), 1);
}

TEST_F(SnapshotTest, AQemuThatIsGoneIsSaid) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  ASSERT_TRUE(launch(id, listeners).done());
  take(id, 1, 0, "first");
  end(id);
  ASSERT_TRUE(client().restore(id, id, 1).done());
  for (const auto& bundle : fs::directory_iterator(state_ + "/vmm"))
    fs::rename(bundle.path(), state_ + "/away");
  const Got gone = launch(id, listeners, true);
  EXPECT_EQ(gone.failed, Code::not_found);
  EXPECT_THAT(gone.message, HasSubstr("QEMU"));
  fs::rename(state_ + "/away", state_ + "/vmm/" + read_path(snapshot(id, 1) / "vmm", 64));
  EXPECT_TRUE(launch(id, listeners, true).done());
}

TEST_F(SnapshotTest, AFullPoolMakesNone) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  ASSERT_TRUE(launch(id, listeners).done());
  take(id, 1, 0, "first");
  ASSERT_TRUE(client().restore(new_sandbox_id(), id, 1).done());
  const std::string filler = state_ + "/pool/filler";
  {
    const Fd file(::open(filler.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    for (off_t at = 0; client().call(Verb::pool_info).values[0] > (64 << 20); at += 16 << 20)
      ASSERT_EQ(::fallocate(file.get(), 0, at, 16 << 20), 0);
  }
  EXPECT_EQ(begin(id, 2, 1).failed, Code::exhausted);
  EXPECT_EQ(client().restore(new_sandbox_id(), id, 1).failed, Code::exhausted);
  EXPECT_TRUE(on(Verb::snapshot_open, id, 1).done());
  EXPECT_TRUE(on(Verb::snapshot_remove, id, 1).done()) << "making room works always";
}

// How long a VM stands still for it: after each, pages all over the memory differ.
TEST_F(SnapshotTest, PrintsItsTimes) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  ASSERT_TRUE(launch(id, listeners).done());
  const std::string page(4096, 'p');
  constexpr std::uint64_t count = 20;
  for (std::uint64_t number = 1; number <= count; ++number) {
    const Got begun = begin(id, number, number - 1);
    ASSERT_TRUE(begun.done()) << begun.message;
    for (off_t at = static_cast<off_t>(number) * 4096; at < memory_bytes; at += 64 * 4096)
      ASSERT_TRUE(write_at(begun.fd, at, page));
    ::fdatasync(begun.fd.get());
    ASSERT_TRUE(client().call(Verb::snapshot_finish, id, "", {number, 1}).done());
    ASSERT_TRUE(on(Verb::snapshot_open, id, number).done());
    ASSERT_EQ(std::system(("btrfs filesystem sync " + state_ + "/pool").c_str()), 0);  // as after a while
    if (number > 1) ASSERT_TRUE(on(Verb::snapshot_remove, id, number - 1).done());
  }
  for (int i = 0; i < 20; ++i) {
    const std::string clone = new_sandbox_id();
    ASSERT_TRUE(client().restore(clone, id, count).done());
    ASSERT_TRUE(client().call(Verb::disk_remove, clone).done());
  }
  Client::print_times();
  EXPECT_THAT(numbers_of(id), testing::ElementsAre(count));
}

}  // namespace
}  // namespace space::noded
