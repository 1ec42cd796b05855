// What a VMM that a guest has taken over can reach of another sandbox, of the broker, the API and the
// network: launched by the real space-noded, in the real jail, with a neighbour beside it.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/integration/noded_fixture.h"

namespace space::noded {
namespace {

namespace fs = std::filesystem;

class EvilVmm : public NodedTest {
 protected:
  EvilVmm() {
    program_ = path_of("jail/evil_vmm");
    ::chmod(root_.c_str(), 0755);
    start_noded();
    digest_ = make_image();
    EXPECT_TRUE(import(digest_).done());
    victim_ = start_vm(victim_listeners_, victim_pid_);
    EXPECT_EQ(victim_listeners_->command("put the-canary"), "ok");
    begin();
  }

  std::string start_vm(std::optional<Listeners>& listeners, std::uint64_t& pid) {
    const std::string id = make_sandbox(digest_);
    listeners.emplace(root_, id);
    const Got launched = launch(id, *listeners);
    EXPECT_TRUE(launched.done()) << launched.message;
    pid = launched.values[0];
    return id;
  }
  void begin() { evil_ = start_vm(listeners_, pid_); }
  std::string evil(const std::string& command) const { return listeners_->command(command); }
  std::string evil_row(const std::string& row) const {
    return evil(row + " outside=" + std::to_string(victim_pid_));
  }
  // What kills it kills it at once, by the signal of a forbidden call; the next attempt needs another.
  void expect_death(const std::string& row) {
    EXPECT_EQ(evil_row("row " + row), "") << row;
    const Got exit = await_exit(evil_);
    EXPECT_TRUE(exit.done()) << row;
    EXPECT_EQ(exit.values[exit_signal], std::uint64_t{SIGSYS}) << row;
    forget_all(evil_);
    begin();
  }
  std::string disk_of(const std::string& id) const { return state_ + "/pool/sandboxes/" + id + "/disk.raw"; }
  std::string base() const { return state_ + "/pool/zero/128.raw"; }

  // The neighbour is where it was, with what it had.
  void expect_victim_unharmed() {
    std::string start(10, '\0');
    std::ifstream(disk_of(victim_)).read(start.data(), 10);
    EXPECT_EQ(start, "the-canary");
    EXPECT_EQ(client().call(Verb::vmm_open, victim_).values[0], victim_pid_);
    EXPECT_EQ(victim_listeners_->command("hunt the-canary"), "1");
  }

  std::string digest_, victim_, evil_;
  std::optional<Listeners> victim_listeners_, listeners_;
  std::uint64_t victim_pid_ = 0, pid_ = 0;
};

TEST_F(EvilVmm, FindsNothingOfANeighboursDisk) {
  EXPECT_EQ(evil("put its-own"), "ok");
  EXPECT_EQ(evil("hunt its-own"), "1") << "it would find what there is";
  EXPECT_EQ(evil("hunt the-canary"), "0");
  for (const std::string& path : {disk_of(victim_), state_ + "/pool", state_, std::string("/dev/loop0")}) {
    EXPECT_EQ(::access(path.c_str(), F_OK), 0) << path << " is not there for anybody";
    EXPECT_EQ(evil("open " + path), "ENOENT") << path;
  }
  EXPECT_EQ(evil("row beside_disk"), "ENOTDIR");
  EXPECT_EQ(evil("row reopen_by_proc"), "ENOENT");
  for (const char* row : {"open_by_handle_at", "link_disk", "disk_clone_range", "disk_tree_search"})
    expect_death(row);
  expect_victim_unharmed();
}

TEST_F(EvilVmm, ReachesNoMemoryOfANeighbour) {
  const std::string process = "/proc/" + std::to_string(victim_pid_);
  for (const char* file : {"/mem", "/maps", "/environ", "/fd/6", "/root/memory"}) {
    EXPECT_EQ(::access((process + file).c_str(), F_OK), 0) << file << " is not there for anybody";
    EXPECT_EQ(evil("open " + process + file), "ENOENT") << file;
  }
  EXPECT_EQ(evil_row("row limits_of_outside"), "ESRCH");
  EXPECT_EQ(evil_row("row tgkill_outside"), "ESRCH");
  EXPECT_EQ(evil_row("row setown_outside"), "ESRCH");
  for (const char* row : {"ptrace_outside", "process_vm_readv", "process_vm_writev", "pidfd_open",
                          "pidfd_getfd", "kcmp", "kill_outside", "kill_all"})
    expect_death(row);
  expect_victim_unharmed();
}

TEST_F(EvilVmm, CannotChangeTheSharedMemoryBase) {
  struct stat before{}, after{};
  ASSERT_EQ(::stat(base().c_str(), &before), 0);
  EXPECT_EQ(evil("row read_memory"), "ok") << "it is there";
  EXPECT_EQ(evil("open " + base()), "ENOENT");
  const std::pair<const char*, const char*> refused[] = {
      {"write_memory", "EACCES"},          {"truncate_memory", "EROFS"},  {"map_memory_shared", "EACCES"},
      {"protect_memory_shared", "EACCES"}, {"punch_memory", "EBADF"},     {"map_memory_as_code", "EPERM"},
      {"write_kernel", "EACCES"},          {"write_initramfs", "EACCES"}, {"unlink", "EROFS"}};
  for (const auto& [row, how] : refused) EXPECT_EQ(evil(std::string("row ") + row), how) << row;
  for (const char* row : {"remount_root", "mount_setattr", "chmod", "truncate", "rename"}) expect_death(row);
  ASSERT_EQ(::stat(base().c_str(), &after), 0);
  EXPECT_EQ(after.st_blocks, before.st_blocks);
  EXPECT_EQ(after.st_size, before.st_size);
  EXPECT_EQ(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
  expect_victim_unharmed();
}

TEST_F(EvilVmm, ReachesNoSocketOfTheHost) {
  const std::string broker = run_ + "/noded/noded.sock";
  EXPECT_TRUE(client().connected()) << "the broker can be reached at all";
  for (const std::string& socket : {broker, victim_listeners_->qmp_path, root_ + "/" + victim_ + ".c"}) {
    EXPECT_EQ(::access(socket.c_str(), F_OK), 0) << socket;
    EXPECT_EQ(evil("open " + socket), "ENOENT") << socket;
    EXPECT_EQ(evil("connect " + socket), "EACCES") << socket;
  }
  for (const char* row : {"connect_loopback", "connect_abstract", "socket_inet", "socket_inet6",
                          "socket_netlink", "socket_packet", "socket_vsock", "bind"})
    EXPECT_EQ(evil(std::string("row ") + row), "EACCES") << row;
  for (const char* row : {"socketpair", "ioctl_interfaces", "ioctl_network_namespace"}) expect_death(row);
  expect_victim_unharmed();
}

TEST_F(EvilVmm, SeesNoControlGroup) {
  std::ifstream own("/proc/" + std::to_string(pid_) + "/cgroup");
  std::stringstream text;
  text << own.rdbuf();
  EXPECT_THAT(text.str(), testing::HasSubstr(evil_)) << "it is in one";
  for (const char* path : {"/sys/fs/cgroup", "/proc/self/cgroup", "/proc/1/cgroup"})
    EXPECT_EQ(evil(std::string("open ") + path), "ENOENT") << path;
  EXPECT_EQ(evil("write /sys/fs/cgroup/cgroup.procs"), "ENOENT");
  expect_death("unshare_newcgroup");
}

// Every frame on every interface of a network namespace.
class Listening {
 public:
  explicit Listening(const std::string& space) {
    const Fd own(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)),
        other(::open(space.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::setns(other.get(), CLONE_NEWNET), 0) << space;
    fd_.reset(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_ALL)));
    EXPECT_EQ(::setns(own.get(), CLONE_NEWNET), 0);
  }
  bool hears(const std::string& text) {
    char frame[2048];
    for (ssize_t got = 0; (got = ::recv(fd_.get(), frame, sizeof frame, 0)) > 0;)
      heard_ |= ::memmem(frame, static_cast<std::size_t>(got), text.data(), text.size()) != nullptr;
    return heard_;
  }

