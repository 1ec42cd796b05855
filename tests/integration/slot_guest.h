// A guest on a slot's tap without a virtual machine: a network namespace with the guest's addresses, whose
// device's frames are carried to the tap and back. Its programs are the test's sockets.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "base/fd.h"

namespace space::noded {

inline constexpr int patience_ms = 10'000;

// What `work` gives, done by a thread inside the network namespace.
template <class Work>
auto inside(const Fd& network, Work work) {
  decltype(work()) result{};
  std::thread([&] {
    ASSERT_EQ(::setns(network.get(), CLONE_NEWNET), 0);
    result = work();
  }).join();
  return result;
}

inline Fd tap_named(const char* name) {
  Fd tap(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  EXPECT_EQ(::ioctl(tap.get(), TUNSETIFF, &request), 0) << std::strerror(errno);
  return tap;
}

struct Address {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  std::string text() const {
    char buffer[INET6_ADDRSTRLEN] = {};
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    if (storage.ss_family == AF_INET)
      ::inet_ntop(AF_INET, &v4->sin_addr, buffer, sizeof buffer);
    else
      ::inet_ntop(AF_INET6, &v6->sin6_addr, buffer, sizeof buffer);
    return fmt::format("{} {}", buffer, ntohs(v4->sin_port));  // the port lies at the same place in both
  }
};

inline Address address_of(const std::string& host, std::uint16_t port) {
  Address address;
  sockaddr_in v4{.sin_family = AF_INET, .sin_port = htons(port)};
  sockaddr_in6 v6{.sin6_family = AF_INET6, .sin6_port = htons(port)};
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1)
    std::memcpy(&address.storage, &v4, address.size = sizeof v4);
  else if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1)
    std::memcpy(&address.storage, &v6, address.size = sizeof v6);
  return address;
}

inline bool becomes(const Fd& fd, short event) {
  pollfd ready{fd.get(), event, 0};
  return ::poll(&ready, 1, patience_ms) == 1;
}

inline int error_of(const Fd& socket) {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

// The guest: a namespace with eth0, and a thread that carries frames between eth0 and the slot's tap.
class Guest {
 public:
  explicit Guest(const std::string& slot_path) : slot_(::open(slot_path.c_str(), O_RDONLY | O_CLOEXEC)) {
    std::thread([this] {
      EXPECT_EQ(::unshare(CLONE_NEWNET), 0);
      network_.reset(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
      device_ = tap_named("eth0");
      EXPECT_EQ(
          std::system(
              "ip link set eth0 address 02:53:50:41:43:45 && ip link set eth0 up && ip link set lo up && "
              "ip addr add 10.77.0.2/30 dev eth0 && ip route add default via 10.77.0.1 && "
              "ip addr add fd53:5041:4345::2/126 dev eth0 nodad && "
              "ip -6 route add default via fd53:5041:4345::1"),
          0);
    }).join();
    tap_ = inside(slot_, [] { return tap_named("tap0"); });
    pump_ = std::thread([this] { pump(); });
  }
  ~Guest() {
    stop_ = true;
    pump_.join();
  }

  void send_frame(const std::string& frame) const {
    const std::string bytes = std::string(virtio_header, '\0') + frame;
    EXPECT_EQ(::write(tap_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  Fd socket(int family, int type, int number = 0) const {
    return inside(network_,
                  [=] { return Fd(::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, number)); });
  }
  // Connected, or on the way.
  Fd connect(const std::string& host, std::uint16_t port, int type = SOCK_STREAM, int number = 0) const {
    Address to = address_of(host, port);
    Fd fd = socket(to.storage.ss_family, type, number);
    (void)::connect(fd.get(), to.get(), to.size);
    return fd;
  }
  // How an attempt ends: 0 = it was let in.
  int outcome(const std::string& host, std::uint16_t port) const {
    const Fd fd = connect(host, port);
    return becomes(fd, POLLOUT) ? error_of(fd) : ETIMEDOUT;
  }
  // The same of a datagram that should be refused.
  int refusal(const std::string& host, std::uint16_t port, int type = SOCK_DGRAM, int number = 0) const {
    const Fd fd = connect(host, port, type, number);
    EXPECT_EQ(::send(fd.get(), "question", 8, 0), 8);
    return becomes(fd, POLLERR) ? error_of(fd) : ETIMEDOUT;
  }

 private:
  static constexpr std::size_t virtio_header = 10;

  void pump() const {
    while (!stop_) {
      pollfd ready[] = {{tap_.get(), POLLIN, 0}, {device_.get(), POLLIN, 0}};
      if (::poll(ready, 2, 20) <= 0) continue;
      carry(tap_, device_);
      carry(device_, tap_);
    }
  }
  static void carry(const Fd& from, const Fd& to) {
    char frame[4096];
    for (ssize_t got = 0; (got = ::read(from.get(), frame, sizeof frame)) > 0;)
      (void)!::write(to.get(), frame, static_cast<std::size_t>(got));
  }

  Fd slot_, network_, device_, tap_;
  std::thread pump_;
  std::atomic<bool> stop_ = false;
};

}  // namespace space::noded
