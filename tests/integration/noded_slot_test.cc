// A real slot with a guest on its tap: a network namespace with the guest's addresses, whose device's frames
// are carried to the tap and back. Its programs are this test's sockets.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/in6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/integration/noded_fixture.h"
#include "tests/integration/slot_guest.h"

namespace space::noded {
namespace {

constexpr uid_t netd_uid = 54322;
const std::vector<std::string> both_clients{"--sandboxd-uid", "0", "--netd-uid", std::to_string(netd_uid)};

// A datagram as the gateway hears it.
struct Heard {
  std::string content, wanted, from;  // "nothing" when none came
};

Heard hear(const Fd& socket) {
  if (!becomes(socket, POLLIN)) return {.content = "nothing"};
  char bytes[256], control[512];
  Address from, wanted;
  iovec data{bytes, sizeof bytes};
  msghdr message{.msg_name = from.get(),
                 .msg_namelen = from.size,
                 .msg_iov = &data,
                 .msg_iovlen = 1,
                 .msg_control = control,
                 .msg_controllen = sizeof control};
  const ssize_t got = ::recvmsg(socket.get(), &message, 0);
  if (got < 0) return {.content = "nothing"};
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header))
    if ((header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_ORIGDSTADDR) ||
        (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_ORIGDSTADDR))
      std::memcpy(&wanted.storage, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
  return {std::string(bytes, static_cast<std::size_t>(got)), wanted.text(), from.text()};
}

// Answers as if it were `own`, port 53.
void answer_as(const Fd& socket, const std::string& own, Address to, const std::string& content) {
  alignas(cmsghdr) char control[64] = {};
  iovec data{const_cast<char*>(content.data()), content.size()};
  msghdr message{.msg_name = to.get(),
                 .msg_namelen = to.size,
                 .msg_iov = &data,
                 .msg_iovlen = 1,
                 .msg_control = control,
                 .msg_controllen = sizeof control};
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  const bool is_v4 = to.storage.ss_family == AF_INET;
  in_pktinfo v4{};
  in6_pktinfo v6{};
  ::inet_pton(is_v4 ? AF_INET : AF_INET6, own.c_str(),
              is_v4 ? static_cast<void*>(&v4.ipi_spec_dst) : &v6.ipi6_addr);
  *header = {.cmsg_len = CMSG_LEN(is_v4 ? sizeof v4 : sizeof v6),
             .cmsg_level = is_v4 ? IPPROTO_IP : IPPROTO_IPV6,
             .cmsg_type = is_v4 ? IP_PKTINFO : IPV6_PKTINFO};
  std::memcpy(CMSG_DATA(header), is_v4 ? static_cast<void*>(&v4) : &v6, is_v4 ? sizeof v4 : sizeof v6);
  message.msg_controllen = CMSG_SPACE(is_v4 ? sizeof v4 : sizeof v6);
  EXPECT_EQ(::sendmsg(socket.get(), &message, 0), static_cast<ssize_t>(content.size()))
      << std::strerror(errno);
}

class SlotTest : public NodedTest {
 protected:
  SlotTest() {
    ::chmod(root_.c_str(), 0755);
    start_noded(both_clients);
  }

