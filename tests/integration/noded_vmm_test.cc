// Launching VMs through space-noded: a stand-in that tells what it sees, and QEMU itself.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/integration/noded_fixture.h"

namespace space::noded {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class VmmTest : public NodedTest {
 protected:
  VmmTest() {
    ::chmod(root_.c_str(), 0755);
    start_noded();
    digest_ = make_image();
    EXPECT_TRUE(import(digest_).done());
  }
  ~VmmTest() override { EXPECT_TRUE(noded_ > 0); }

  // The supervisor: the parent of the VM's process.
  static pid_t parent_of(std::uint64_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("PPid:")) return std::stoi(line.substr(5));
    return 0;
  }
  std::string log_of(const std::string& id) const {
    std::stringstream text;
    text << std::ifstream(run_ + "/noded/vm/" + id + "/log").rdbuf();
    return text.str();
  }

  std::string digest_;
};

TEST_F(VmmTest, SeesOnlyWhatItWasGiven) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  const Got launched = launch(id, listeners);
  ASSERT_TRUE(launched.done()) << launched.message;
  const std::string report = listeners.command("report");

  const auto uid = client().call(Verb::disk_create, id, digest_, {512}).values[0];
  EXPECT_THAT(report, HasSubstr(fmt::format("Uid:\t{0}\t{0}\t{0}\t{0}\nGid:\t{0}\t{0}\t{0}\t{0}\n", uid)));
  EXPECT_THAT(report, ContainsRegex("Groups:[ \t]*\n"));
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"})
    EXPECT_THAT(report, HasSubstr(std::string(set) + ":\t0000000000000000\n"));
  EXPECT_THAT(report, HasSubstr("NoNewPrivs:\t1\n"));
  EXPECT_THAT(report, ContainsRegex("Max core file size +0 +0"));
  EXPECT_THAT(report, ContainsRegex("Max open files +512 +512"));
  EXPECT_THAT(report, ContainsRegex("Max file size +603979776 "));
  EXPECT_THAT(report, HasSubstr("environment LC_ALL=C\n"));
  EXPECT_THAT(report, Not(ContainsRegex("environment [^L]")));
  EXPECT_THAT(report, HasSubstr("session supervisor's\n"));
  EXPECT_THAT(report, Not(HasSubstr("tap0"))) << "the tap's namespace is another one";
  for (const char* space : {"net", "ipc", "uts"})
    EXPECT_THAT(
        report,
        Not(HasSubstr("namespace " +
                      std::filesystem::read_symlink(std::string("/proc/self/ns/") + space).string())));
  const std::string sandbox = "/pool/sandboxes/" + id;
  EXPECT_THAT(report, HasSubstr("fd 0 /dev/null\n"));
  EXPECT_THAT(report, ContainsRegex(
                          "fd 1 pipe:.*\nfd 2 pipe:.*\nfd 3 socket:.*\nfd 4 socket:.*\nfd 5 /dev/net/tun\n"));
  EXPECT_THAT(report, HasSubstr("fd 6 " + state_ + sandbox + "/disk.raw\nfd 7 " + state_ +
                                "/pool/zero/128.raw\nfd 8 " + state_ + sandbox + "/vmlinuz\nfd 9 " + state_ +
                                sandbox + "/initramfs.img\nfd 10 socket"));
  EXPECT_THAT(report, Not(HasSubstr("fd 11"))) << "10 is the connection it answers on";
  EXPECT_THAT(report, HasSubstr("/space/" + run_.substr(1, 3) + "+"));
  EXPECT_TRUE(await([&] { return log_of(id) == "started\n"; })) << log_of(id);
}

