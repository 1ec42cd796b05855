#include <algorithm>

#include "net/http.h"
#include "net/test_loop.h"

namespace space::http {
namespace {

using std::chrono::milliseconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// Counts what reaches the transport.
class CountingStream final : public Stream {
 public:
  CountingStream(StreamPtr stream, int* writes) : stream_(std::move(stream)), writes_(writes) {}
  Task<Result<std::size_t>> read(std::span<std::byte> into) override { return stream_->read(into); }
  Task<Result<void>> write(std::span<const std::byte> bytes) override {
    ++*writes_;
    return stream_->write(bytes);
  }
  Task<Result<void>> finish() override { return stream_->finish(); }
  void reset() noexcept override { stream_->reset(); }

 private:
  StreamPtr stream_;
  int* writes_;
};

class HttpServerTest : public LoopTest {
 protected:
  HttpServerTest() {
    auto [near, far] = make_stream_pair(executor());
    client = std::move(near);
    server.emplace(std::make_unique<CountingStream>(std::move(far), &writes));
  }
  ~HttpServerTest() override {
    server.reset();
    client.reset();
  }

  Task<RequestHead> next() {
    auto head = co_await server->read_request(soon());
    EXPECT_TRUE(head && *head) << (head ? "closed" : head.error().message);
    co_return head && *head ? **std::move(head) : RequestHead{};
  }
  Task<std::string> body() {
    auto text = co_await read_all(server->body(), 1'000'000);
    co_return text ? *text : "error: " + text.error().message;
  }
  Task<void> answer(int status, std::string text) {
    const auto sent = co_await server->respond({.status = status, .fields = {}}, text);
    EXPECT_TRUE(sent) << sent.error().message;
  }
  Task<std::string> received_until(std::string ending) { return read_until(*client, ending); }

