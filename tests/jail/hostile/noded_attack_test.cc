// space-noded under a sandbox manager that somebody else has taken over: whatever it sends, in whatever
// order, with whatever descriptors, nothing changes but the things of the ids it names.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "tests/integration/noded_fixture.h"
#include "tests/jail/hostile/outside.h"

namespace space::noded {
namespace {

namespace fs = std::filesystem;
using hostile::differences;
using hostile::look_outside;

constexpr std::uint32_t verb_last = static_cast<std::uint32_t>(Verb::slot_check);

class NodedAttackTest : public NodedTest {
 protected:
  NodedAttackTest() { ::chmod(root_.c_str(), 0755); }

  // A second sandbox with a VM, and files of the machine: what must stay as it is.
  void start(const std::vector<std::string>& flags = {"--sandboxd-uid", "0"}) {
    start_noded(flags);
    Client& root = victim_client_.emplace(client());
    for (const char* path : {"/canary", "/state/canary", "/state/images/canary", "/run/canary"}) {
      std::ofstream(root_ + path) << "canary";
      scope_.content.push_back(root_ + path);
    }
    if (!root.call(Verb::pool_info).done()) return;  // root is not the manager here
    victim_digest_ = make_image();
    digest_ = make_image();
    ASSERT_EQ(import(victim_digest_).values[0], 0U);
    ASSERT_EQ(import(digest_).values[0], 0U);
    victim_ = make_sandbox(victim_digest_);
    const std::string disk = state_ + "/pool/sandboxes/" + victim_ + "/disk.raw";
    std::fstream(disk, std::ios::in | std::ios::out) << "the victim's";
    scope_.content.push_back(disk);
    victim_listeners_.emplace(root_, victim_);
    const Got launched = launch_started(victim_, *victim_listeners_);
    ASSERT_TRUE(launched.done()) << launched.message;
    scope_.processes = {noded_, static_cast<pid_t>(launched.values[0])};
    // The stand-in's output is its own; spare slots are taken and made anew, and belong to nobody.
    scope_.own = {digest_, "/victim.log", victim_ + "/log", "/noded/netns/.spare-"};
    scope_.root = root_, scope_.state = state_, scope_.run = run_;
    before_ = look_outside(scope_);
  }
  void expect_untouched(const std::string& after) {
    EXPECT_EQ(differences(before_, look_outside(scope_)), "") << "after " << after;
    EXPECT_EQ(victim_listeners_->command("anything"), "done\n") << "after " << after;
    EXPECT_TRUE(client().call(Verb::pool_info).done()) << "after " << after;
  }
  std::string own_id() {
    scope_.own.push_back(new_sandbox_id());
    return scope_.own.back();
  }
  void clean_up(const std::string& id) {
    const auto gone = [&](Verb verb) {
      return await([&] {
        const Got got = client().call(verb, id);
        return got.done() || got.failed == Code::not_found;
      });
    };
    for (const Verb verb : {Verb::vmm_kill, Verb::vmm_forget, Verb::slot_remove, Verb::disk_remove})
      EXPECT_TRUE(gone(verb)) << static_cast<unsigned>(verb) << " " << client().call(verb, id).message;
    std::error_code none;
    std::vector<std::uint64_t> numbers;
    for (const auto& entry : fs::directory_iterator(state_ + "/pool/snapshots/" + id, none)) {
      const std::string name = entry.path().filename();
      numbers.push_back(std::stoull(name.substr(name.starts_with('.') ? 1 : 0)));
    }
    for (const std::uint64_t number : numbers)
      EXPECT_TRUE(client().call(Verb::snapshot_remove, id, "", {number}).done());
  }
  std::size_t fds_of_noded() const {
    return static_cast<std::size_t>(std::distance(
        fs::directory_iterator("/proc/" + std::to_string(noded_) + "/fd"), fs::directory_iterator()));
  }
  // Once no worker is under way any more.
  std::size_t quiet_fds() const {
    std::size_t count = fds_of_noded();
    for (int same = 0; same < 20;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const std::size_t now = fds_of_noded();
      same = now == count ? same + 1 : 0;
      count = now;
    }
    return count;
  }
  std::uint64_t resident_kib() const {
    std::ifstream status("/proc/" + std::to_string(noded_) + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmRSS:")) return std::stoull(line.substr(6));
    return 0;
  }
  // As another uid: what `act` returns, as far as it fits into an exit status.
  static int as_uid(uid_t uid, const std::function<int()>& act) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (::setgroups(0, nullptr) != 0 || ::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0)
        ::_exit(99);
      ::_exit(act());
    }
    int status = -1;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // The values and descriptors each verb wants, so that it is really carried out.
  Got carry_out(Client& by, Verb verb, const std::string& id, const Listeners& listeners) {
    if (verb == Verb::disk_create) return by.call(verb, id, digest_, {512});
    if (verb == Verb::disk_restore) return by.restore(id, id, 1);
    if (verb >= Verb::snapshot_begin) return by.call(verb, id, "", {1});
    if (verb != Verb::vmm_launch) return by.call(verb, id);
    return by.call(verb, id, "", {1, 128, 0, 0}, {listeners.qmp.get(), listeners.channel.get()});
  }

