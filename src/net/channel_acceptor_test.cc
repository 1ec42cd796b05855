#include "net/channel_acceptor.h"

#include <algorithm>

#include "net/frame_scan.h"
#include "net/h2_session.h"
#include "net/test_loop.h"

namespace space::channel {
namespace {

constexpr std::string_view preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

Sync sample_sync(std::uint8_t seed) {
  Sync sync{.epoch = seed};
  sync.nonce.fill(static_cast<std::byte>(seed));
  return sync;
}

Bytes joined(std::initializer_list<std::span<const std::byte>> parts) {
  Bytes all;
  for (const auto part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// A DATA frame of stream 1.
Bytes frame(std::span<const std::byte> payload) {
  const std::size_t size = payload.size();
  const Bytes head{std::byte{0},
                   static_cast<std::byte>(size >> 8),
                   static_cast<std::byte>(size & 0xff),
                   std::byte{0},
                   std::byte{0},
                   std::byte{0},
                   std::byte{0},
                   std::byte{0},
                   std::byte{1}};
  return joined({head, payload});
}

TEST(FrameScan, OnlyTheBeginningOfAFrameCanEndASession) {
  const Bytes sync = encode(sample_sync(1));
  const Bytes session = joined({as_bytes(preface), frame(sync), frame({}), frame(joined({sync, sync}))});
  const Bytes all = joined({session, sync, as_bytes(preface)});
  for (std::size_t piece = 1; piece <= all.size(); ++piece) {
    FrameScan scan;
    std::size_t taken = 0;
    for (std::size_t at = 0; at < all.size(); at += piece) {
      const auto now = std::span(all).subspan(at, std::min(piece, all.size() - at));
      const std::size_t count = scan.take(now);
      taken += count;
      EXPECT_EQ(count < now.size(), scan.ended());
    }
    ASSERT_EQ(taken, session.size()) << piece;
    ASSERT_TRUE(scan.ended());
  }
  FrameScan whole;
  EXPECT_EQ(whole.take(session), session.size());
  EXPECT_FALSE(whole.ended());
}

class AcceptorTest : public LoopTest {
 protected:
  AcceptorTest() {
    auto [ours, theirs] = make_stream_pair(executor());
    host = std::move(ours);
    acceptor.reopen(std::move(theirs));
  }
  Task<Result<StreamPtr>> accept() {
    return acceptor.accept([this](const Sync& sync) { epochs.push_back(sync.epoch); });
  }
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

  Acceptor acceptor;
  StreamPtr host;
  std::vector<std::uint64_t> epochs;
};

TEST_F(AcceptorTest, ASyncInTheNextFramesPlaceBeginsTheNextSessionWhereverItIsCut) {
  const Bytes first = joined({as_bytes(preface), frame(as_bytes("one"))});
  const Bytes second = joined({as_bytes(preface), frame(as_bytes("two"))});
  const Bytes all = joined({encode(sample_sync(1)), first, encode(sample_sync(2)), second});
  for (std::size_t split = 1; split < all.size(); ++split) {
    auto [ours, theirs] = make_stream_pair(executor());
    host = std::move(ours);
    acceptor = Acceptor(std::move(theirs));
    epochs.clear();
    run([&]() -> Task<void> {
      spawn(executor(), "host", [](Stream& stream, Bytes bytes, std::size_t at) -> Task<void> {
        (void)co_await stream.write(std::span(bytes).first(at));
        co_await sleep_for(Millis(0));
        (void)co_await stream.write(std::span(bytes).subspan(at));
      }(*host, all, split));
      for (const Bytes& wanted : {first, second}) {
        auto session = co_await accept();
        EXPECT_TRUE(session.has_value());
        if (!session) co_return;
        EXPECT_EQ(co_await take(**session, wanted.size()), wanted);
        EXPECT_EQ(&wanted == &second, false);
        if (epochs.size() == 2) co_return;
        std::byte more[8];
        EXPECT_EQ((co_await (*session)->read(more)).error().code, Code::unavailable);
        (*session)->reset();
        EXPECT_TRUE(acceptor.is_open());
        EXPECT_TRUE(acceptor.has_more());
      }
    });
    ASSERT_EQ(epochs, (std::vector<std::uint64_t>{1, 2})) << split;
  }
}

// What a client uploads must not become the host's word.
TEST_F(AcceptorTest, ASyncInsideOfAFrameIsTheClientsAndNothingElse) {
  const Bytes control = joined({encode(sample_sync(66)), as_bytes(preface)});
  run([&]() -> Task<void> {
    EXPECT_TRUE((co_await host->write(joined({encode(sample_sync(1)), as_bytes(preface), frame(control)})))
                    .has_value());
    auto session = co_await accept();
    EXPECT_EQ(co_await take(**session, preface.size() + 9 + control.size()),
              joined({as_bytes(preface), frame(control)}));
    // The session ends in the midst of the next one, for whatever reason.
    const Bytes next = frame(control);
    EXPECT_TRUE((co_await host->write(std::span(next).first(9))).has_value());
    EXPECT_EQ((co_await take(**session, 9)).size(), 9U);
    (*session)->reset();
    EXPECT_FALSE(acceptor.is_open());
    auto [ours, theirs] = make_stream_pair(executor());
    host = std::move(ours);
    acceptor.reopen(std::move(theirs));
    EXPECT_TRUE((co_await host->write(joined({std::span(next).subspan(9), frame(control),
                                              encode(sample_sync(2)), as_bytes(preface)})))
                    .has_value());
    session = co_await accept();
    EXPECT_TRUE(session.has_value());
    EXPECT_EQ(as_text(co_await take(**session, preface.size())), preface);
  });
  EXPECT_EQ(epochs, (std::vector<std::uint64_t>{1, 2}));
}

// The control of the one above: with a host that has hung up what it was sending is over, too.
TEST_F(AcceptorTest, AHangUpForgetsWhereTheSessionStood) {
  run([&]() -> Task<void> {
    EXPECT_TRUE((co_await host->write(joined({encode(sample_sync(1)), as_bytes(preface)}))).has_value());
    auto session = co_await accept();
    EXPECT_EQ(as_text(co_await take(**session, preface.size())), preface);
    const Bytes half = frame(as_bytes("much more"));
    EXPECT_TRUE((co_await host->write(std::span(half).first(12))).has_value());
    EXPECT_TRUE((co_await host->finish()).has_value());
    EXPECT_EQ((co_await take(**session, 64)).size(), 12U);
    EXPECT_FALSE(acceptor.is_open());
    EXPECT_FALSE(acceptor.has_more());
    EXPECT_EQ((co_await accept()).error().code, Code::unavailable);
    auto [ours, theirs] = make_stream_pair(executor());
    host = std::move(ours);
    acceptor.reopen(std::move(theirs));
    EXPECT_TRUE((co_await host->write(joined({encode(sample_sync(3)), as_bytes(preface)}))).has_value());
    session = co_await accept();
    EXPECT_TRUE(session.has_value());
  });
  EXPECT_EQ(epochs, (std::vector<std::uint64_t>{1, 3}));
}

// Its rest would end up in the midst of what the next session says.
TEST_F(AcceptorTest, AWriteUnderWayClosesTheTransportAndTheNextHostIsNotForgotten) {
  run([&]() -> Task<void> {
    const Bytes again = joined({encode(sample_sync(2)), as_bytes(preface)});
    EXPECT_TRUE(
        (co_await host->write(joined({encode(sample_sync(1)), as_bytes(preface), again}))).has_value());
    auto session = co_await accept();
    EXPECT_EQ(as_text(co_await take(**session, preface.size())), preface);
    bool ended = false;
    spawn(executor(), "clogged", [](Stream& stream, bool& over) -> Task<void> {
      EXPECT_FALSE((co_await stream.write(Bytes(1 << 20))).has_value());
      over = true;
    }(**session, ended));
    co_await sleep_for(Millis(1));
    std::byte more[8];
    EXPECT_FALSE((co_await (*session)->read(more)).has_value());
    (*session)->reset();
    while (!ended) co_await sleep_for(Millis(1));
    EXPECT_FALSE(acceptor.is_open());
    EXPECT_TRUE(acceptor.has_more());
    auto [ours, theirs] = make_stream_pair(executor());
    host = std::move(ours);
    acceptor.reopen(std::move(theirs));
    session = co_await accept();
    EXPECT_TRUE(session.has_value());
  });
  EXPECT_EQ(epochs, (std::vector<std::uint64_t>{1, 2}));
}

// A machine's end of the wire, which no host's end ends: hosts come and go as those of its copies do.
struct Wire {
  StreamPtr end;
  std::shared_ptr<Stream> host;  // of this moment

  static Task<void> to_guest(std::shared_ptr<Wire> wire, std::shared_ptr<Stream> host) {
    std::array<std::byte, 4096> buffer;
    while (const auto n = co_await host->read(buffer))
      if (*n == 0 || !co_await wire->end->write(std::span(buffer).first(*n))) break;
  }
  static Task<void> to_host(std::shared_ptr<Wire> wire) {
    std::array<std::byte, 4096> buffer;
    while (const auto n = co_await wire->end->read(buffer)) {
      if (*n == 0) break;
      if (const auto host = wire->host) (void)co_await host->write(std::span(buffer).first(*n));
    }
  }
};

Task<void> serve_calls(Acceptor& acceptor, std::vector<Error>& ends) {
  while (acceptor.is_open()) {
    auto accepted = co_await acceptor.accept([](const Sync&) {});
    if (!accepted) co_return;
    H2Handlers handlers;
    handlers.call = [](CallRequest request) -> Task<CallResponse> {
      co_return CallResponse{200, "to " + request.path};
    };
    ends.push_back(co_await H2Session::server(*std::move(accepted), std::move(handlers))->run());
  }
}

Task<void> drive(std::shared_ptr<H2Session> session) {
  (void)co_await session->run();
}

TEST_F(AcceptorTest, HttpSessionsFollowEachOtherOnOneWire) {
  std::vector<Error> ends;
  run([&]() -> Task<void> {
    const auto wire = std::make_shared<Wire>();
    wire->end = std::move(host);
    spawn(executor(), "wire", Wire::to_host(wire));
    spawn(executor(), "guest", serve_calls(acceptor, ends));
    for (std::size_t i = 0; i < 3; ++i) {
      auto [near, far] = make_stream_pair(executor());
      wire->host = std::move(far);
      spawn(executor(), "wire", Wire::to_guest(wire, wire->host));
      auto stream = co_await attach(std::move(near), Sync{}, soon());
      EXPECT_TRUE(stream.has_value());
      if (!stream) co_return;
      const auto session = H2Session::client(*std::move(stream));
      spawn(executor(), "host", drive(session));
      const auto answer = co_await session->call({.path = "/x", .body = std::string(50'000, 'x')}, soon());
      EXPECT_EQ(answer->body, "to /x");
      EXPECT_EQ(ends.size(), i);
      EXPECT_TRUE(co_await session->hold(soon()));
      session->close("the machine was copied");
    }
    wire->end->reset();
  });
}

}  // namespace
}  // namespace space::channel
