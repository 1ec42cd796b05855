#include "netd/ares_exchange.h"

#include <arpa/inet.h>

#include <cstring>

namespace space::netd {

namespace {

// A resolver has so long, then the next is asked, and after the last the first for twice as long.
constexpr int first_try_ms = 1000;
constexpr int rounds = 2;

struct ServerList {
  std::vector<ares_addr_port_node> nodes;
  explicit ServerList(std::span<const ResolverEndpoint> resolvers) : nodes(resolvers.size()) {
    for (std::size_t i = 0; i < resolvers.size(); ++i) {
      ares_addr_port_node& node = nodes[i];
      const Bytes address = resolvers[i].address.bytes();
      node.next = i + 1 < nodes.size() ? &nodes[i + 1] : nullptr;
      node.family = resolvers[i].address.is_v4() ? AF_INET : AF_INET6;
      std::memcpy(&node.addr, address.data(), address.size());
      node.udp_port = node.tcp_port = resolvers[i].port;
    }
  }
};

Result<ares_channel> open_channel(ares_sock_state_cb on_socket, void* data, bool over_tcp) {
  ares_options options{};
  options.flags =
      ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS | (over_tcp ? ARES_FLAG_USEVC : 0);
  options.timeout = first_try_ms;
  options.tries = rounds;
  options.ednspsz = static_cast<int>(dns_limits::udp_bytes);
  char lookups[] = "b";
  options.lookups = lookups;
  options.sock_state_cb = on_socket;
  options.sock_state_cb_data = data;
  // Everything is said here, so that it reads no file: servers, domains, order.
  const int all = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS | ARES_OPT_SERVERS |
                  ARES_OPT_DOMAINS | ARES_OPT_LOOKUPS | ARES_OPT_SORTLIST | ARES_OPT_EDNSPSZ |
                  ARES_OPT_SOCK_STATE_CB;
  ares_channel channel = nullptr;
  const int status = ares_init_options(&channel, &options, all);
  if (status != ARES_SUCCESS) return fail(Code::internal, "resolver channel: {}", ares_strerror(status));
  return channel;
}

}  // namespace

AresExchange::AresExchange(const Executor& executor)
    : executor_(executor), timer_(executor), done_(executor) {}

AresExchange::~AresExchange() {
  close();
}

Result<void> AresExchange::open(std::span<const ResolverEndpoint> resolvers, bool over_tcp) {
  SPACE_TRY(channel_, open_channel(&on_socket, this, over_tcp));
  ServerList servers(resolvers);
  const int status = ares_set_servers_ports(channel_, servers.nodes.data());
  if (status != ARES_SUCCESS) return fail(Code::internal, "resolver channel: {}", ares_strerror(status));
  return {};
}

void AresExchange::send(Bytes query) {
  ares_send(channel_, reinterpret_cast<const unsigned char*>(query.data()), static_cast<int>(query.size()),
            &on_answer, this);
  arm_timer();
}

Task<Result<Bytes>> AresExchange::answer(Deadline deadline) {
  while (!result_) {
    if (!co_await done_.wait(deadline)) co_return fail(Code::deadline, "no resolver answered in time");
  }
  co_return *result_;
}

void AresExchange::close() noexcept {
  timer_.cancel();
  // Its sockets are given back by on_socket before they close.
  if (channel_ != nullptr) ares_destroy(std::exchange(channel_, nullptr));
  watches_.clear();
}

void AresExchange::on_socket(void* self, ares_socket_t fd, int readable, int writable) {
  auto& watches = static_cast<AresExchange*>(self)->watches_;
  if (readable == 0 && writable == 0) {
    const auto watch = watches.extract(fd);
    if (watch) watch.mapped()->descriptor.release();  // c-ares closes it
    return;
  }
  auto& watch = watches[fd];
  if (!watch) watch = std::make_shared<Watch>(static_cast<AresExchange*>(self)->executor_, fd);
  watch->want_read = readable != 0;
  watch->want_write = writable != 0;
  static_cast<AresExchange*>(self)->arm(watch);
}

void AresExchange::on_answer(void* self, int status, int timeouts, unsigned char* bytes, int size) {
  auto* exchange = static_cast<AresExchange*>(self);
  if (exchange->result_) return;
  exchange->timeouts_ = timeouts;
  if (status == ARES_SUCCESS && bytes != nullptr && size > 0) {
    const std::span answer(reinterpret_cast<const std::byte*>(bytes), static_cast<std::size_t>(size));
    exchange->result_.emplace(Bytes(answer.begin(), answer.end()));
  } else if (status == ARES_ETIMEOUT) {
    exchange->result_.emplace(fail(Code::deadline, "no resolver answered in time"));
  } else {
    exchange->result_.emplace(fail(Code::unavailable, "resolver: {}", ares_strerror(status)));
  }
  exchange->done_.notify_all();
}

void AresExchange::arm(const std::shared_ptr<Watch>& watch) {
  if (watch->want_read && !std::exchange(watch->reading, true)) start_wait(watch, Wait::wait_read);
  if (watch->want_write && !std::exchange(watch->writing, true)) start_wait(watch, Wait::wait_write);
}

void AresExchange::start_wait(const std::shared_ptr<Watch>& watch, Wait kind) {
  watch->descriptor.async_wait(
      kind, [self = shared_from_this(), watch, kind](const boost::system::error_code& error) {
        (kind == Wait::wait_read ? watch->reading : watch->writing) = false;
        if (error || self->channel_ == nullptr || !watch->descriptor.is_open()) return;
        const int fd = watch->descriptor.native_handle();
        const bool wanted = kind == Wait::wait_read ? watch->want_read : watch->want_write;
        if (wanted && kind == Wait::wait_read) self->process(fd, ARES_SOCKET_BAD);
        if (wanted && kind == Wait::wait_write) self->process(ARES_SOCKET_BAD, fd);
        if (watch->descriptor.is_open()) self->arm(watch);
      });
}

void AresExchange::process(ares_socket_t readable, ares_socket_t writable) {
  ares_process_fd(channel_, readable, writable);
  arm_timer();
}

void AresExchange::arm_timer() {
  timeval left{};
  if (channel_ == nullptr || ares_timeout(channel_, nullptr, &left) == nullptr) return;
  // Rounded up: a timer that is early would only be set again.
  timer_.expires_after(std::chrono::seconds(left.tv_sec) + std::chrono::microseconds(left.tv_usec) +
                       Millis(1));
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error && self->channel_ != nullptr) self->process(ARES_SOCKET_BAD, ARES_SOCKET_BAD);
  });
}

}  // namespace space::netd