  std::string path_of_slot(const std::string& id) const { return run_ + "/noded/netns/" + id; }
  std::string make_slot(std::uint64_t mbit = 0) const {
    std::string id = new_sandbox_id();
    const Got made = client().call(Verb::slot_create, id, "", {mbit});
    EXPECT_TRUE(made.done()) << made.message;
    return id;
  }
  // As space-netd: who connects counts, not who asks.
  Got open_as_netd(const std::string& id) const {
    EXPECT_EQ(::seteuid(netd_uid), 0);
    Client netd = client();
    EXPECT_EQ(::seteuid(0), 0);
    return netd.call(Verb::slot_open, id);
  }
  std::vector<Fd> sockets_of(const std::string& id) const {
    Got got = open_as_netd(id);
    EXPECT_TRUE(got.done()) << got.message;
    std::vector<Fd> sockets = std::move(got.more);
    sockets.insert(sockets.begin(), std::move(got.fd));
    EXPECT_EQ(sockets.size(), 4U);
    return sockets;
  }
  Got check(const std::string& id, std::uint64_t mbit = 0) const {
    return client().call(Verb::slot_check, id, "", {mbit});
  }
  int in_slot(const std::string& id, const std::string& command) const {
    return std::system(("nsenter --net=" + path_of_slot(id) + " " + command).c_str());
  }
  std::size_t spares() const {
    std::size_t count = 0;
    std::ifstream mounts("/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);)
      count += line.find(run_ + "/noded/netns/.spare-") != std::string::npos;
    return count;
  }
};

TEST_F(SlotTest, EveryConnectionEndsInTheGatewaysSocketWhereverItWasMeantToGo) {
  const std::string id = make_slot();
  const Guest guest(path_of_slot(id));
  EXPECT_EQ(guest.outcome("1.2.3.4", 443), ECONNREFUSED) << "nobody listens yet, and it is said at once";
  EXPECT_EQ(guest.outcome("2606:4700::1111", 443), ECONNREFUSED);
  auto sockets = sockets_of(id);
  for (const auto& [host, port] :
       std::vector<std::pair<std::string, std::uint16_t>>{{"1.2.3.4", 443},
                                                          {"169.254.169.254", 80},
                                                          {"10.77.0.1", 4000},
                                                          {"8.8.8.8", 53},
                                                          {"192.168.1.1", 22},
                                                          {"2606:4700::1111", 8443},
                                                          {"fd53:5041:4345::1", 22},
                                                          {"2606:4700::1111", 53}}) {
    const Fd& listener = sockets[address_of(host, port).storage.ss_family == AF_INET ? 0 : 1];
    const Fd outgoing = guest.connect(host, port);
    ASSERT_TRUE(becomes(listener, POLLIN)) << host;
    Address own, peer;
    const Fd accepted(::accept4(listener.get(), peer.get(), &peer.size, SOCK_CLOEXEC));
    ASSERT_TRUE(accepted) << std::strerror(errno);
    ::getsockname(accepted.get(), own.get(), &own.size);
    EXPECT_EQ(own.text(), fmt::format("{} {}", host, port));
    EXPECT_THAT(peer.text(),
                testing::AnyOf(testing::StartsWith("10.77.0.2 "), testing::StartsWith("fd53:5041:4345::2 ")));
    ASSERT_TRUE(becomes(outgoing, POLLOUT));
    char bytes[8] = {};
    EXPECT_EQ(::send(outgoing.get(), "ask", 3, 0), 3);
    EXPECT_EQ(::recv(accepted.get(), bytes, sizeof bytes, 0), 3);
    EXPECT_EQ(::send(accepted.get(), "tell", 4, 0), 4);
    ASSERT_TRUE(becomes(outgoing, POLLIN));
    EXPECT_EQ(::recv(outgoing.get(), bytes, sizeof bytes, 0), 4);
  }
  sockets.clear();
  EXPECT_EQ(guest.outcome("1.2.3.4", 443), ECONNREFUSED) << "with the gateway gone nothing gets out";
}

TEST_F(SlotTest, EveryQuestionForANameEndsThereTooAndIsAnsweredFromWhereItWasSentTo) {
  const std::string id = make_slot();
  const Guest guest(path_of_slot(id));
  EXPECT_EQ(guest.refusal("8.8.8.8", 53), EHOSTUNREACH);
  EXPECT_EQ(guest.refusal("2606:4700::1111", 53), EACCES);
  const auto sockets = sockets_of(id);
  for (const std::string host :
       {"8.8.8.8", "10.77.0.1", "203.0.113.9", "2606:4700::1111", "fd53:5041:4345::1"}) {
    const bool is_v4 = address_of(host, 53).storage.ss_family == AF_INET;
    const Fd& socket = sockets[is_v4 ? 2 : 3];
    const Fd asking = guest.connect(host, 53, SOCK_DGRAM);
    EXPECT_EQ(::send(asking.get(), "question", 8, 0), 8);
    const Heard heard = hear(socket);
    EXPECT_EQ(heard.content, "question");
    EXPECT_EQ(heard.wanted, host + " 53");
    const auto space = heard.from.find(' ');
    answer_as(socket, host,
              address_of(heard.from.substr(0, space),
                         static_cast<std::uint16_t>(std::stoul(heard.from.substr(space)))),
              "answer");
    ASSERT_TRUE(becomes(asking, POLLIN)) << host;  // connected: it takes answers of nobody else
    char bytes[8] = {};
    EXPECT_EQ(::recv(asking.get(), bytes, sizeof bytes, 0), 6) << host;
  }
}

// A guest that is restored in another slot still knows its gateway by the address of the one before.
TEST_F(SlotTest, EverySlotIsTheSameGatewayToItsGuest) {
  for (int slot = 0; slot < 2; ++slot) {
    const std::string id = make_slot();
    EXPECT_EQ(in_slot(id, "ip link show tap0 | grep -q 02:53:50:41:43:01"), 0);
    EXPECT_EQ(in_slot(id, "ip link set tap0 address 02:00:00:00:00:77"), 0);
    const Got repaired = check(id);
    EXPECT_TRUE(repaired.done() && repaired.values[0] == 1) << "put right";
    EXPECT_EQ(in_slot(id, "ip link show tap0 | grep -q 02:53:50:41:43:01"), 0);
    EXPECT_EQ(in_slot(id, "ip neigh show dev tap0 | grep -q 'lladdr 02:53:50:41:43:45 PERMANENT'"), 0);
    EXPECT_EQ(check(id).values[0], 0U);
  }
}

TEST_F(SlotTest, EverythingElseIsRefusedAtOnce) {
  const std::string id = make_slot();
  const Guest guest(path_of_slot(id));
  const auto sockets = sockets_of(id);
  ASSERT_EQ(guest.outcome("1.2.3.4", 443), 0) << "the way to the gateway is open";
  for (const std::uint16_t port : {443, 853, 5353, 123, 4000}) {
    EXPECT_EQ(guest.refusal("1.2.3.4", port), EHOSTUNREACH) << port;
    EXPECT_EQ(guest.refusal("2606:4700::1111", port), EACCES) << port;
  }
  EXPECT_EQ(guest.refusal("10.77.0.1", 5000), EHOSTUNREACH);
  for (const int protocol : {47 /* GRE */, 50 /* ESP */, 132 /* SCTP */})
    EXPECT_EQ(guest.refusal("1.2.3.4", 0, SOCK_RAW, protocol), EHOSTUNREACH) << protocol;
  // Many in a row: none has to wait for a timeout.
  for (int i = 0; i < 40; ++i) EXPECT_EQ(guest.refusal("1.2.3.4", 443), EHOSTUNREACH) << i;
}

TEST_F(SlotTest, TheGatewayAnswersAnEchoAndNobodyElseDoes) {
  const std::string id = make_slot();
  const Guest guest(path_of_slot(id));
  // What comes back: the kind of the message.
  const auto echo = [&](const std::string& host) {
    const Fd fd = guest.connect(host, 0, SOCK_RAW, IPPROTO_ICMP);
    icmphdr request{.type = ICMP_ECHO};
    request.checksum = static_cast<std::uint16_t>(~htons(ICMP_ECHO << 8));
    EXPECT_EQ(::send(fd.get(), &request, sizeof request, 0), static_cast<ssize_t>(sizeof request));
    if (!becomes(fd, POLLIN)) return -1;
    if (error_of(fd) == EHOSTUNREACH) return static_cast<int>(ICMP_DEST_UNREACH);
    unsigned char packet[128] = {};
    (void)!::recv(fd.get(), packet, sizeof packet, 0);
    return static_cast<int>(packet[20]);
  };
  EXPECT_EQ(echo("10.77.0.1"), ICMP_ECHOREPLY);
  EXPECT_EQ(echo("8.8.8.8"), ICMP_DEST_UNREACH);
}

// A frame with a question in it: from `mac` and `source`, to 8.8.8.8.
std::string question_frame(const std::string& mac, const std::string& source, const std::string& content) {
  const auto word = [](std::size_t value) {
    return std::string{static_cast<char>(value >> 8), static_cast<char>(value & 0xff)};
  };
  in_addr from{}, to{};
  ::inet_pton(AF_INET, source.c_str(), &from);
  ::inet_pton(AF_INET, "8.8.8.8", &to);
  std::string ip = "\x45" + std::string(1, '\0') + word(28 + content.size()) + word(1) + word(0) +
                   "\x40\x11" + word(0) + std::string(reinterpret_cast<char*>(&from), 4) +
                   std::string(reinterpret_cast<char*>(&to), 4);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < ip.size(); i += 2)
    sum += static_cast<std::uint32_t>(static_cast<unsigned char>(ip[i]) << 8 |
                                      static_cast<unsigned char>(ip[i + 1]));
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  ip.replace(10, 2, word(~sum & 0xffff));
  return "\xff\xff\xff\xff\xff\xff" + mac + "\x08" + std::string(1, '\0') + ip + word(4321) + word(53) +
         word(8 + content.size()) + word(0) + content;
}

TEST_F(SlotTest, NothingUnderAnotherAddressIsHeard) {
  const std::string id = make_slot();
  const Guest guest(path_of_slot(id));
  const auto sockets = sockets_of(id);
  const std::string own_mac = "\x02SPACE", other_mac = "\x02SPACF";
  guest.send_frame(question_frame(own_mac, "10.77.0.3", "another address"));
  guest.send_frame(question_frame(own_mac, "8.8.4.4", "an address of the world"));
  guest.send_frame(question_frame(own_mac, "127.0.0.1", "an address of the host"));
  guest.send_frame(question_frame(other_mac, "10.77.0.2", "another card"));
  // A frame goes the whole way before the next is taken, so the first one heard tells about all before it.
  guest.send_frame(question_frame(own_mac, "10.77.0.2", "its own"));
  EXPECT_EQ(hear(sockets[2]).content, "its own");
  char byte = 0;
  EXPECT_EQ(::recv(sockets[2].get(), &byte, 1, MSG_DONTWAIT), -1);
}

TEST_F(SlotTest, TheSocketsAreHandedOutOnceAndToTheGatewayOnly) {
  const std::string id = make_slot();
  EXPECT_EQ(client().call(Verb::slot_open, id).failed, Code::permission_denied)
      << "sandboxd is not the gateway";
  EXPECT_EQ(open_as_netd(new_sandbox_id()).failed, Code::not_found);
  auto sockets = sockets_of(id);
  for (std::size_t left = 4; left > 0; --left) {
    EXPECT_EQ(open_as_netd(id).failed, Code::conflict) << left;
    sockets.erase(sockets.begin());
  }
  EXPECT_TRUE(open_as_netd(id).done()) << "the last one is closed";
}

TEST_F(SlotTest, WhatWasTakenOutOfASlotIsPutBack) {
  const std::string id = make_slot(), limited = make_slot(80);
  const Guest guest(path_of_slot(id));
  const auto sockets = sockets_of(id);
  EXPECT_EQ(check(id).values[0], 0U);
  EXPECT_EQ(check(limited, 80).values[0], 0U);
  for (const std::string harm :
       {"nft flush ruleset", "nft flush chain inet space pre", "nft delete table netdev door",
        "nft add rule inet space c_out accept", "ip rule del fwmark 1", "ip -6 rule del fwmark 1",
        "ip route flush table 100", "ip addr flush dev tap0", "ip link set lo down",
        "ip link set tap0 down"}) {
    ASSERT_EQ(in_slot(id, harm), 0) << harm;
    const Got repaired = check(id);
    EXPECT_TRUE(repaired.done()) << harm << ": " << repaired.message;
    EXPECT_EQ(repaired.values[0], 1U) << harm;
    EXPECT_EQ(check(id).values[0], 0U) << harm;
    EXPECT_EQ(guest.outcome("1.2.3.4", 443), 0) << harm;
    EXPECT_EQ(guest.refusal("1.2.3.4", 443), EHOSTUNREACH) << harm;
  }
  ASSERT_EQ(in_slot(limited, "nft delete table netdev limits"), 0);
  EXPECT_EQ(check(limited, 80).values[0], 1U);
  EXPECT_EQ(check(limited, 80).values[0], 0U);
}

TEST_F(SlotTest, ASlotThatIsAnotherOrHasAWayOutIsNotPutRight) {
  EXPECT_EQ(check(new_sandbox_id()).failed, Code::not_found);
  const std::string open = make_slot();
  ASSERT_EQ(in_slot(open, "ip tuntap add way mode tap"), 0);
  EXPECT_EQ(check(open).values[0], 0U) << "a device that is down carries nothing";
  ASSERT_EQ(in_slot(open, "ip link set way up"), 0);
  EXPECT_EQ(check(open).failed, Code::conflict);
  const std::string cut = make_slot();
  ASSERT_EQ(in_slot(cut, "ip link del tap0"), 0);
  EXPECT_EQ(check(cut).failed, Code::conflict);

  const std::string digest = make_image();
  ASSERT_TRUE(import(digest).done());
  const std::string id = make_sandbox(digest);
  const Listeners listeners(root_, id);
  ASSERT_TRUE(launch(id, listeners).done());
  EXPECT_EQ(check(id).values[0], 0U);
  ASSERT_EQ(::umount2(path_of_slot(id).c_str(), MNT_DETACH), 0);
  EXPECT_EQ(check(id).failed, Code::not_found);
  ASSERT_EQ(::mount(path_of_slot(cut).c_str(), path_of_slot(id).c_str(), nullptr, MS_BIND, nullptr), 0);
  EXPECT_EQ(check(id).failed, Code::conflict) << "there is a slot, but not the VM's";
  EXPECT_TRUE(client().call(Verb::vmm_kill, id).done());
  await_exit(id);
  forget_all(id);
}

TEST_F(SlotTest, SpareSlotsLieAheadAndAreNoSlotsOfAnybody) {
  EXPECT_EQ(spares(), 4U);
  EXPECT_TRUE(list().empty());
  std::vector<std::string> ids;
  for (int i = 0; i < 10; ++i) ids.push_back(make_slot());
  EXPECT_EQ(list().size(), 10U);
  // No two are one: a device made in one is in no other.
  for (const std::string& id : ids)
    EXPECT_EQ(in_slot(id, "ip tuntap add " + id.substr(0, 12) + " mode tap"), 0);
  for (const std::string& id : ids) EXPECT_EQ(in_slot(id, "sh -c 'test $(ip -o link | wc -l) -eq 3'"), 0);
  EXPECT_TRUE(await([&] { return spares() == 4; }));
  EXPECT_EQ(stop_noded(SIGKILL) & 0x7f, SIGKILL);
  start_noded(both_clients);
  EXPECT_EQ(spares(), 4U);
  EXPECT_EQ(list().size(), 10U) << "those in use stay";
  for (const std::string& id : ids) EXPECT_TRUE(client().call(Verb::slot_remove, id).done());
  EXPECT_TRUE(await([&] { return spares() == 4; }));
  Client::print_times();
}

}  // namespace
}  // namespace space::noded
