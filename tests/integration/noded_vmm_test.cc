// Launching VMs through space-noded: a stand-in that tells what it sees, and QEMU itself.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
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
  static std::string content_of(const std::filesystem::path& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  std::string digest_;
};

TEST_F(VmmTest, SeesOnlyWhatItWasGiven) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  const Got launched = launch_started(id, listeners);
  ASSERT_TRUE(launched.done()) << launched.message;
  EXPECT_EQ(listeners.command("report"),
            "environment LC_ALL=C\n/ is there\n/proc is not there\n/etc is not there\n/memory is there\n"
            "/kernel is there\n/vmm is there\nhost vmm\n");
  const std::filesystem::path process = "/proc/" + std::to_string(launched.values[0]);
  const std::string limits = content_of(process / "limits"), status = content_of(process / "status");
  const auto uid = client().call(Verb::disk_create, id, digest_, {512}).values[0];
  EXPECT_THAT(status, HasSubstr(fmt::format("Uid:\t{0}\t{0}\t{0}\t{0}\nGid:\t{0}\t{0}\t{0}\t{0}\n", uid)));
  EXPECT_THAT(limits, ContainsRegex("Max core file size +0 +0"));
  EXPECT_THAT(limits, ContainsRegex("Max open files +512 +512"));
  EXPECT_THAT(limits, ContainsRegex("Max file size +603979776 "));
  EXPECT_THAT(content_of(process / "net/dev"), Not(HasSubstr("tap0")))
      << "the tap's namespace is another one";
  EXPECT_THAT(content_of(process / "cgroup"), HasSubstr("/space/" + run_.substr(1, 3) + "+"));

  const auto target = [&](int fd) {
    std::error_code none;
    return std::filesystem::read_symlink(process / "fd" / std::to_string(fd), none).string();
  };
  EXPECT_EQ(target(0), "/dev/null");
  EXPECT_THAT(target(1) + target(2) + target(3) + target(4),
              ContainsRegex("^pipe:.*pipe:.*socket:.*socket:[^:]*$"));
  EXPECT_EQ(target(5), "/dev/net/tun");
  EXPECT_EQ(target(6), state_ + "/pool/sandboxes/" + id + "/disk.raw");
  EXPECT_EQ(target(7), "") << "the program's was closed at exec";
}

// Two more descriptors, of copies that nobody else sees, and nothing else.
TEST_F(VmmTest, DisksOfSnapshotsAreSeenAndNeverWritten) {
  const std::string source = make_sandbox(digest_), id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  for (const std::uint64_t number : {1U, 2U}) {
    ASSERT_TRUE(client().call(Verb::snapshot_begin, source, "", {number, 0, 1}).done());
    ASSERT_TRUE(client().call(Verb::snapshot_finish, source, "", {number, 0}).done());
  }
  Request request = Client::request(Verb::vmm_launch, id, "", {1, 128, 0, 0, 0, 0, 0, 0, 1, 2});
  source.copy(request.source, sizeof request.source);
  Client asking = client();
  asking.send(request, {listeners.qmp.get(), listeners.channel.get()});
  const Got launched = asking.receive();
  ASSERT_TRUE(launched.done()) << launched.message;
  ASSERT_EQ(listeners.command("anything"), "done\n") << "it has started";
  const std::filesystem::path process = "/proc/" + std::to_string(launched.values[0]);
  const auto target = [&](int fd) {
    std::error_code none;
    return std::filesystem::read_symlink(process / "fd" / std::to_string(fd), none).string();
  };
  const auto access = [&](int fd) {
    const std::string text = content_of(process / "fdinfo" / std::to_string(fd));
    return std::stoi(text.substr(text.find("flags:") + 6), nullptr, 8) & O_ACCMODE;
  };
  EXPECT_EQ(target(6), state_ + "/pool/sandboxes/" + id + "/disk.raw");
  EXPECT_EQ(access(6), O_RDWR);
  for (const int number : {1, 2}) {
    EXPECT_THAT(target(6 + number), HasSubstr("/pool/sandboxes/" + id + "/#"));
    EXPECT_THAT(target(6 + number), HasSubstr(" (deleted)"));
    EXPECT_EQ(access(6 + number), O_RDWR);
    const std::string kept =
        state_ + "/pool/snapshots/" + source + "/" + std::to_string(number) + "/disk.raw";
    const Fd copy = open_fd(process / "fd" / std::to_string(6 + number), O_RDWR).value();
    const Fd original = open_fd(kept, O_RDONLY).value();
    const auto first_byte = [](const Fd& file) {
      char byte = 0;
      EXPECT_EQ(::pread(file.get(), &byte, 1, 0), 1);
      return byte;
    };
    const char before = first_byte(original);
    EXPECT_EQ(first_byte(copy), before);
    const char other = static_cast<char>(before + 1);
    EXPECT_EQ(::pwrite(copy.get(), &other, 1, 0), 1);
    EXPECT_EQ(first_byte(copy), other);
    EXPECT_EQ(first_byte(original), before);
  }
  EXPECT_EQ(target(9), "") << "no other";
  EXPECT_THAT(content_of(process / "cmdline"), HasSubstr("serial=third"));
  const Got isolation = client().call(Verb::vmm_isolation, id);
  ASSERT_TRUE(isolation.done()) << isolation.message;
  EXPECT_THAT(text_of(isolation.fd), HasSubstr("9 open, each of a known kind"));
}

