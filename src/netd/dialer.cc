#include "netd/dialer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <cerrno>

namespace space::netd {
namespace {

using namespace std::chrono_literals;
using namespace boost::asio::experimental::awaitable_operators;

constexpr Millis head_start = 250ms;
constexpr Millis attempt_limit = 5s;
// A destination that vanished is noticed, however long its flow is idle.
constexpr int keepalive_idle_s = 600;

DialFailure failure_of(int error) {
  switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
      return DialFailure::refused;
    case ETIMEDOUT:
      return DialFailure::timeout;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return DialFailure::no_descriptor;
    default:
      return DialFailure::unreachable;
  }
}

void set_options(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &keepalive_idle_s, sizeof keepalive_idle_s);
}

struct Attempt {
  Dialled dialled;
  Deadline limit;
};

// Under way, or an errno.
std::expected<Attempt, int> begin(const Executor& executor, const IpAddress& address,
                                  const SocketAddress& to) {
  Fd fd(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return std::unexpected(errno);
  set_options(fd.get());
  if (::connect(fd.get(), to.get(), to.size) != 0 && errno != EINPROGRESS) return std::unexpected(errno);
  return Attempt{{std::make_shared<FlowSocket>(executor, std::move(fd)), address},
                 Deadline::after(attempt_limit)};
}

// -1: still under way, 0: connected, else an errno.
int outcome(FlowSocket& socket) {
  pollfd question{.fd = socket.fd(), .events = POLLOUT, .revents = 0};
  if (::poll(&question, 1, 0) <= 0) return -1;
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

class Race {
 public:
  Race(Executor executor, std::vector<IpAddress> addresses, std::uint16_t port, DialRules rules)
      : executor_(std::move(executor)),
        addresses_(std::move(addresses)),
        port_(port),
        rules_(std::move(rules)) {}

  Task<std::expected<Dialled, DialFailure>> run(Deadline deadline) {
    while (true) {
      if (under_way_.size() < 2) start_next();
      if (under_way_.empty()) co_return std::unexpected(failure_);
      co_await wait(deadline);
      if (auto winner = collect()) co_return *std::move(winner);
      if (deadline.passed()) co_return std::unexpected(DialFailure::timeout);
    }
  }

 private:
  void start_next() {
    const std::size_t before = under_way_.size();
    while (next_ < addresses_.size() && under_way_.size() == before) {
      const IpAddress address = addresses_[next_++];
      if (!rules_.check(address)) continue;
      auto attempt = begin(executor_, address, rules_.route(address, port_));
      if (attempt) {
        under_way_.push_back(*std::move(attempt));
      } else {
        failure_ = failure_of(attempt.error());
      }
    }
  }

  Task<void> wait(Deadline deadline) {
    Deadline until = deadline;
    for (const Attempt& attempt : under_way_)
      until = Deadline::at(std::min(until.when(), attempt.limit.when()));
    if (next_ < addresses_.size() && under_way_.size() < 2) until = until.at_most(head_start);
    const FlowSocketPtr first = under_way_.front().dialled.socket;
    const FlowSocketPtr second = under_way_.back().dialled.socket;
    if (outcome_known(*first)) co_return;
    if (first == second) {
      co_await (first->writable() || sleep_until(until));
    } else {
      co_await (first->writable() || second->writable() || sleep_until(until));
    }
  }

  // Connected at once: to this machine itself.
  static bool outcome_known(FlowSocket& socket) {
    pollfd question{.fd = socket.fd(), .events = POLLOUT, .revents = 0};
    return ::poll(&question, 1, 0) > 0;
  }

  std::optional<Dialled> collect() {
    for (auto attempt = under_way_.begin(); attempt != under_way_.end();) {
      const int result = outcome(*attempt->dialled.socket);
      if (result == 0) return std::move(attempt->dialled);
      if (result < 0 && !attempt->limit.passed()) {
        ++attempt;
        continue;
      }
      failure_ = failure_of(result < 0 ? ETIMEDOUT : result);
      attempt = under_way_.erase(attempt);
    }
    return std::nullopt;
  }

  Executor executor_;
  std::vector<IpAddress> addresses_;
  std::uint16_t port_;
  DialRules rules_;
  std::size_t next_ = 0;
  std::vector<Attempt> under_way_;
  DialFailure failure_ = DialFailure::forbidden;
};

}  // namespace

Task<std::expected<Dialled, DialFailure>> dial(std::vector<IpAddress> addresses, std::uint16_t port,
                                               DialRules rules, Deadline deadline) {
  Race race(co_await boost::asio::this_coro::executor, std::move(addresses), port, std::move(rules));
  co_return co_await race.run(deadline);
}

}  // namespace space::netd