TEST_F(VmmTest, LaunchIsIdempotentAndProtectsWhatItUses) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  const Got first = launch(id, listeners), second = launch(id, listeners);
  ASSERT_TRUE(first.done() && second.done()) << first.message << second.message;
  EXPECT_EQ(first.values[0], second.values[0]);
  EXPECT_EQ(client().call(Verb::vmm_open, id).values[0], first.values[0]);
  EXPECT_TRUE(lists(Kind::vmm, id));
  EXPECT_EQ(client().call(Verb::disk_remove, id).failed, Code::conflict);
  EXPECT_EQ(client().call(Verb::slot_remove, id).failed, Code::conflict);
  EXPECT_EQ(client().call(Verb::vmm_forget, id).failed, Code::conflict);
  EXPECT_EQ(client().call(Verb::vmm_exit, id).failed, Code::not_found);

  for (int round = 0; round < 2; ++round) EXPECT_TRUE(client().call(Verb::vmm_kill, id).done());
  EXPECT_TRUE(ends(first.fd));
  ASSERT_TRUE(await_exit(id).done());
  EXPECT_TRUE(lists(Kind::vmm_exited, id));
  EXPECT_EQ(client().call(Verb::vmm_open, id).failed, Code::not_found);
  EXPECT_EQ(launch(id, listeners).failed, Code::conflict);
  forget_all(id);
  forget_all(id);
}

TEST_F(VmmTest, LaunchNeedsDiskSlotAndListeners) {
  const std::string id = new_sandbox_id();
  const Listeners listeners(root_, id);
  EXPECT_EQ(launch(id, listeners).failed, Code::not_found);
  ASSERT_TRUE(client().call(Verb::disk_create, id, digest_, {512}).done());
  const Got no_slot = launch(id, listeners);
  EXPECT_EQ(no_slot.failed, Code::not_found);
  EXPECT_THAT(no_slot.message, HasSubstr("slot"));
  ASSERT_TRUE(client().call(Verb::slot_create, id).done());
  const Fd null(::open("/dev/null", O_RDWR));
  const Got no_sockets = client().call(Verb::vmm_launch, id, "", {1, 128, 0, 0}, {null.get(), null.get()});
  EXPECT_EQ(no_sockets.failed, Code::invalid_argument);
  EXPECT_EQ(list().size(), 3U) << "template, disk and slot: the failed launches left nothing";
  EXPECT_TRUE(launch(id, listeners).done());
}

TEST_F(VmmTest, TheCauseOfEveryEndIsTold) {
  const auto end_by = [&](const std::function<void(const Listeners&, const Got&)>& act) {
    const std::string id = make_sandbox(digest_);
    const Listeners listeners(root_, id);
    const Got launched = launch(id, listeners);
    EXPECT_TRUE(launched.done()) << launched.message;
    act(listeners, launched);
    EXPECT_TRUE(ends(launched.fd));
    const Got exit = await_exit(id);
    EXPECT_TRUE(exit.done()) << exit.message;
    EXPECT_EQ(exit.values[exit_known], 1U);
    forget_all(id);
    return exit.values;
  };
  const auto exited = end_by([](const Listeners& vmm, const Got&) { vmm.command("exit"); });
  EXPECT_EQ(exited[exit_status], 7U);
  EXPECT_EQ(exited[exit_signal], 0U);
  const auto killed =
      end_by([](const Listeners&, const Got& vmm) { ::kill(static_cast<pid_t>(vmm.values[0]), SIGSEGV); });
  EXPECT_EQ(killed[exit_signal], static_cast<unsigned>(SIGSEGV));
  EXPECT_EQ(killed[exit_oom], 0U);
  const auto starved = end_by([](const Listeners& vmm, const Got&) { vmm.command("eat"); });
  EXPECT_EQ(starved[exit_signal], static_cast<unsigned>(SIGKILL));
  EXPECT_EQ(starved[exit_oom], 1U);
}