// QEMU's own filter is missing here, and only that.
TEST_F(VmmTest, TheReportNamesEveryLayerAndWhatIsMissing) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  EXPECT_EQ(client().call(Verb::vmm_isolation, id).failed, Code::not_found) << "nothing runs yet";
  ASSERT_TRUE(launch_started(id, listeners).done());
  const Got got = client().call(Verb::vmm_isolation, id);
  ASSERT_TRUE(got.done()) << got.message;
  const std::string bytes = text_of(got.fd);
  std::map<std::string, std::pair<LayerState, std::string>> layers;
  for (std::size_t at = 0; at + sizeof(IsolationRecord) <= bytes.size(); at += sizeof(IsolationRecord)) {
    IsolationRecord record;
    std::memcpy(&record, bytes.data() + at, sizeof record);
    layers[record.layer] = {record.state, record.detail};
  }
  EXPECT_EQ(layers.size(), 13U);
  for (const auto& [layer, reading] : layers)
    EXPECT_EQ(reading.first, layer == "qemu sandbox" ? LayerState::off : LayerState::active)
        << layer << ": " << reading.second;
}

TEST_F(VmmTest, ItsMemoryIsForReadingAndOfThisSandboxOnly) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  EXPECT_EQ(client().call(Verb::vmm_open_memory, id).failed, Code::not_found) << "nothing runs yet";
  const Got launched = launch_started(id, listeners);
  ASSERT_TRUE(launched.done());
  const Got got = client().call(Verb::vmm_open_memory, id);
  ASSERT_TRUE(got.done()) << got.message;
  ASSERT_EQ(got.more.size(), 2U);
  const std::string maps = text_of(got.more[0]);
  EXPECT_EQ(maps, content_of("/proc/" + std::to_string(launched.values[0]) + "/maps"));
  const auto stack = maps.rfind('\n', maps.find("[stack]"));
  const auto address = static_cast<off_t>(std::stoull(maps.substr(stack + 1), nullptr, 16));
  char page[4096];
  EXPECT_EQ(::pread(got.fd.get(), page, sizeof page, address), static_cast<ssize_t>(sizeof page));
  EXPECT_EQ(::pwrite(got.fd.get(), page, sizeof page, address), -1);
  EXPECT_EQ(errno, EBADF);
  std::uint64_t entry = 0;
  EXPECT_EQ(::pread(got.more[1].get(), &entry, sizeof entry, address / 4096 * 8), 8);
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
  const auto crashed = end_by([](const Listeners& vmm, const Got&) { vmm.command("crash"); });
  EXPECT_EQ(crashed[exit_signal], static_cast<unsigned>(SIGSEGV));
  EXPECT_EQ(crashed[exit_oom], 0U);
  const auto killed =
      end_by([](const Listeners&, const Got& vmm) { ::kill(static_cast<pid_t>(vmm.values[0]), SIGKILL); });
  EXPECT_EQ(killed[exit_signal], static_cast<unsigned>(SIGKILL));
  EXPECT_EQ(killed[exit_oom], 0U);
  const auto starved = end_by([](const Listeners& vmm, const Got&) { vmm.command("eat"); });
  EXPECT_EQ(starved[exit_signal], static_cast<unsigned>(SIGKILL));
  EXPECT_EQ(starved[exit_oom], 1U);
}

