#include "netd/relay.h"

#include "netd/test_gate.h"

namespace space::netd {
namespace {

using namespace std::chrono_literals;

// Two connections and a relay between their inner ends.
class RelayTest : public LoopTest {
 protected:
  struct Connection {
    StreamPtr outer;
    FlowSocketPtr inner;
  };
  Connection connection() {
    const Fd listener = loopback_socket(AF_INET, SOCK_STREAM);
    Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const SocketAddress to = to_sockaddr(address("127.0.0.1"), port_of(listener.get()));
    EXPECT_EQ(::connect(client.get(), to.get(), to.size), 0);
    Fd accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    return {make_stream(executor(), std::move(client)),
            std::make_shared<FlowSocket>(executor(), std::move(accepted))};
  }
  void start() {
    guest_ = connection();
    server_ = connection();
    spawn(executor(), "relay", relay_them());
  }
  Task<void> relay_them() {
    end_ = co_await relay({guest_.inner, server_.inner, scratch_, traffic_, count_});
  }
  Task<void> send(Stream& to, std::size_t bytes) {
    std::string piece(64 * 1024, '\0');
    for (std::size_t at = 0; at < bytes; at += piece.size()) {
      for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<char>((at + i) * 31 >> 5);
      EXPECT_TRUE(co_await to.write(as_bytes(piece)));
    }
    co_await to.finish();
    ++sent_;
  }
  // How many bytes came, all of them right.
  Task<std::size_t> take(Stream& from) {
    std::array<std::byte, 64 * 1024> buffer;
    std::size_t at = 0;
    while (true) {
      const auto n = co_await from.read(buffer);
      if (!n || *n == 0) co_return n ? at : 0;
      for (std::size_t i = 0; i < *n; ++i)
        if (buffer[i] != static_cast<std::byte>((at + i) * 31 >> 5)) co_return 0;
      at += *n;
    }
  }

  Bytes scratch_ = Bytes(LoopParts::scratch_bytes);
  Traffic traffic_;
  RelayCount count_;
  Connection guest_, server_;
  std::optional<RelayEnd> end_;
  unsigned sent_ = 0;
};

constexpr std::size_t much = 16 << 20;

TEST_F(RelayTest, both_directions_at_once_byte_for_byte) {
  run([&]() -> Task<void> {
    start();
    spawn(executor(), "send", send(*guest_.outer, much));
    spawn(executor(), "send", send(*server_.outer, much));
    EXPECT_EQ(co_await take(*server_.outer), much);
    EXPECT_EQ(co_await take(*guest_.outer), much);
    for (int i = 0; i < 1000 && !end_; ++i) co_await sleep_for(1ms);
    EXPECT_EQ(end_, RelayEnd::ended);
    EXPECT_EQ(count_.in, much);
    EXPECT_EQ(count_.out, much);
    EXPECT_FALSE(guest_.inner->open() || server_.inner->open());
  });
}

TEST_F(RelayTest, who_takes_nothing_holds_the_other_back) {
  run([&]() -> Task<void> {
    start();
    spawn(executor(), "send", send(*guest_.outer, 4 * much));
    std::uint64_t before = ~std::uint64_t{0};
    while (before != count_.out) {
      before = count_.out;
      co_await sleep_for(50ms);
    }
    EXPECT_EQ(sent_, 0U);
    EXPECT_GT(traffic_.waiting, 0U);
    EXPECT_LE(traffic_.waiting, LoopParts::scratch_bytes);
    EXPECT_EQ(co_await take(*server_.outer), 4 * much);
    EXPECT_EQ(traffic_.waiting, 0U);
    EXPECT_EQ(sent_, 1U);
    server_.outer->reset();
  });
}

TEST_F(RelayTest, a_sender_that_breaks_off_is_noticed_while_nobody_takes) {
  run([&]() -> Task<void> {
    start();
    const std::string piece(1 << 20, 'x');
    while (traffic_.waiting == 0) {
      (void)co_await with_deadline(guest_.outer->write(as_bytes(piece)), Deadline::after(20ms), "write");
    }
    EXPECT_FALSE(end_);
    guest_.outer->reset();
    for (int i = 0; i < 5000 && !end_; ++i) co_await sleep_for(1ms);
    EXPECT_EQ(end_, RelayEnd::broken);
  });
}

TEST_F(RelayTest, with_a_rate_all_of_it_comes) {
  run([&]() -> Task<void> {
    traffic_.set_limits({.bytes_per_s = 1 << 20, .bytes_total = 0}, system_clock().monotonic());
    start();
    spawn(executor(), "send", send(*guest_.outer, 5 << 18));
    EXPECT_EQ(co_await take(*server_.outer), 5U << 18);
    server_.outer->reset();
  });
}

TEST(Pace, gives_back_what_time_brings) {
  Pace pace;
  const Monotonic start{std::chrono::hours(1)};
  EXPECT_EQ(pace.passed(1'000'000, start), Millis(0));  // no limit
  pace.set(1000, start);
  EXPECT_EQ(pace.passed(1000, start), Millis(0));
  EXPECT_EQ(pace.passed(500, start), Millis(500));
  EXPECT_EQ(pace.passed(0, start + 500ms), Millis(0));
  EXPECT_EQ(pace.passed(1000, start + 10s), Millis(0));
  EXPECT_EQ(pace.passed(1, start + 10s), Millis(1));
}

}  // namespace
}  // namespace space::netd