TEST_F(VmmTest, KillReachesChildrenOfAnotherSession) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  const Got launched = launch(id, listeners);
  ASSERT_TRUE(launched.done()) << launched.message;
  const std::string before = leak_table();
  EXPECT_EQ(listeners.command("fork"), "done\n");
  EXPECT_NE(leak_table(), before);
  ASSERT_TRUE(client().call(Verb::vmm_kill, id).done());
  EXPECT_TRUE(ends(launched.fd));
  EXPECT_EQ(await_exit(id).values[exit_signal], static_cast<unsigned>(SIGKILL));
  forget_all(id);
  const auto nothing_left = HasSubstr("processes 0, under sandbox uids 0, slots 0");
  EXPECT_TRUE(await([&] { return testing::Value(leak_table(), nothing_left); })) << leak_table();
}

TEST_F(VmmTest, OutputIsBoundedAndNeverStopsTheVm) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  ASSERT_TRUE(launch(id, listeners).done());
  EXPECT_EQ(listeners.command("flood"), "done\n");
  EXPECT_TRUE(await([&] { return log_of(id).size() == 64 << 10; }));
  EXPECT_EQ(listeners.command("close"), "done\n");
  listeners.command("exit");
  EXPECT_EQ(await_exit(id).values[exit_status], 7U);
}

// What `space down --all` asks for: a VM that no other daemon knew of any more goes too.
TEST_F(VmmTest, UnmountKillsWhatRunsWhenTold) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  const Got launched = launch(id, listeners);
  ASSERT_TRUE(launched.done()) << launched.message;
  EXPECT_EQ(stop_noded(SIGTERM), 0);
  EXPECT_EQ(run_noded({"--kill-vms"}), 1) << "it belongs to --unmount-pool";
  EXPECT_EQ(run_noded({"--unmount-pool"}), 1) << "a VM runs";
  EXPECT_EQ(run_noded({"--unmount-pool", "--kill-vms"}), 0);
  EXPECT_TRUE(ends(launched.fd));
  start_noded();
  for (const ListRecord& record : list()) EXPECT_NE(record.kind, Kind::vmm);
  forget_all(id);
}

TEST_F(VmmTest, OutlivesTheNodeManager) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  const Got launched = launch(id, listeners);
  ASSERT_TRUE(launched.done()) << launched.message;
  for (const int signal : {SIGKILL, SIGTERM, SIGKILL}) {
    stop_noded(signal);
    EXPECT_EQ(listeners.command("anything"), "done\n");
    EXPECT_EQ(run_noded({"--unmount-pool"}), 1) << "a VM runs";
    start_noded();
    const Got found = client().call(Verb::vmm_open, id);
    ASSERT_TRUE(found.done()) << found.message;
    EXPECT_EQ(found.values[0], launched.values[0]);
  }
  // An end while nobody serves is told by the next one that does.
  stop_noded(SIGKILL);
  listeners.command("exit");
  EXPECT_TRUE(ends(launched.fd));
  start_noded();
  const Got exit = await_exit(id);
  EXPECT_EQ(exit.values[exit_known], 1U);
  EXPECT_EQ(exit.values[exit_status], 7U);
  forget_all(id);
}

TEST_F(VmmTest, OutlivesItsSupervisor) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  const Got launched = launch(id, listeners);
  ASSERT_TRUE(launched.done()) << launched.message;
  ASSERT_EQ(::kill(parent_of(launched.values[0]), SIGKILL), 0);
  ASSERT_TRUE(await([&] { return parent_of(launched.values[0]) == noded_; }))
      << "noded reaps what loses its parent";
  EXPECT_EQ(listeners.command("anything"), "done\n");
  EXPECT_EQ(client().call(Verb::vmm_open, id).values[0], launched.values[0]);
  listeners.command("flood");  // nobody reads its output any more
  listeners.command("exit");
  EXPECT_TRUE(ends(launched.fd));
  const Got exit = await_exit(id);
  EXPECT_EQ(exit.values[exit_known], 0U);
  EXPECT_EQ(exit.values[exit_status], 0U);
  forget_all(id);
}