TEST_F(VmmTest, ACallThatIsNotOnTheListEndsIt) {
  const std::string id = make_sandbox(digest_);
  const Listeners listeners(root_, id);
  const Got launched = launch(id, listeners);
  ASSERT_TRUE(launched.done()) << launched.message;
  EXPECT_EQ(listeners.command("anything"), "done\n");
  EXPECT_EQ(listeners.command("fork"), "");
  EXPECT_TRUE(ends(launched.fd));
  EXPECT_EQ(await_exit(id).values[exit_signal], static_cast<unsigned>(SIGSYS));
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
  // All spare slots are there again, too.
  ASSERT_TRUE(await([&] {
    const std::string now = leak_table();
    return now.starts_with("processes 0,") && now.contains(", spare 4,");
  })) << leak_table();
  const std::string before = leak_table();
  for (int i = 0; i < 20; ++i) live();
  Client::print_times();
  EXPECT_TRUE(await([&] { return leak_table() == before; })) << before << "\n" << leak_table();
}

// The type of each device, and how many. Ours, then what the microvm machine is made of: its 24 virtio-mmio
// sockets are empty but for our four.
const std::map<std::string, int> allowed_devices = {{"virtio-serial-device", 1},
                                                    {"virtserialport", 1},
                                                    {"virtio-net-device", 1},
                                                    {"virtio-blk-device", 1},
                                                    {"virtio-rng-device", 1},
                                                    {"isa-serial", 1},
                                                    {"serial", 1},
                                                    {"virtio-serial-bus", 1},
                                                    {"virtio-mmio", 24},
                                                    {"virtio-mmio-bus", 24},
                                                    {"max-x86_64-cpu", 1},
                                                    {"apic", 1},
                                                    {"ioapic", 1},
                                                    {"acpi-ged", 1},
                                                    {"mc146818rtc", 1},
                                                    {"kvmvapic", 1},
                                                    {"isabus-bridge", 1},
                                                    {"ISA", 1},
                                                    {"System", 1}};

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

// Every device that QEMU made, by its own account. What is not on this list is attack surface nobody asked
// for.
TEST_F(QemuTest, HasTheDevicesOfTheListAndNoOthers) {
  const std::string digest = make_image(halting_kernel());
  ASSERT_TRUE(import(digest).done());
  const std::string id = make_sandbox(digest);
  const Listeners listeners(root_, id);
  ASSERT_TRUE(launch(id, listeners).done());
  const Fd qmp = listeners.connect_qmp();
  ASSERT_THAT(read_line(qmp), HasSubstr("\"QMP\""));
  const auto ask = [&](const std::string& command) {
    (void)!::write(qmp.get(), command.data(), command.size());
    return read_line(qmp);
  };
  ask("{\"execute\":\"qmp_capabilities\"}\n");
  std::map<std::string, int> devices;
  const std::function<void(const std::string&)> walk = [&](const std::string& path) {
    const std::string list = ask("{\"execute\":\"qom-list\",\"arguments\":{\"path\":\"" + path + "\"}}\n");
    const std::regex child("\"name\": \"([^\"]+)\", \"type\": \"child<([^>]+)>\"");
    for (std::sregex_iterator found(list.begin(), list.end(), child), end; found != end; ++found) {
      const std::string name = (*found)[1], type = (*found)[2];
      if (type == "memory-region" || type == "irq" || type.ends_with("container")) continue;
      ++devices[type];
      walk(path + "/" + name);
    }
  };
  for (const char* root : {"/machine/peripheral", "/machine/peripheral-anon", "/machine/unattached"})
    walk(root);
  EXPECT_THAT(devices, testing::UnorderedElementsAreArray(allowed_devices));
  ask("{\"execute\":\"quit\"}\n");
  EXPECT_EQ(await_exit(id).values[exit_status], 0U);
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