  // A VM that sees the disks of snapshots 1 and 2 of the same sandbox.
  Got launch_comparing(Client& by, const std::string& id, const Listeners& listeners) {
    Request request = Client::request(Verb::vmm_launch, id, "", {1, 128, 0, 0, 0, 0, 0, 0, 1, 2});
    id.copy(request.source, sizeof request.source);
    by.send(request, {listeners.qmp.get(), listeners.channel.get()});
    return by.receive();
  }

  static constexpr Verb of_sandboxes[] = {
      Verb::disk_create,     Verb::disk_remove,     Verb::slot_create,     Verb::slot_remove,
      Verb::vmm_launch,      Verb::vmm_open,        Verb::vmm_kill,        Verb::vmm_exit,
      Verb::vmm_forget,      Verb::vmm_open_memory, Verb::vmm_isolation,   Verb::snapshot_begin,
      Verb::snapshot_finish, Verb::snapshot_open,   Verb::snapshot_remove, Verb::disk_restore};
  std::string digest_, victim_digest_, victim_;
  std::optional<Client> victim_client_;
  std::optional<Listeners> victim_listeners_;
  hostile::Scope scope_;
  hostile::Outside before_;
};

// Whoever reads "nothing changed" below must know that a change would have been seen.
TEST_F(NodedAttackTest, APlantedChangeIsSeen) {
  start();
  EXPECT_EQ(differences(before_, look_outside(scope_)), "");
  const auto seen = [&](const std::string& what, const std::function<void()>& plant,
                        const std::string& sign) {
    plant();
    EXPECT_THAT(differences(before_, look_outside(scope_)), testing::HasSubstr(sign)) << what;
    before_ = look_outside(scope_);
  };
  const std::string disk = state_ + "/pool/sandboxes/" + victim_ + "/disk.raw";
  seen(
      "bytes of a disk", [&] { std::fstream(disk, std::ios::in | std::ios::out) << "The"; },
      "changed: content " + disk);
  seen("an owner", [&] { (void)!::chown(disk.c_str(), 1, 1); }, "changed: file " + disk);
  seen(
      "a mode", [&] { ::chmod((state_ + "/canary").c_str(), 0777); },
      "changed: content " + state_ + "/canary");
  seen("a file", [&] { std::ofstream(run_ + "/noded/new") << ""; }, "new: file " + run_ + "/noded/new");
  seen("a link", [&] { fs::create_symlink("/etc/shadow", run_ + "/link"); }, "new: file " + run_ + "/link");
  const std::string mount = root_ + "/mounted";
  seen(
      "a mount", [&] { fs::create_directory(mount), (void)!::mount("none", mount.c_str(), "tmpfs", 0, ""); },
      "new: mount");
  ::umount(mount.c_str());
  before_ = look_outside(scope_);
  seen(
      "a slot",
      [&] {
        client().call(Verb::slot_remove, victim_);
        client().call(Verb::slot_create, new_sandbox_id());
      },
      "netns");
  seen(
      "a disk", [&] { client().call(Verb::disk_create, new_sandbox_id(), victim_digest_, {512}); },
      "/pool/sandboxes/");
  seen(
      "a process",
      [&] {
        ::kill(scope_.processes[1], SIGKILL);
        await_exit(victim_);
      },
      "changed: process");
}

TEST_F(NodedAttackTest, RandomBytesAndRandomFields) {
  start();
  const auto seed = std::random_device()();
  std::printf("# seed %u\n", seed);
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](std::size_t end) { return random() % end; };
  const std::vector<std::string> ids{own_id(), own_id(), own_id()};
  const std::vector<std::string> sandboxes{ids[0],
                                           ids[1],
                                           ids[2],
                                           "",
                                           "../" + victim_.substr(0, 17),
                                           std::string(24, 'a'),
                                           "i0/../../../etc/ab12",
                                           std::string("i\0abc", 5),
                                           "I" + ids[0].substr(1)};
  const std::vector<std::string> digests{
      digest_,          digest_, "", std::string(64, '0'), "../../" + digest_.substr(6), std::string(72, 'f'),
      digest_.substr(1)};
  const std::vector<std::uint64_t> values{0, 1, 128, 512, 513, 1024, ~0ULL, 1ULL << 63, 65537, 1ULL << 32};
  const Listeners listeners(root_, ids[0]);
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const std::vector<int> kinds{listeners.qmp.get(), listeners.channel.get(), null.get()};
  std::size_t answered = 0, done = 0;
  std::optional<Client> by = client();
  for (int i = 0; i < 3000; ++i) {
    if (below(4) == 0) {  // as it should be, in any order
      const Verb verb = static_cast<Verb>(1 + below(verb_last));
      const bool of_templates =
          verb == Verb::template_import || verb == Verb::template_open || verb == Verb::template_remove;
      const bool of_none = verb == Verb::pool_info || verb == Verb::list;
      done += of_templates ? by->call(verb, "", digest_).done()
              : of_none    ? by->call(verb).done()
                           : carry_out(*by, verb, ids[below(3)], listeners).done();
      continue;
    }
    if (below(4) == 0) {
      std::string bytes(1 + below(300), '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      by->send_bytes(bytes);
    } else {
      Request request = Client::request(static_cast<Verb>(below(verb_last + 3)),
                                        sandboxes[below(2) ? below(3) : below(sandboxes.size())],
                                        digests[below(digests.size())], {});
      if (below(2) != 0) std::ranges::fill(request.digest, '\0');
      for (std::uint64_t& value : request.values) value = below(3) == 0 ? values[below(values.size())] : 0;
      if (request.verb == Verb::vmm_launch && below(2) == 0)
        std::ranges::copy(std::vector<std::uint64_t>{1, 128, 0, 0}, request.values);
      if (request.verb >= Verb::snapshot_begin && below(2) == 0) request.values[0] = 1 + below(2);
      if (request.verb == Verb::disk_restore || below(8) == 0)
        sandboxes[below(sandboxes.size())].copy(request.source, sizeof request.source);
      if (request.verb == Verb::disk_create) request.values[0] = 512 + below(2);
      if (below(8) == 0)
        reinterpret_cast<char*>(&request)[below(sizeof request)] ^= static_cast<char>(1U << below(8));
      // Of another one's id only what reads may be said: to remove it is the manager's right.
      std::vector<int> fds;
      for (std::size_t count = request.verb == Verb::vmm_launch && below(2) ? 2 : below(4); count > 0;
           --count)
        fds.push_back(kinds[below(kinds.size())]);
      if (below(2) != 0 && request.verb != Verb::vmm_launch) fds.clear();
      by->send(request, fds);
    }
    const Got got = by->receive();
    if (got.failed == Code::deadline) FAIL() << "no answer to message " << i;
    if (got.message == "the connection ended") by = client();
    ++answered;
    done += got.done();
  }
  std::printf("# %zu answers, %zu of them done\n", answered, done);
  EXPECT_GT(done, 100U) << "the fields were not random enough to be carried out";
  for (const std::string& id : ids) clean_up(id);
  expect_untouched("random messages");
}

TEST_F(NodedAttackTest, DeadIdsAndWrongOrder) {
  start();
  Client by = client();
  const std::string id = own_id();
  const Listeners listeners(root_, id);
  // Never there; then there and removed.
  for (int round = 0; round < 2; ++round) {
    for (const Verb verb :
         {Verb::disk_remove, Verb::slot_remove, Verb::vmm_launch, Verb::vmm_open, Verb::vmm_kill,
          Verb::vmm_exit, Verb::vmm_forget, Verb::vmm_open_memory, Verb::vmm_isolation, Verb::snapshot_begin,
          Verb::snapshot_finish, Verb::snapshot_open, Verb::snapshot_remove, Verb::disk_restore}) {
      const Got got = carry_out(by, verb, id, listeners);
      EXPECT_TRUE(got.done() || got.failed == Code::not_found)
          << static_cast<unsigned>(verb) << " " << got.message;
    }
    EXPECT_EQ(by.call(Verb::snapshot_begin, id, "", {1, 0, 1}).failed, Code::not_found) << "of no disk";
    EXPECT_EQ(launch_comparing(by, id, listeners).failed, Code::not_found) << "disks of no snapshot";
    for (const ListRecord& record : list()) EXPECT_NE(std::string(record.id), id);
    if (round == 0) {
      ASSERT_TRUE(by.call(Verb::disk_create, id, digest_, {512}).done());
      ASSERT_TRUE(by.call(Verb::slot_create, id).done());
      // The same verbs can succeed.
      ASSERT_TRUE(carry_out(by, Verb::vmm_launch, id, listeners).done());
      for (const Verb verb : {Verb::snapshot_begin, Verb::snapshot_finish, Verb::snapshot_open})
        ASSERT_TRUE(carry_out(by, verb, id, listeners).done()) << static_cast<unsigned>(verb);
      ASSERT_TRUE(by.call(Verb::snapshot_begin, id, "", {2, 0, 1}).done());
      ASSERT_TRUE(by.call(Verb::snapshot_finish, id, "", {2, 0}).done());
      ASSERT_TRUE(by.call(Verb::vmm_kill, id).done() && await_exit(id).done());
      ASSERT_TRUE(by.call(Verb::vmm_forget, id).done());
      ASSERT_TRUE(launch_comparing(by, id, listeners).done());
      clean_up(id);
    }
  }
  expect_untouched("dead ids");
}

TEST_F(NodedAttackTest, EveryTwoVerbsRacingOnOneId) {
  start();
  std::size_t races = 0;
  for (std::size_t a = 0; a < std::size(of_sandboxes); ++a)
    for (std::size_t b = a; b < std::size(of_sandboxes); ++b)
      for (int made = 0; made < 3; ++made, ++races) {
        const std::string id = own_id();
        const Listeners listeners(root_, id);
        Client one = client(), other = client();
        if (made > 0) {
          ASSERT_TRUE(one.call(Verb::disk_create, id, digest_, {512}).done());
          ASSERT_TRUE(one.call(Verb::slot_create, id).done());
        }
        if (made > 1) ASSERT_TRUE(carry_out(one, Verb::vmm_launch, id, listeners).done());
        std::thread beside([&] { carry_out(other, of_sandboxes[b], id, listeners); });
        carry_out(one, of_sandboxes[a], id, listeners);
        beside.join();
        clean_up(id);
        ASSERT_FALSE(HasFailure()) << static_cast<unsigned>(of_sandboxes[a]) << " and "
                                   << static_cast<unsigned>(of_sandboxes[b]);
      }
  std::printf("# %zu races\n", races);
  expect_untouched("the races");
  EXPECT_TRUE(lists(Kind::vmm, victim_)) << "the list is not empty for another reason";
  EXPECT_EQ(list().size(), 5U) << "two templates and the victim's disk, slot and VM";
}

TEST_F(NodedAttackTest, DescriptorsOfTheWrongKind) {
  start();
  const std::string id = own_id();
  Client by = client();
  ASSERT_TRUE(by.call(Verb::disk_create, id, digest_, {512}).done());
  ASSERT_TRUE(by.call(Verb::slot_create, id).done());
  const Listeners listeners(root_, id);
  int pipe[2], pair[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const Fd tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      packets(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::listen(tcp.get(), 1), 0);
  std::vector<Fd> wrong;
  for (const int fd : {pipe[0], pipe[1], pair[0], pair[1]}) wrong.emplace_back(fd);
  for (const char* path : {"/dev/null", "/etc/passwd", "/etc", "/proc/self/status", "/proc/self/ns/net"})
    wrong.emplace_back(::open(path, O_RDONLY | O_CLOEXEC));
  wrong.emplace_back(::open("/etc", O_PATH | O_CLOEXEC));
  wrong.emplace_back(::memfd_create("x", MFD_CLOEXEC));
  wrong.emplace_back(::epoll_create1(EPOLL_CLOEXEC));
  wrong.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));  // does not listen
  const std::size_t fds = quiet_fds();
  const auto refused = [&](int qmp, int channel) {
    const Got got = by.call(Verb::vmm_launch, id, "", {1, 128, 0, 0}, {qmp, channel});
    EXPECT_EQ(got.failed, Code::invalid_argument) << got.message;
  };
  for (const Fd& fd : wrong)
    refused(fd.get(), listeners.channel.get()), refused(listeners.qmp.get(), fd.get());
  refused(tcp.get(), listeners.channel.get());
  refused(packets.get(), listeners.channel.get());
  for (const std::size_t count : {0, 1, 3, 4, 5, 7}) {
    const Got got =
        by.call(Verb::vmm_launch, id, "", {1, 128, 0, 0}, std::vector<int>(count, listeners.qmp.get()));
    EXPECT_EQ(got.failed, Code::invalid_argument) << count << " " << got.message;
  }
  EXPECT_TRUE(await([&] { return fds_of_noded() == fds; })) << fds << " -> " << fds_of_noded();
  EXPECT_TRUE(launch(id, listeners).done()) << "with the right ones it starts";
  clean_up(id);
  expect_untouched("wrong descriptors");
}

TEST_F(NodedAttackTest, AFloodOfCallsIsBounded) {
  start();
  const std::string id = own_id();
  const std::uint64_t memory = resident_kib();
  const std::size_t fds = quiet_fds();
  std::uint64_t most = 0;
  {
    std::vector<Client> clients;
    for (int i = 0; i < 40; ++i) clients.push_back(client());  // more than are let in
    Request request = Client::request(Verb::slot_create, id, "", {});
    for (int i = 0; i < 2000; ++i) {
      request.sequence = static_cast<std::uint64_t>(i);
      request.verb = i % 3 == 0 ? Verb::slot_create : i % 3 == 1 ? Verb::list : Verb::pool_info;
      std::ranges::fill(request.sandbox, '\0');
      if (request.verb == Verb::slot_create) id.copy(request.sandbox, sizeof request.sandbox);
      for (std::size_t at = 0; at < 8; ++at) clients[at].send(request, {});  // nobody reads the answers
      if (i % 50 == 0) most = std::max(most, resident_kib());
    }
  }
  std::printf("# space-noded: %lu -> %lu KiB at most\n", memory, most);
  EXPECT_LT(most, memory + (8 << 10));
  EXPECT_TRUE(await([&] { return fds_of_noded() == fds; })) << fds << " -> " << fds_of_noded();
  clean_up(id);
  expect_untouched("a flood");
}

// Any folder where the manager can make names is its own; the rest is the node's.
TEST_F(NodedAttackTest, PlantedLinksLeadNowhere) {
  constexpr uid_t manager = 54321;
  start_noded({"--sandboxd-uid", std::to_string(manager)});
  const std::string own = run_ + "/sandboxd", canary = root_ + "/canary";
  fs::create_directory(own);
  ASSERT_EQ(::chown(own.c_str(), manager, manager), 0);
  std::ofstream(canary) << "canary";
  const std::string id = new_sandbox_id();
  std::vector<std::string> places{run_,
                                  run_ + "/noded",
                                  run_ + "/noded/netns",
                                  run_ + "/noded/vm",
                                  state_,
                                  state_ + "/images",
                                  state_ + "/pool",
                                  state_ + "/pool/sandboxes",
                                  state_ + "/pool/templates"};
  for (const std::string& place : places)
    EXPECT_EQ(
        as_uid(manager, [&] { return ::symlink(canary.c_str(), (place + "/" + id).c_str()) == 0 ? 0 : 1; }),
        1)
        << place;
  EXPECT_EQ(as_uid(manager, [&] { return ::symlink(canary.c_str(), (own + "/" + id).c_str()) == 0 ? 0 : 1; }),
            0)
      << "its own";
  // Its folder becomes a link while verbs are carried out that name the same id.
  const auto calls = [&] {
    const std::string digest = std::string(64, 'a');
    Client by = client();
    if (!by.call(Verb::pool_info).done()) return 2;
    if (::symlink("/etc", (own + "/" + digest).c_str()) != 0) return 4;
    by.call(Verb::slot_create, id);
    by.call(Verb::disk_create, id, digest, {512});
    by.call(Verb::template_import, "", digest);
    by.call(Verb::vmm_kill, id);
    by.call(Verb::vmm_forget, id);
    return by.call(Verb::slot_remove, id).done() ? 0 : 3;
  };
  EXPECT_EQ(as_uid(manager, calls), 0);
  EXPECT_EQ(fs::read_symlink(own + "/" + id), canary);
  std::string text;
  std::ifstream(canary) >> text;
  EXPECT_EQ(text, "canary");
  EXPECT_EQ(stop_noded(SIGTERM), 0);
}

// What the operator's folder holds is read by root: it must not be led away from there.
TEST_F(NodedAttackTest, LinksInTheImagesAreNotFollowed) {
  start();
  const std::string canary = root_ + "/canary";
  const auto refused = [&](const std::string& what, const std::function<void(const fs::path&)>& plant) {
    const std::string digest = make_image();
    scope_.own.push_back(digest);
    plant(fs::path(state_) / "images" / digest);
    const Got got = import(digest);
    EXPECT_TRUE(!got.done() || got.values[0] != 0) << what;
    EXPECT_FALSE(lists(Kind::template_, digest)) << what;
  };
  for (const char* file : {"manifest.json", "vmlinuz", "initramfs.img", "disk.raw"})
    refused(file, [&](const fs::path& folder) {
      fs::remove(folder / file), fs::create_symlink(canary, folder / file);
    });
  refused("the folder", [&](const fs::path& folder) {
    fs::rename(folder, root_ + "/elsewhere" + folder.filename().string());
    fs::create_symlink(root_ + "/elsewhere" + folder.filename().string(), folder);
  });
  refused("a folder", [&](const fs::path& folder) {
    fs::remove(folder / "vmlinuz"), fs::create_directory(folder / "vmlinuz");
  });
  refused("a pipe", [&](const fs::path& folder) {
    fs::remove(folder / "vmlinuz"), ::mkfifo((folder / "vmlinuz").c_str(), 0600);
  });
  const std::string good = make_image();
  scope_.own.push_back(good);
  EXPECT_EQ(import(good).values[0], 0U) << "one without links is taken";
  expect_untouched("links in the images");
}

TEST_F(NodedAttackTest, EachDaemonHasItsVerbsAndNobodyElseAny) {
  constexpr uid_t sandboxd = 54321, netd = 54322, volumed = 54323;
  start_noded({"--sandboxd-uid", std::to_string(sandboxd), "--netd-uid", std::to_string(netd),
               "--volumed-uid", std::to_string(volumed)});
  const std::string id = new_sandbox_id(), digest(64, 'a');
  // How many of all verbs it was let in with, whatever came of them then.
  const auto admitted = [&] {
    int count = 0;
    Client by = client();
    for (std::uint32_t number = 1; number <= verb_last; ++number) {
      const Verb verb = static_cast<Verb>(number);
      const bool of_templates =
          verb == Verb::template_import || verb == Verb::template_open || verb == Verb::template_remove;
      const bool of_all = verb == Verb::pool_info || verb == Verb::list;
      if (verb == Verb::vmm_launch || verb == Verb::disk_create) continue;  // take more than an id
      const Got got = by.call(verb, of_all || of_templates ? "" : id, of_templates ? digest : "");
      count += got.failed != Code::permission_denied && got.failed != Code::unavailable &&
               got.failed != Code::deadline;
    }
    return count;
  };
  EXPECT_EQ(as_uid(netd, admitted), 2) << "list and slot_open";
  EXPECT_EQ(as_uid(volumed, admitted), 3) << "pool_info, list and template_open";
  EXPECT_EQ(as_uid(sandboxd, admitted), static_cast<int>(verb_last) - 3) << "all others but slot_open";
  EXPECT_EQ(as_uid(sandboxd + 100, admitted), 0);
  EXPECT_EQ(as_uid(vm_uid_first, admitted), 0) << "a VM's user";
  EXPECT_EQ(stop_noded(SIGTERM), 0);
}

}  // namespace
}  // namespace space::noded
