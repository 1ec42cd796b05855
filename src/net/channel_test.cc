#include "net/channel.h"

#include <sys/socket.h>

#include "base/crc32.h"
#include "net/channel_acceptor.h"
#include "net/test_loop.h"

namespace space::channel {
namespace {

using std::chrono::seconds;

constexpr std::string_view preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const std::string frame(9, '\0');  // an empty one

Sync sample_sync(std::uint8_t seed = 1) {
  Sync sync{.epoch = 0x0102030405060708, .wall_clock_us = 1'700'000'000'000'000};
  for (std::size_t i = 0; i < nonce_bytes; ++i) sync.nonce[i] = static_cast<std::byte>(i * 3 + seed);
  for (std::size_t i = 0; i < entropy_bytes; ++i) sync.entropy[i] = static_cast<std::byte>(i * 7 + seed);
  return sync;
}

Bytes joined(std::initializer_list<std::span<const std::byte>> parts) {
  Bytes all;
  for (const auto part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(Crc32, KnownAnswers) {
  EXPECT_EQ(crc32({}), 0U);
  EXPECT_EQ(crc32(as_bytes("123456789")), 0xCBF43926U);
}

TEST(ChannelWire, SizesAndLayoutAreThoseOfTheContract) {
  const Bytes sync = encode(sample_sync());
  ASSERT_EQ(sync.size(), 118U);
  EXPECT_EQ(as_text(sync).substr(0, 8), "SPACESYN");
  EXPECT_EQ(to_hex(std::span(sync).subspan(8, 12)), "000100010102030405060708");
  EXPECT_EQ(to_hex(std::span(sync).subspan(36, 8)), "00060a24181e4000");
  EXPECT_EQ(to_hex(std::span(sync).last(6)), "000000000000");
  const Bytes ack = encode(SyncAck{.version = 1, .nonce = sample_sync().nonce});
  ASSERT_EQ(ack.size(), 32U);
  EXPECT_EQ(as_text(ack).substr(0, 8), "SPACEACK");
  EXPECT_EQ(to_hex(std::span(ack).subspan(8, 2)), "0001");
}

TEST(ChannelScanner, FindsAMessageSplitAtEveryByteAfterStaleBytes) {
  const Sync sync = sample_sync();
  const Bytes stream = joined({as_bytes("stale SPACESYN stale SSPACESY"), encode(sync), as_bytes("PRI")});
  for (std::size_t split = 0; split <= stream.size(); ++split) {
    Scanner<Sync> scanner;
    auto found = scanner.feed(std::span(stream).first(split));
    ASSERT_TRUE(found.has_value());
    Bytes rest;
    if (!*found) {
      found = scanner.feed(std::span(stream).subspan(split));
      ASSERT_TRUE(found.has_value());
      rest = scanner.take_rest();
    } else {
      rest = joined({scanner.take_rest(), std::span(stream).subspan(split)});
    }
    ASSERT_TRUE(found->has_value()) << "split at " << split;
    EXPECT_EQ(**found, sync);
    EXPECT_EQ(as_text(rest), "PRI");
  }
}

TEST(ChannelScanner, FindsAMessageFedByteByByte) {
  const SyncAck ack{.version = 1, .nonce = sample_sync().nonce};
  Scanner<SyncAck> scanner;
  int seen = 0;
  for (const std::byte b : joined({as_bytes("SPACEACKSPACEAC"), encode(ack), encode(ack)})) {
    const auto found = scanner.feed(std::span(&b, 1));
    ASSERT_TRUE(found.has_value());
    if (*found) {
      EXPECT_EQ(**found, ack);
      ++seen;
    }
  }
  EXPECT_EQ(seen, 2);
}

TEST(ChannelScanner, NoMessageWithAFlippedBitPasses) {
  const Bytes good = encode(sample_sync());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    Scanner<Sync> scanner;
    const auto found = scanner.feed(bad);
    ASSERT_TRUE(found.has_value());
    EXPECT_FALSE(found->has_value()) << "bit " << bit;
  }
}

TEST(ChannelScanner, AFloodOfGarbageEndsAtTheLimit) {
  Scanner<SyncAck> scanner(10'000);
  const std::string garbage(1000, 'S');
  std::size_t fed = 0;
  while (scanner.feed(as_bytes(garbage)).has_value()) {
    fed += garbage.size();
    ASSERT_LE(fed, 20'000U);
  }
  EXPECT_GE(fed, 10'000U);
  EXPECT_LT(scanner.take_rest().size(), 2000U);
}

class ChannelTest : public LoopTest {
 protected:
  ChannelTest() { std::tie(host, guest) = make_stream_pair(executor()); }
  void start_accept() { spawn(executor(), "accept", keep(accept(std::move(guest), on_sync()), accepted)); }
  void start_attach(Deadline deadline) {
    spawn(executor(), "attach", keep(attach(std::move(host), sample_sync(), deadline), attached));
  }
  static Task<void> keep(Task<Result<StreamPtr>> task, std::optional<Result<StreamPtr>>& result) {
    result.emplace(co_await std::move(task));
  }
  std::function<void(const Sync&)> on_sync() {
    return [this](const Sync& sync) { syncs.push_back(sync); };
  }
  // The next `count` bytes of a stream.
  static Task<Bytes> take(Stream& stream, std::size_t count) {
    Bytes all(count);
    std::size_t have = 0;
    while (have < count) {
      const auto n = co_await stream.read(std::span(all).subspan(have));
      if (!n || *n == 0) break;
      have += *n;
    }
    all.resize(have);
    co_return all;
  }
  static Task<Sync> take_sync(Stream& stream) {
    Scanner<Sync> scanner;
    const auto found = scanner.feed(co_await take(stream, 118));
    EXPECT_TRUE(found && *found);
    co_return found && *found ? **found : Sync{};
  }
  static Task<void> until(auto& condition) {
    while (!condition) co_await sleep_for(Millis(1));
  }

  StreamPtr host;
  StreamPtr guest;
  std::vector<Sync> syncs;
  std::optional<Result<StreamPtr>> attached;
  std::optional<Result<StreamPtr>> accepted;
};

TEST_F(ChannelTest, HostAndGuestMeetAndNoByteIsLost) {
  start_accept();
  start_attach(Deadline::after(seconds(20)));
  run([&]() -> Task<void> {
    co_await until(attached);
    EXPECT_TRUE(attached->has_value());
    EXPECT_FALSE(accepted.has_value());  // HTTP/2 has not started
    EXPECT_TRUE((co_await (**attached)->write(joined({as_bytes(preface), as_bytes(frame)}))).has_value());
    co_await until(accepted);
    EXPECT_EQ(as_text(co_await take(***accepted, preface.size() + frame.size())),
              std::string(preface) + frame);
    EXPECT_TRUE((co_await (**accepted)->write(as_bytes("answer"))).has_value());
    EXPECT_EQ(as_text(co_await take(***attached, 6)), "answer");
    EXPECT_EQ(syncs.size(), 1U);
    EXPECT_EQ(syncs[0].entropy, sample_sync().entropy);
    EXPECT_GE(syncs[0].wall_clock_us, sample_sync().wall_clock_us);
  });
}

TEST_F(ChannelTest, TheGuestAnswersEachSyncUntilThePrefaceWhereverItIsCut) {
  const Bytes stream =
      joined({as_bytes("old PRI * HTTP/2.0\r\n frames"), encode(sample_sync(1)), encode(sample_sync(2)),
              encode(sample_sync(3)), as_bytes(preface), as_bytes(frame)});
  for (std::size_t split = 1; split < stream.size(); ++split) {
    std::tie(host, guest) = make_stream_pair(executor());
    accepted.reset();
    syncs.clear();
    start_accept();
    run([&]() -> Task<void> {
      EXPECT_TRUE((co_await host->write(std::span(stream).first(split))).has_value());
      co_await sleep_for(Millis(0));
      EXPECT_TRUE((co_await host->write(std::span(stream).subspan(split))).has_value());
      for (std::uint8_t seed = 1; seed <= 3; ++seed) {
        const SyncAck expected{.version = 1, .nonce = sample_sync(seed).nonce};
        EXPECT_EQ(co_await take(*host, 32), encode(expected));
      }
      co_await until(accepted);
      EXPECT_EQ(as_text(co_await take(***accepted, preface.size() + frame.size())),
                std::string(preface) + frame);
    });
    ASSERT_EQ(syncs.size(), 3U) << "split at " << split;
  }
}

TEST_F(ChannelTest, TheGuestSkipsHalfASyncOfAHostThatDied) {
  start_accept();
  run([&]() -> Task<void> {
    const Bytes half = encode(sample_sync(1));
    const Bytes stream = joined(
        {encode(sample_sync(1)), std::span(half).first(60), encode(sample_sync(2)), as_bytes(preface)});
    EXPECT_TRUE((co_await host->write(stream)).has_value());
    co_await until(accepted);
    EXPECT_TRUE(accepted->has_value());
    EXPECT_EQ(syncs.size(), 2U);
    EXPECT_EQ(syncs.back(), sample_sync(2));
  });
}

TEST_F(ChannelTest, TheHostTakesOnlyTheEchoOfItsLatestNonce) {
  start_attach(Deadline::after(seconds(20)));
  run([&]() -> Task<void> {
    const Sync first = co_await take_sync(*guest);
    const Sync second = co_await take_sync(*guest);  // nothing answered: sent again
    EXPECT_NE(first.nonce, second.nonce);
    EXPECT_GT(second.wall_clock_us, first.wall_clock_us);
    const SyncAck stale{.version = 1, .nonce = first.nonce};
    const SyncAck fresh{.version = 1, .nonce = second.nonce};
    EXPECT_TRUE((co_await guest->write(joined({as_bytes("stale SPACEACK"), encode(stale)}))).has_value());
    co_await sleep_for(Millis(5));
    EXPECT_FALSE(attached.has_value());
    EXPECT_TRUE((co_await guest->write(joined({encode(fresh), as_bytes("settings")}))).has_value());
    co_await until(attached);
    EXPECT_TRUE(attached->has_value());
    EXPECT_EQ(as_text(co_await take(***attached, 8)), "settings");
  });
}

// Over real sockets: the answer must arrive though the guest hangs up right after it.
TEST_F(ChannelTest, NoCommonVersionIsAConflictOnBothSides) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  host = make_stream(executor(), Fd(ends[0]));
  guest = make_stream(executor(), Fd(ends[1]));
  start_accept();
  run([&]() -> Task<void> {
    Sync sync = sample_sync();
    sync.version_lowest = 7;
    sync.version_highest = 9;
    auto result = co_await attach(std::move(host), sync, Deadline::after(seconds(20)));
    EXPECT_EQ(result.error().code, Code::conflict);
    co_await until(accepted);
    EXPECT_EQ(accepted->error().code, Code::conflict);
  });
}

TEST_F(ChannelTest, ASilentGuestMeetsTheDeadline) {
  run([&]() -> Task<void> {
    auto result = co_await attach(std::move(host), sample_sync(), Deadline::after(Millis(20)));
    EXPECT_EQ(result.error().code, Code::deadline);
  });
}

TEST_F(ChannelTest, AGuestThatHangsUpIsUnavailable) {
  start_attach(Deadline::after(seconds(20)));
  run([&]() -> Task<void> {
    (void)co_await guest->finish();
    co_await until(attached);
    EXPECT_EQ(attached->error().code, Code::unavailable);
  });
}

TEST_F(ChannelTest, AFloodOfGarbageEndsTheAttach) {
  start_attach(Deadline::after(seconds(50)));
  run([&]() -> Task<void> {
    const std::string garbage(64 * 1024, 'x');
    while (co_await guest->write(as_bytes(garbage))) {
    }
    co_await until(attached);
    EXPECT_EQ(attached->error().code, Code::exhausted);
  });
}

}  // namespace
}  // namespace space::channel