  int writes = 0;
  StreamPtr client;
  std::optional<ServerConnection> server;
};

TEST_F(HttpServerTest, KeepsTheConnectionAndAnswersInOneWrite) {
  run([this]() -> Task<void> {
    for (int i = 1; i <= 3; ++i) {
      co_await write_text(*client, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
      EXPECT_EQ((co_await next()).target, "/a");
      co_await answer(200, "hello");
      EXPECT_EQ(co_await received_until("hello"), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
      EXPECT_EQ(writes, i);
    }
    EXPECT_TRUE(co_await client->finish());
    EXPECT_EQ(*co_await server->read_request(soon()), std::nullopt);
  });
}

TEST_F(HttpServerTest, PipelinedRequestsKeepTheirBodiesApart) {
  run([this]() -> Task<void> {
    co_await write_text(*client,
                        "POST /1 HTTP/1.1\r\nContent-Length: 3\r\n\r\none"
                        "POST /2 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\ntw\r\n1\r\no\r\n0\r\n\r\n"
                        "GET /3 HTTP/1.1\r\n\r\n"
                        "POST /4 HTTP/1.1\r\nContent-Length: 4\r\n\r\nfour");
    EXPECT_EQ((co_await next()).path(), "/1");
    EXPECT_EQ(co_await body(), "one");
    co_await answer(200, "");
    EXPECT_EQ((co_await next()).path(), "/2");
    EXPECT_EQ(co_await body(), "two");
    co_await answer(200, "");
    EXPECT_EQ((co_await next()).path(), "/3");
    EXPECT_EQ(co_await body(), "");
    co_await answer(200, "");
    EXPECT_EQ((co_await next()).path(), "/4");  // answered without reading its body
    co_await answer(200, "");
    co_await write_text(*client, "GET /5 HTTP/1.1\r\n\r\n");
    EXPECT_EQ((co_await next()).path(), "/5");
  });
}

TEST_F(HttpServerTest, SplitAtEveryByte) {
  const std::string bytes =
      "POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\none"
      "PUT /2 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\ntwo\r\n0\r\nA: b\r\n\r\n"
      "GET /3 HTTP/1.1\r\n\r\n";
  const auto feed = [](Stream& to, std::string text, std::size_t cut) -> Task<void> {
    co_await write_text(to, text.substr(0, cut));
    co_await settle();
    co_await write_text(to, text.substr(cut));
  };
  run([&, this]() -> Task<void> {
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
      spawn(executor(), "feed", feed(*client, bytes, cut));
      EXPECT_EQ((co_await next()).method, "POST");
      EXPECT_EQ(co_await body(), "one");
      co_await answer(204, "");
      EXPECT_EQ((co_await next()).method, "PUT");
      EXPECT_EQ(co_await body(), "two");
      co_await answer(204, "");
      EXPECT_EQ((co_await next()).method, "GET");
      co_await answer(200, "end");
      co_await received_until("end");
    }
  });
}

TEST_F(HttpServerTest, MalformedRequestIsAnsweredThenClosed) {
  run([this]() -> Task<void> {
    co_await write_text(*client,
                        "POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                        "GET /smuggled HTTP/1.1\r\n\r\n");
    const auto head = co_await server->read_request(soon());
    EXPECT_EQ(head.error().code, Code::invalid_argument);
    co_await answer(400, "no");
    EXPECT_EQ(*co_await server->read_request(soon()), std::nullopt);
    server.reset();
    EXPECT_EQ(co_await read_text(*client),
              "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
  });
}

TEST_F(HttpServerTest, HeadWithoutEndIsBounded) {
  run([this]() -> Task<void> {
    spawn(executor(), "flood", [](Stream& to) -> Task<void> {
      const std::string line = "A: " + std::string(1000, 'x') + "\r\n";
      (void)co_await to.write(as_bytes("GET / HTTP/1.1\r\n"));
      while (co_await to.write(as_bytes(line))) continue;
    }(*client));
    EXPECT_EQ((co_await server->read_request(soon())).error().code, Code::exhausted);
    server.reset();
    client->reset();
    co_await settle();
  });
}

TEST_F(HttpServerTest, IdleDeadlineAndEarlyEnd) {
  run([this]() -> Task<void> {
    const auto idle = co_await server->read_request(Deadline::after(milliseconds(3)));
    EXPECT_EQ(idle.error().code, Code::deadline);
  });
}

TEST_F(HttpServerTest, EndWithinAHeadIsAnError) {
  run([this]() -> Task<void> {
    co_await write_text(*client, "GET / HT");
    EXPECT_TRUE(co_await client->finish());
    EXPECT_EQ((co_await server->read_request(soon())).error().code, Code::unavailable);
  });
}

TEST_F(HttpServerTest, ResetBetweenRequestsIsAnEnd) {
  run([this]() -> Task<void> {
    client->reset();
    EXPECT_EQ(*co_await server->read_request(soon()), std::nullopt);
  });
}

TEST_F(HttpServerTest, BodyCutShortIsAnErrorNotAnEnd) {
  for (const char* framing :
       {"Content-Length: 10\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"}) {
    auto [near, far] = make_stream_pair(executor());
    client = std::move(near);
    server.emplace(std::move(far));
    run([this, framing]() -> Task<void> {
      co_await write_text(*client, std::string("POST / HTTP/1.1\r\n") + framing);
      EXPECT_TRUE(co_await client->finish());
      co_await next();
      EXPECT_THAT(co_await body(), StartsWith("error: "));
    });
  }
}

TEST_F(HttpServerTest, HalfClosedClientStillGetsItsAnswer) {
  run([this]() -> Task<void> {
    co_await write_text(*client, "GET / HTTP/1.1\r\n\r\n");
    EXPECT_TRUE(co_await client->finish());
    co_await next();
    co_await answer(200, "still here");
    EXPECT_EQ(*co_await server->read_request(soon()), std::nullopt);
    server.reset();
    EXPECT_THAT(co_await read_text(*client), EndsWith("still here"));
  });
}

TEST_F(HttpServerTest, ContinueIsSentWhenTheBodyIsWanted) {
  run([this]() -> Task<void> {
    co_await write_text(*client, "POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    co_await next();
    EXPECT_EQ(writes, 0);
    spawn(executor(), "client", [](Stream& stream) -> Task<void> {
      EXPECT_EQ(co_await read_until(stream, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
      co_await write_text(stream, "ok");
    }(*client));
    EXPECT_EQ(co_await body(), "ok");
    co_await answer(200, "");
    EXPECT_EQ(co_await received_until("\r\n\r\n"), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    co_await write_text(*client, "GET / HTTP/1.1\r\n\r\n");
    co_await next();
  });
}

TEST_F(HttpServerTest, RefusedExpectationClosesTheConnection) {
  run([this]() -> Task<void> {
    co_await write_text(*client, "POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    co_await next();
    co_await answer(413, "");
    EXPECT_EQ(*co_await server->read_request(soon()), std::nullopt);
    EXPECT_THAT(co_await read_text(*client), HasSubstr("Connection: close\r\n"));
  });
}

TEST_F(HttpServerTest, StreamedResponseIsOneChunkAWrite) {
  run([this]() -> Task<void> {
    co_await write_text(*client, "GET / HTTP/1.1\r\n\r\n");
    co_await next();
    ResponseHead head;
    head.fields.add("Content-Type", "application/connect+json");
    EXPECT_TRUE(co_await server->start_response(head));
    EXPECT_EQ(writes, 1);
    EXPECT_TRUE(co_await server->write_body(as_bytes(std::string(26, 'x'))));
    EXPECT_EQ(writes, 2);
    EXPECT_TRUE(co_await server->write_body({}));
    EXPECT_EQ(writes, 2);
    EXPECT_TRUE(co_await server->end_response());
    EXPECT_EQ(writes, 3);
    EXPECT_EQ(
        co_await received_until("0\r\n\r\n"),
        "HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nTransfer-Encoding: chunked\r\n\r\n"
        "1a\r\n" +
            std::string(26, 'x') + "\r\n0\r\n\r\n");
  });
}

TEST_F(HttpServerTest, AnnouncedLengthIsHeld) {
  run([this]() -> Task<void> {
    co_await write_text(*client, "GET / HTTP/1.1\r\n\r\n");
    co_await next();
    EXPECT_TRUE(co_await server->start_response({.status = 200, .fields = {}, .content_length = 4}));
    EXPECT_TRUE(co_await server->write_body(as_bytes("ab")));
    EXPECT_EQ((co_await server->write_body(as_bytes("abc"))).error().code, Code::internal);
    EXPECT_EQ((co_await server->end_response()).error().code, Code::internal);
    EXPECT_EQ((co_await server->read_request(soon())).error().code, Code::internal);
    server.reset();
    EXPECT_THAT(co_await read_text(*client), StartsWith("error: "));
  });
}

TEST_F(HttpServerTest, OldClientsGetCloseAndNoChunks) {
  run([this]() -> Task<void> {
    co_await write_text(*client, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    co_await next();
    EXPECT_TRUE(co_await server->start_response({}));
    EXPECT_TRUE(co_await server->write_body(as_bytes("plain")));
    EXPECT_TRUE(co_await server->end_response());
    EXPECT_EQ(co_await read_text(*client), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nplain");
    EXPECT_EQ(*co_await server->read_request(soon()), std::nullopt);
  });
}

TEST_F(HttpServerTest, HeadAndBodilessStatuses) {
  run([this]() -> Task<void> {
    const std::string head = "HEAD / HTTP/1.1\r\n\r\n";
    co_await write_text(*client, head + head + "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n");
    co_await next();
    co_await answer(200, "12345");
    EXPECT_EQ(co_await received_until("\r\n\r\n"), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    co_await next();
    EXPECT_TRUE(co_await server->start_response({}));
    EXPECT_TRUE(co_await server->write_body(as_bytes("dropped")));
    EXPECT_TRUE(co_await server->end_response());
    EXPECT_EQ(co_await received_until("\r\n\r\n"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    co_await next();
    co_await answer(204, "dropped");
    EXPECT_EQ(co_await received_until("\r\n\r\n"), "HTTP/1.1 204 No Content\r\n\r\n");
    co_await next();
    EXPECT_TRUE(co_await server->start_response({.status = 304, .fields = {}, .content_length = 9}));
    EXPECT_TRUE(co_await server->end_response());
    EXPECT_EQ(co_await received_until("\r\n\r\n"), "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n");
  });
}

TEST_F(HttpServerTest, AbortAndDestructionMidwayBreakTheConnection) {
  for (const bool by_abort : {true, false}) {
    auto [near, far] = make_stream_pair(executor());
    client = std::move(near);
    server.emplace(std::move(far));
    run([this, by_abort]() -> Task<void> {
      co_await write_text(*client, "GET / HTTP/1.1\r\n\r\n");
      co_await next();
      EXPECT_TRUE(co_await server->start_response({}));
      EXPECT_TRUE(co_await server->write_body(as_bytes("half")));
      EXPECT_THAT(co_await received_until("half\r\n"), EndsWith("half\r\n"));
      by_abort ? server->abort() : server.reset();
      EXPECT_THAT(co_await read_text(*client), StartsWith("error: "));
    });
  }
}

TEST_F(HttpServerTest, UnreadBodyIsDroppedUpToALimit) {
  for (const std::size_t size : {std::size_t{900'000}, std::size_t{5'000'000}}) {
    auto [near, far] = make_stream_pair(executor());
    client = std::move(near);
    server.emplace(std::move(far));
    run([this, size]() -> Task<void> {
      spawn(executor(), "client", [](Stream& to, std::size_t count) -> Task<void> {
        const std::string text = "POST / HTTP/1.1\r\nContent-Length: " + std::to_string(count) + "\r\n\r\n" +
                                 std::string(count, 'x') + "GET /next HTTP/1.1\r\n\r\n";
        (void)co_await to.write(as_bytes(text));
      }(*client, size));
      co_await next();
      co_await answer(403, "");
      const auto head = co_await server->read_request(soon());
      EXPECT_EQ(head->has_value(), size < 1'000'000);
      server->abort();
      co_await settle();
    });
  }
}

Task<void> note_gone(ServerConnection& server, std::shared_ptr<bool> gone) {
  co_await server.peer_gone();
  *gone = true;
}

TEST_F(HttpServerTest, PeerGoneKeepsWhatWasPipelined) {
  run([this]() -> Task<void> {
    auto gone = std::make_shared<bool>(false);
    co_await write_text(*client, "GET /1 HTTP/1.1\r\n\r\n");
    co_await next();
    spawn(executor(), "watch", note_gone(*server, gone));
    co_await settle();
    co_await write_text(*client, "GET /2 HTTP/1.1\r\n\r\n");
    co_await settle();
    EXPECT_FALSE(*gone);
    co_await answer(200, "");
    EXPECT_EQ((co_await next()).path(), "/2");
    client->reset();
    co_await settle();
    EXPECT_TRUE(*gone);
  });
}

Task<Result<int>> wait_until_gone(ServerConnection& server) {
  co_await server.peer_gone();
  co_return 0;
}

TEST_F(HttpServerTest, CancelledPeerGoneLeavesTheConnectionUsable) {
  run([this]() -> Task<void> {
    co_await write_text(*client, "POST /1 HTTP/1.1\r\nContent-Length: 5\r\n\r\n");
    co_await next();
    const auto waited =
        co_await with_deadline(wait_until_gone(*server), Deadline::after(milliseconds(3)), "gone");
    EXPECT_EQ(waited.error().code, Code::deadline);
    co_await write_text(*client, "hello");
    EXPECT_EQ(co_await body(), "hello");
    co_await answer(200, "");
    co_await write_text(*client, "GET /2 HTTP/1.1\r\n\r\n");
    EXPECT_EQ((co_await next()).path(), "/2");
  });
}

TEST_F(HttpServerTest, BodyIsReadBesidePeerGone) {
  run([this]() -> Task<void> {
    auto gone = std::make_shared<bool>(false);
    co_await write_text(*client, "POST /1 HTTP/1.1\r\nContent-Length: 300000\r\n\r\n");
    co_await next();
    spawn(executor(), "watch", note_gone(*server, gone));
    spawn(executor(), "client", [](Stream& to) -> Task<void> {
      for (int i = 0; i < 30; ++i)
        co_await write_text(to, std::string(10'000, static_cast<char>('a' + i % 26)));
    }(*client));
    co_await sleep_for(milliseconds(2));  // the watcher reads ahead until its buffer is full
    const std::string text = co_await body();
    EXPECT_EQ(text.size(), 300'000U);
    EXPECT_TRUE(std::ranges::is_sorted(text.substr(0, 260'000)));
    EXPECT_FALSE(*gone);
    EXPECT_TRUE(co_await client->finish());
    co_await settle();
    EXPECT_TRUE(*gone);
  });
}

TEST_F(HttpServerTest, ReleasedStreamStartsWithWhatWasReadAhead) {
  run([this]() -> Task<void> {
    co_await write_text(*client,
                        "GET /ws HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly");
    EXPECT_TRUE((co_await next()).wants_upgrade());
    ResponseHead head{.status = 101, .fields = {}};
    head.fields.add("Connection", "Upgrade");
    head.fields.add("Upgrade", "websocket");
    EXPECT_TRUE(co_await server->respond(head, ""));
    EXPECT_EQ(co_await received_until("\r\n\r\n"),
              "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    StreamPtr raw = server->release();
    server.reset();
    co_await write_text(*client, " late\n");
    EXPECT_EQ(co_await read_until(*raw, "\n"), "early late\n");
    co_await write_text(*raw, "back\n");
    EXPECT_EQ(co_await received_until("\n"), "back\n");
  });
}

TEST_F(HttpServerTest, AnswerOutlivesTheServerWhileTheClientStillSends) {
  run([this]() -> Task<void> {
    auto listener = *listen_tcp(executor(), "127.0.0.1", 0);
    client = *co_await connect_tcp("127.0.0.1", listener->port(), soon());
    server.emplace(*co_await listener->accept());
    co_await write_text(*client, "POST / HTTP/1.1\r\nContent-Length: 4000000\r\n\r\n");
    co_await next();
    ResponseHead head{.status = 413, .fields = {}};
    head.fields.add("Connection", "close");
    EXPECT_TRUE(co_await server->respond(head, std::string(100'000, 'z')));
    server.reset();
    for (int i = 0; i < 40; ++i) co_await write_text(*client, std::string(100'000, 'x'));
    const std::string all = co_await read_text(*client);
    EXPECT_THAT(all, StartsWith("HTTP/1.1 413 "));
    EXPECT_THAT(all, EndsWith(std::string(1000, 'z')));
  });
}

}  // namespace
}  // namespace space::http
