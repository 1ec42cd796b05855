// AresExchange: one question to the resolvers by c-ares, on the loop. It has a channel of its own and with it
// a socket and a source port of its own, so that who wants to forge an answer must guess them each time.
#pragma once

#include <ares.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "net/task.h"
#include "netd/resolver.h"

namespace space::netd {

class AresExchange : public std::enable_shared_from_this<AresExchange> {
 public:
  explicit AresExchange(const Executor& executor);
  ~AresExchange();
  AresExchange(const AresExchange&) = delete;
  AresExchange& operator=(const AresExchange&) = delete;

  Result<void> open(std::span<const ResolverEndpoint> resolvers, bool over_tcp);
  void send(Bytes query);
  // The answer of the first resolver that gave one, as it is.
  Task<Result<Bytes>> answer(Deadline deadline);
  // How often a resolver was waited for in vain.
  int timeouts() const { return timeouts_; }
  // Ends it, wherever it is. What was answered stays.
  void close() noexcept;

 private:
  struct Watch {
    Watch(const Executor& executor, int fd) : descriptor(executor, fd) {}
    boost::asio::posix::stream_descriptor descriptor;
    bool want_read = false, want_write = false;
    bool reading = false, writing = false;  // a wait is under way
  };
  using Wait = boost::asio::posix::stream_descriptor::wait_type;

  static void on_socket(void* self, ares_socket_t fd, int readable, int writable);
  static void on_answer(void* self, int status, int timeouts, unsigned char* bytes, int size);
  void arm(const std::shared_ptr<Watch>& watch);
  void start_wait(const std::shared_ptr<Watch>& watch, Wait kind);
  void process(ares_socket_t readable, ares_socket_t writable);
  void arm_timer();

  Executor executor_;
  ares_channel channel_ = nullptr;
  std::map<int, std::shared_ptr<Watch>> watches_;
  boost::asio::steady_timer timer_;
  Event done_;
  std::optional<Result<Bytes>> result_;
  int timeouts_ = 0;
};

}  // namespace space::netd
