// space-noded through its socket: door, pool, disks, slots, restarts.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tests/integration/noded_fixture.h"

namespace space::noded {
namespace {

namespace fs = std::filesystem;

TEST_F(NodedTest, PoolAndTemplates) {
  start_noded();
  const Got info = client().call(Verb::pool_info);
  ASSERT_TRUE(info.done()) << info.message;
  EXPECT_GT(info.values[0], 1ULL << 30);
  EXPECT_LE(info.values[0], info.values[1]);

  const std::string digest = make_image();
  for (int round = 0; round < 2; ++round) {
    const Got imported = import(digest);
    ASSERT_TRUE(imported.done()) << imported.message;
    EXPECT_EQ(imported.values[0], 0U);
  }
  const Got manifest = client().call(Verb::template_open, "", digest);
  ASSERT_TRUE(manifest.done()) << manifest.message;
  EXPECT_EQ(text_of(manifest.fd), "{\"name\":\"" + digest + "\"}");
  EXPECT_EQ(::fcntl(manifest.fd.get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_TRUE(lists(Kind::template_, digest));
  const fs::path subvolume = fs::path(state_) / "pool/templates" / digest;
  EXPECT_FALSE(std::ofstream(subvolume / "manifest.json")) << "a template can be written";
  struct stat disk{};
  ASSERT_EQ(::stat((subvolume / "disk.raw").c_str(), &disk), 0);
  EXPECT_EQ(disk.st_size, 64 << 20);
  EXPECT_LT(disk.st_blocks * 512, 1 << 20);

  for (int round = 0; round < 2; ++round)
    EXPECT_TRUE(client().call(Verb::template_remove, "", digest).done());
  EXPECT_FALSE(lists(Kind::template_, digest));
  EXPECT_EQ(client().call(Verb::template_open, "", digest).failed, Code::not_found);
}

TEST_F(NodedTest, ImportTakesOnlyWhatRootAloneCanWrite) {
  start_noded();
  EXPECT_EQ(import(std::string(64, '0')).values[0], static_cast<unsigned>(ENOENT));
  const std::string writable = make_image();
  ::chmod((state_ + "/images/" + writable + "/vmlinuz").c_str(), 0666);
  EXPECT_EQ(import(writable).values[0], static_cast<unsigned>(EACCES));
  const std::string foreign = make_image();
  ASSERT_EQ(::chown((state_ + "/images/" + foreign + "/disk.raw").c_str(), 1000, 1000), 0);
  EXPECT_EQ(import(foreign).values[0], static_cast<unsigned>(EACCES));
  const std::string linked = make_image();
  fs::remove(fs::path(state_) / "images" / linked / "manifest.json");
  fs::create_symlink("/etc/shadow", fs::path(state_) / "images" / linked / "manifest.json");
  EXPECT_NE(import(linked).values[0], 0U);
  for (const ListRecord& record : list()) ADD_FAILURE() << record.id;
  EXPECT_TRUE(fs::is_empty(state_ + "/pool/templates"));
}

TEST_F(NodedTest, DiskLife) {
  start_noded();
  const std::string digest = make_image(), id = new_sandbox_id();
  ASSERT_TRUE(import(digest).done());
  const Got created = client().call(Verb::disk_create, id, digest, {1024});
  ASSERT_TRUE(created.done()) << created.message;
  const auto uid = created.values[0];
  EXPECT_GE(uid, vm_uid_first);
  EXPECT_LE(uid, vm_uid_last);
  struct stat disk{};
  ASSERT_EQ(::stat((state_ + "/pool/sandboxes/" + id + "/disk.raw").c_str(), &disk), 0);
  EXPECT_EQ(disk.st_uid, uid);
  EXPECT_EQ(disk.st_gid, uid);
  EXPECT_EQ(disk.st_mode & 07777, 0600U);
  EXPECT_EQ(disk.st_size, 1024L << 20);
  EXPECT_TRUE(lists(Kind::disk, id));

  EXPECT_EQ(client().call(Verb::disk_create, id, digest, {1024}).values[0], uid);
  EXPECT_EQ(client().call(Verb::disk_create, id, digest, {2048}).failed, Code::conflict);
  EXPECT_EQ(client().call(Verb::disk_create, new_sandbox_id(), std::string(64, '0'), {1024}).failed,
            Code::not_found);
  ASSERT_TRUE(client().call(Verb::template_remove, "", digest).done()) << "clones are independent";
  for (int round = 0; round < 2; ++round) EXPECT_TRUE(client().call(Verb::disk_remove, id).done());
  EXPECT_FALSE(lists(Kind::disk, id));
}

TEST_F(NodedTest, ADiskSmallerThanItsTemplateIsRefused) {
  start_noded();
  const std::string digest = make_image();
  fs::resize_file(state_ + "/images/" + digest + "/disk.raw", 600 << 20);
  ASSERT_TRUE(import(digest).done());
  const std::string id = new_sandbox_id();
  const Got refused = client().call(Verb::disk_create, id, digest, {512});
  EXPECT_EQ(refused.failed, Code::invalid_argument);
  EXPECT_THAT(refused.message, testing::HasSubstr("600 MiB"));
  EXPECT_FALSE(lists(Kind::disk, id));
}

TEST_F(NodedTest, NoUidTwice) {
  start_noded();
  const std::string digest = make_image();
  ASSERT_TRUE(import(digest).done());
  std::set<std::uint64_t> uids;
  std::vector<std::string> ids;
  // All at once, on one connection: the answers come in any order.
  Client one = client();
  for (std::uint64_t i = 0; i < 20; ++i) {
    ids.push_back(new_sandbox_id());
    Request request = Client::request(Verb::disk_create, ids.back(), digest, {512});
    request.sequence = i;
    one.send(request, {});
  }
  for (int i = 0; i < 20; ++i) {
    const Got got = one.receive();
    ASSERT_TRUE(got.done()) << got.message;
    EXPECT_TRUE(uids.insert(got.values[0]).second);
  }
  // A restart learns them from the disks.
  EXPECT_EQ(stop_noded(SIGKILL) & 0x7f, SIGKILL);
  start_noded();
  for (int i = 0; i < 20; ++i) {
    ids.push_back(new_sandbox_id());
    EXPECT_TRUE(uids.insert(client().call(Verb::disk_create, ids.back(), digest, {512}).values[0]).second);
  }
  for (const std::string& id : ids) EXPECT_TRUE(client().call(Verb::disk_remove, id).done());
}

TEST_F(NodedTest, ASlotHasLoAndATapAndNoWayOut) {
  start_noded();
  const std::string id = new_sandbox_id();
  for (int round = 0; round < 2; ++round) {
    const Got created = client().call(Verb::slot_create, id);
    ASSERT_TRUE(created.done()) << created.message;
  }
  EXPECT_TRUE(lists(Kind::slot, id));
  const pid_t pid = ::fork();
  if (pid == 0) {
    const Fd slot(::open((run_ + "/noded/netns/" + id).c_str(), O_RDONLY));
    if (::setns(slot.get(), CLONE_NEWNET) != 0) ::_exit(1);
    const auto lines = [](const char* file) {
      std::ifstream in(file);
      std::vector<std::string> found;
      for (std::string line; std::getline(in, line);) found.push_back(line);
      return found;
    };
    const auto devices = lines("/proc/net/dev");  // two lines of heading
    // A heading, and the way to the guest.
    const auto routes = lines("/proc/net/route");
    const bool right =
        devices.size() == 4 && routes.size() == 2 && routes[1].starts_with("tap0\t00004D0A\t00000000");
    std::size_t addresses = 0;
    for (const std::string& line : lines("/proc/net/if_inet6"))
      addresses += line.find(" lo") == std::string::npos;
    ::_exit(right && addresses == 1 ? 0 : 2);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  for (int round = 0; round < 2; ++round) EXPECT_TRUE(client().call(Verb::slot_remove, id).done());
  EXPECT_FALSE(lists(Kind::slot, id));
}

TEST_F(NodedTest, AnswersRubbishAndGoesOn) {
  start_noded();
  Client one = client();
  for (const std::size_t size :
       {std::size_t{1}, sizeof(Request) - 1, sizeof(Request), sizeof(Request) + 1, std::size_t{60000}}) {
    one.send_bytes(std::string(size, '\xff'));
    EXPECT_EQ(one.receive().failed, Code::invalid_argument) << size;
  }
  const Fd null(::open("/dev/null", O_RDONLY));
  const int fd = null.get();
  EXPECT_EQ(one.call(Verb::list, "", "", {}, {fd}).failed, Code::invalid_argument);
  EXPECT_EQ(one.call(Verb::list, "", "", {}, {fd, fd, fd, fd, fd, fd, fd}).failed, Code::invalid_argument);
  EXPECT_EQ(one.call(Verb::vmm_kill, "../../etc/passwd").failed, Code::invalid_argument);
  EXPECT_TRUE(one.call(Verb::pool_info).done());
  // A client that never reads is dropped; the others are served.
  Client deaf = client();
  for (int i = 0; i < 20'000; ++i) deaf.send_bytes("x");
  EXPECT_TRUE(client().call(Verb::pool_info).done());
}

TEST_F(NodedTest, ServesItsDaemonsOnlyAndEachWithItsOwnVerbs) {
  constexpr uid_t sandboxd = 54321, netd = 54322, volumed = 54323;
  start_noded({"--sandboxd-uid", std::to_string(sandboxd), "--netd-uid", std::to_string(netd),
               "--volumed-uid", std::to_string(volumed)});
  EXPECT_EQ(client().call(Verb::pool_info).failed, Code::unavailable) << "root is none of the daemons";
  constexpr int served = 100;
  // What it got, as an exit status: `served`, or the code of the refusal.
  const auto answer_as = [&](uid_t uid, Verb verb, const std::string& sandbox) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0) ::_exit(99);
      const Got got = client().call(verb, sandbox);
      ::_exit(got.done() ? served : static_cast<int>(*got.failed));
    }
    int status = -1;
    ::waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
  };
  ::chmod(root_.c_str(), 0755);
  const std::string id = new_sandbox_id();
  const int denied = static_cast<int>(Code::permission_denied);
  EXPECT_EQ(answer_as(sandboxd, Verb::pool_info, ""), served);
  EXPECT_EQ(answer_as(sandboxd, Verb::slot_create, id), served);
  EXPECT_EQ(answer_as(netd, Verb::list, ""), served);
  EXPECT_EQ(answer_as(netd, Verb::pool_info, ""), denied);
  EXPECT_EQ(answer_as(netd, Verb::slot_remove, id), denied);
  EXPECT_EQ(answer_as(volumed, Verb::pool_info, ""), served);
  EXPECT_EQ(answer_as(volumed, Verb::slot_remove, id), denied);
  EXPECT_EQ(answer_as(volumed + 1, Verb::pool_info, ""), static_cast<int>(Code::unavailable));
  EXPECT_EQ(answer_as(sandboxd, Verb::slot_remove, id), served);
  EXPECT_EQ(stop_noded(SIGTERM), 0);
}

TEST_F(NodedTest, ASlotPolicesItsTapBothWays) {
  start_noded();
  const auto rules_of = [&](std::uint64_t mbit) {
    const std::string id = new_sandbox_id();
    EXPECT_TRUE(client().call(Verb::slot_create, id, "", {mbit}).done());
    const std::string slot = run_ + "/noded/netns/" + id;
    FILE* output = ::popen(("nsenter --net=" + slot + " nft list ruleset").c_str(), "r");
    std::string rules;
    for (int c = 0; (c = std::fgetc(output)) != EOF;) rules += static_cast<char>(c);
    EXPECT_EQ(::pclose(output), 0);
    EXPECT_TRUE(client().call(Verb::slot_remove, id).done());
    return rules;
  };
  const std::string limited = rules_of(80);
  for (const char* way : {"hook ingress device \"tap0\"", "hook egress device \"tap0\""})
    EXPECT_THAT(limited, testing::HasSubstr(way));
  EXPECT_THAT(limited, testing::HasSubstr("limit rate over 10000000 bytes/second"));
  EXPECT_THAT(rules_of(0), testing::Not(testing::HasSubstr("bytes/second")));
}

TEST_F(NodedTest, TwoDaemonsUnderOneUidAreRefused) {
  EXPECT_EQ(run_noded({"--sandboxd-uid", "54321", "--netd-uid", "54321"}), 1);
}

TEST_F(NodedTest, ALayerThatIsNoneIsRefusedAtTheStart) {
  EXPECT_EQ(run_noded({"--sandboxd-uid", "54321", "--allow-missing", "landlok"}), 1);
  start_noded({"--sandboxd-uid", "0", "--allow-missing", "landlock"});
  EXPECT_TRUE(client().call(Verb::pool_info).done());
}

// The root process itself: few capabilities, a filter, no tracing, little memory.
TEST_F(NodedTest, GivesUpWhatNoVerbNeeds) {
  start_noded();
  // It listens, then gives up, then answers.
  ASSERT_TRUE(client().call(Verb::pool_info).done());
  std::ifstream file("/proc/" + std::to_string(noded_) + "/status");
  std::map<std::string, std::string> status;
  for (std::string line; std::getline(file, line);)
    if (const auto colon = line.find(":\t"); colon != std::string::npos)
      status[line.substr(0, colon)] = line.substr(colon + 2);
  EXPECT_EQ(status["NoNewPrivs"], "1");
  EXPECT_EQ(status["Seccomp"], "2");
  const auto held = std::stoull(status["CapEff"], nullptr, 16);
  EXPECT_EQ(status["CapEff"], status["CapBnd"]);
  EXPECT_EQ(status["CapAmb"], "0000000000000000");
  for (const int needed : {CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_CHOWN, CAP_SYS_PTRACE})
    EXPECT_NE(held >> needed & 1, 0U) << needed;
  for (const int gone :
       {CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_BOOT, CAP_SYS_TIME, CAP_NET_RAW, CAP_MKNOD, CAP_BPF})
    EXPECT_EQ(held >> gone & 1, 0U) << gone;
  std::printf("# space-noded: VmRSS %s, VmHWM %s\n", status["VmRSS"].c_str(), status["VmHWM"].c_str());
  EXPECT_LE(std::stoul(status["VmRSS"]), 10U * 1024) << "kB";
}

TEST_F(NodedTest, RemovesWhatIsHalfMade) {
  start_noded();
  const std::string digest = make_image();
  ASSERT_TRUE(import(digest).done());
  EXPECT_EQ(stop_noded(SIGKILL) & 0x7f, SIGKILL);
  for (const std::string where : {"templates/.", "sandboxes/."}) {
    const std::string command = "btrfs -q subvolume snapshot " + state_ + "/pool/templates/" + digest + " " +
                                state_ + "/pool/" + where + digest;
    ASSERT_EQ(std::system((command + " > /dev/null").c_str()), 0);
  }
  std::ofstream(run_ + "/noded/netns/" + new_sandbox_id()) << "";
  start_noded();
  EXPECT_EQ(list().size(), 1U);
  EXPECT_EQ(std::distance(fs::directory_iterator(state_ + "/pool/sandboxes"), fs::directory_iterator()), 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(state_ + "/pool/templates"), fs::directory_iterator()), 1);
  for (const auto& slot : fs::directory_iterator(run_ + "/noded/netns"))
    EXPECT_THAT(slot.path().filename().string(), testing::StartsWith(".spare-"));
}

TEST_F(NodedTest, APoolFileLeftHalfMadeIsMadeAnew) {
  std::ofstream(state_ + "/pool.img.new") << "rubbish";
  start_noded();
  EXPECT_TRUE(client().call(Verb::pool_info).done());
  EXPECT_FALSE(fs::exists(state_ + "/pool.img.new"));
}

TEST_F(NodedTest, OneProcessAnInstance) {
  start_noded();
  EXPECT_EQ(run_noded({"--unmount-pool"}), 1);
  EXPECT_EQ(run_noded({"--sandboxd-uid", "0"}), 1);
  EXPECT_TRUE(client().call(Verb::pool_info).done());
}

TEST_F(NodedTest, RefusesAStartItCannotServe) {
  EXPECT_EQ(run_noded({"--sandboxd-uid", "x"}), 1);
  EXPECT_EQ(run_noded({"--sandboxd-uid", "0", "rest"}), 1);
  EXPECT_EQ(run_noded({"--sandboxd-uid", "0", "--pool-mib", "1"}), 1);
  EXPECT_FALSE(fs::exists(state_ + "/pool.img"));
}

}  // namespace
}  // namespace space::noded