 private:
  Fd fd_;
  bool heard_ = false;
};

TEST_F(EvilVmm, ItsFramesReachItsOwnSlotOnly) {
  Listening own(run_ + "/noded/netns/" + evil_), victims(run_ + "/noded/netns/" + victim_),
      host("/proc/self/ns/net");
  EXPECT_EQ(evil("frame from-evil"), "ok");
  EXPECT_TRUE(await([&] { return own.hears("from-evil"); }));
  EXPECT_FALSE(victims.hears("from-evil"));
  EXPECT_FALSE(host.hears("from-evil"));
  EXPECT_EQ(victim_listeners_->command("frame from-victim"), "ok");
  EXPECT_TRUE(await([&] { return victims.hears("from-victim"); })) << "there it could have been heard";
  for (const char* row : {"tap_other_interface", "tap_namespace", "tap_queue", "tap_owner"})
    expect_death(row);
}

TEST_F(EvilVmm, PlantsNothingAnywhere) {
  const auto made = [&] {
    std::size_t count = 0;
    for (const auto& entry :
         fs::recursive_directory_iterator(root_, fs::directory_options::skip_permission_denied))
      count += entry.path().filename() == "probe-was-here";
    return count;
  };
  std::ofstream(root_ + "/probe-was-here");
  EXPECT_EQ(made(), 1U) << "it would be seen";
  EXPECT_EQ(evil("row create_anywhere"), "EROFS");
  EXPECT_EQ(evil("row temporary_in_root"), "EROFS");
  for (const char* folder : {"/", "/usr/", "/usr/share/", "/lib64/"})
    EXPECT_THAT(evil(std::string("write ") + folder + "probe-was-here"), testing::AnyOf("EROFS", "ENOENT"))
        << folder;
  for (const char* row : {"symlink", "link", "mknod_device", "mknod_pipe", "mkdir"}) expect_death(row);
  EXPECT_EQ(made(), 1U);
}

TEST_F(EvilVmm, RunsNoProgramOfItsOwn) {
  EXPECT_EQ(evil("row map_writable_code"), "ok") << "known: TCG could not do without";
  EXPECT_EQ(evil("row exec_memory_file"), "ENOSYS");
  EXPECT_EQ(evil("row exec_disk"), "EACCES");
  EXPECT_EQ(evil("row execve_shell"), "EPERM");
  expect_death("exec_disk_made_executable");
  expect_death("execveat_path");
}

}  // namespace
}  // namespace space::noded