TEST_F(VmmTest, ManyLivesLeakNothing) {
  const auto live = [&] {
    const std::string id = make_sandbox(digest_);
    const Listeners listeners(root_, id);
    const Got launched = launch(id, listeners);
    ASSERT_TRUE(launched.done()) << launched.message;
    ASSERT_TRUE(client().call(Verb::vmm_kill, id).done());
    ASSERT_TRUE(await_exit(id).done());
    forget_all(id);
  };
  live();
  ASSERT_TRUE(await([&] { return leak_table().starts_with("processes 0,"); })) << leak_table();
  const std::string before = leak_table();
  for (int i = 0; i < 20; ++i) live();
  EXPECT_TRUE(await([&] { return leak_table() == before; })) << before << "\n" << leak_table();
}

// 16-bit code that halts, behind the header of a Linux kernel image.
std::string halting_kernel() {
  std::string image(64 << 10, '\0');
  image[0x1f1] = 4;  // sectors of set-up code
  image.replace(0x1fe, 2, "\x55\xaa");
  image.replace(0x200, 5, "\xfa\xf4\xeb\xfd\x90");  // cli; hlt; back to hlt. Linux has a jump here
  image.replace(0x202, 4, "HdrS");
  image.replace(0x200, 2, "\xeb\x66");  // jump over the header to 0x268
  image.replace(0x268, 4, "\xfa\xf4\xeb\xfd");
  image[0x206] = 0x0c, image[0x207] = 0x02;     // protocol 2.12
  image[0x211] = 0x01;                          // loaded high
  image.replace(0x22c, 4, "\xff\xff\xff\x7f");  // highest address of an initramfs
  return image;
}

class QemuTest : public NodedTest {
 protected:
  QemuTest() {
    program_ = "/usr/bin/qemu-system-x86_64";
    ::chmod(root_.c_str(), 0755);
    start_noded();
  }
  static std::string read_line(const Fd& fd) {
    std::string line;
    for (char c = 0; c != '\n' && ::read(fd.get(), &c, 1) == 1;) line += c;
    return line;
  }
};

TEST_F(QemuTest, RunsSurvivesAndQuits) {
  const std::string digest = make_image(halting_kernel());
  ASSERT_TRUE(import(digest).done());
  const std::string id = make_sandbox(digest);
  const Listeners listeners(root_, id);
  const Got launched = launch(id, listeners);
  ASSERT_TRUE(launched.done()) << launched.message;
  EXPECT_EQ(stop_noded(SIGKILL) & 0x7f, SIGKILL);
  start_noded();

  const Fd qmp = listeners.connect_qmp();
  ASSERT_THAT(read_line(qmp), HasSubstr("\"QMP\""));
  const auto execute = [&](const std::string& command) {
    const std::string text = "{\"execute\":\"" + command + "\"}\n";
    (void)!::write(qmp.get(), text.data(), text.size());
    return read_line(qmp);
  };
  EXPECT_THAT(execute("qmp_capabilities"), HasSubstr("return"));
  EXPECT_THAT(execute("query-status"), HasSubstr("\"running\""));
  execute("quit");
  EXPECT_TRUE(ends(launched.fd));
  const Got exit = await_exit(id);
  EXPECT_EQ(exit.values[exit_known], 1U);
  EXPECT_EQ(exit.values[exit_signal], 0U);
  EXPECT_EQ(exit.values[exit_status], 0U);
  forget_all(id);
}

TEST_F(QemuTest, AKernelThatIsNoneIsAnExitWithAReason) {
  const std::string digest = make_image();
  ASSERT_TRUE(import(digest).done());
  const std::string id = make_sandbox(digest);
  const Listeners listeners(root_, id);
  const Got launched = launch(id, listeners);
  ASSERT_TRUE(launched.done()) << launched.message;
  EXPECT_TRUE(ends(launched.fd));
  EXPECT_EQ(await_exit(id).values[exit_status], 1U);
  std::stringstream log;
  log << std::ifstream(run_ + "/noded/vm/" + id + "/log").rdbuf();
  EXPECT_THAT(log.str(), HasSubstr("kernel"));
  forget_all(id);
}

}  // namespace
}  // namespace space::noded
