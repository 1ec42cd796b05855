// For bench/egress: the processes around the gateway. Each is forked from the benchmark, serves loopback
// sockets it was given, and ends with this object.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "base/fd.h"

namespace space::bench {

class ChildProcess {
 public:
  ChildProcess() = default;
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();  // kills it and waits

  std::int64_t rss_kib() const;

 private:
  pid_t pid_ = 0;
};

// Runs `body` in a child, which ends with it or with this process.
Result<ChildProcess> start_child(const std::function<void()>& body);

// Bound to a port of 127.0.0.1 that is free; TCP ones listen.
Result<Fd> loopback_socket(int type);
std::uint16_t port_of(const Fd& socket);
// Connected to 127.0.0.1, blocking, without delay.
Result<Fd> connect_loopback(std::uint16_t port);

// Servers of the internet. `greet` says a byte to each connection, reads all it gets, and says one more at
// its end; `source` sends `bytes` to each; `refuse` resets each.
struct Servers {
  Fd greet, source, refuse;
};
Result<ChildProcess> start_servers(const Servers& servers, std::int64_t bytes);

// Gates of space-netd: one loop, four sandboxes. What is connected to `up`, `down` and `neighbour` goes to
// the servers `greet`, `source`, `greet`; `flooded` has the limits every sandbox has by default.
struct GateSockets {
  Fd up, down, neighbour, flooded;
};
Result<ChildProcess> start_gates(GateSockets sockets, std::uint16_t greet_port, std::uint16_t source_port);

// nginx stream, one worker: up and down go where the gates' go.
Result<ChildProcess> start_nginx(const std::string& program, const std::string& module,
                                 const std::string& folder, std::uint16_t up_port, std::uint16_t down_port,
                                 std::uint16_t greet_port, std::uint16_t source_port);

}  // namespace space::bench
