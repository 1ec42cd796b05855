#include "net/http.h"
#include "net/test_loop.h"

namespace space::http {
namespace {

using std::chrono::milliseconds;
using testing::StartsWith;

class HttpClientTest : public LoopTest {
 protected:
  HttpClientTest() { reconnect(); }

  void reconnect() {
    auto [near, far] = make_stream_pair(executor());
    client.emplace(std::move(near));
    server = std::move(far);
  }
  Task<void> ask(std::string method = "GET") {
    EXPECT_TRUE(co_await client->write_request({.method = method, .target = "/", .fields = {}}));
    EXPECT_TRUE(co_await client->end_request());
  }
  Task<std::string> body() {
    auto text = co_await read_all(client->body(), 1'000'000);
    co_return text ? *text : "error: " + text.error().message;
  }

  std::optional<ClientConnection> client;
  StreamPtr server;
};

TEST_F(HttpClientTest, RequestsOnTheWire) {
  run([this]() -> Task<void> {
    co_await ask();
    EXPECT_EQ(co_await read_until(*server, "\r\n\r\n"), "GET / HTTP/1.1\r\n\r\n");
    EXPECT_TRUE(
        co_await client->write_request({.method = "PUT", .target = "/a", .fields = {}, .content_length = 5}));
    EXPECT_TRUE(co_await client->write_body(as_bytes("12")));
    EXPECT_TRUE(co_await client->write_body(as_bytes("345")));
    EXPECT_TRUE(co_await client->end_request());
    EXPECT_EQ(co_await read_until(*server, "12345"), "PUT /a HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345");
    EXPECT_TRUE(
        co_await client->write_request({.method = "PUT", .target = "/b", .fields = {}, .chunked = true}));
    EXPECT_TRUE(co_await client->write_body(as_bytes("123")));
    EXPECT_TRUE(co_await client->end_request());
    EXPECT_EQ(co_await read_until(*server, "0\r\n\r\n"),
              "PUT /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n123\r\n0\r\n\r\n");
  });
}

TEST_F(HttpClientTest, BadRequestsAreRefusedBeforeAnythingIsSent) {
  run([this]() -> Task<void> {
    EXPECT_EQ((co_await client->write_request({.method = "GET", .target = "/ x"})).error().code,
              Code::invalid_argument);
    co_await ask();
    EXPECT_EQ(co_await read_until(*server, "\r\n\r\n"), "GET / HTTP/1.1\r\n\r\n");
  });
}

TEST_F(HttpClientTest, ResponsesSplitAtEveryByte) {
  const std::string bytes =
      "HTTP/1.1 100 Continue\r\n\r\n"
      "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none"
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\ntwo\r\n0\r\nT: x\r\n\r\n"
      "HTTP/1.1 204 No Content\r\n\r\n"
      "HTTP/1.1 200 OK\r\n\r\nrest until close";
  const auto feed = [](Stream& to, std::string text, std::size_t cut) -> Task<void> {
    co_await write_text(to, text.substr(0, cut));
    co_await settle();
    co_await write_text(to, text.substr(cut));
    EXPECT_TRUE(co_await to.finish());
  };
  run([&, this]() -> Task<void> {
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
      reconnect();
      spawn(executor(), "feed", feed(*server, bytes, cut));
      for (const char* expected : {"one", "two", "", "rest until close"}) {
        co_await ask();
        const auto response = co_await client->read_response(soon());
        EXPECT_TRUE(response) << cut << response.error().message;
        EXPECT_EQ(response->keep_alive, expected[0] != 'r');
        EXPECT_EQ(co_await body(), expected);
      }
    }
  });
}

TEST_F(HttpClientTest, HeadAndNotModifiedHaveNoBody) {
  run([this]() -> Task<void> {
    co_await ask("HEAD");
    co_await write_text(
        *server, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 304 X\r\nContent-Length: 5\r\n\r\n");
    EXPECT_EQ((co_await client->read_response(soon()))->head.content_length, 5U);
    EXPECT_EQ(co_await body(), "");
    co_await ask();
    EXPECT_EQ((co_await client->read_response(soon()))->head.status, 304);
    EXPECT_EQ(co_await body(), "");
  });
}

TEST_F(HttpClientTest, BrokenResponsesAreErrors) {
  for (const char* bytes : {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhalf",
                            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
                            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n"}) {
    reconnect();
    run([this, bytes]() -> Task<void> {
      co_await ask();
      co_await write_text(*server, bytes);
      EXPECT_TRUE(co_await server->finish());
      EXPECT_TRUE(co_await client->read_response(soon()));
      EXPECT_THAT(co_await body(), StartsWith("error: "));
    });
  }
  for (const char* bytes :
       {"", "HTTP/1.1 20", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"}) {
    reconnect();
    run([this, bytes]() -> Task<void> {
      co_await ask();
      co_await write_text(*server, bytes);
      EXPECT_TRUE(co_await server->finish());
      EXPECT_FALSE(co_await client->read_response(soon()));
    });
  }
}

TEST_F(HttpClientTest, ResetInABodyUntilCloseIsNotItsEnd) {
  run([this]() -> Task<void> {
    co_await ask();
    co_await write_text(*server, "HTTP/1.1 200 OK\r\n\r\nhalf");
    EXPECT_TRUE(co_await client->read_response(soon()));
    server->reset();
    EXPECT_THAT(co_await body(), StartsWith("error: "));
  });
}

TEST_F(HttpClientTest, DeadlineBodyLimitAndUpgrade) {
  run([this]() -> Task<void> {
    co_await ask();
    EXPECT_EQ((co_await client->read_response(Deadline::after(milliseconds(2)))).error().code,
              Code::deadline);
    co_await write_text(*server, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12345");
    EXPECT_TRUE(co_await client->read_response(soon()));  // the answer came late, nothing was lost
    EXPECT_EQ((co_await read_all(client->body(), 4)).error().code, Code::exhausted);
    co_await ask();
    co_await write_text(*server, "HTTP/1.1 101 Switching Protocols\r\n\r\nearly\n");
    EXPECT_EQ((co_await client->read_response(soon()))->head.status, 101);
    StreamPtr raw = client->release();
    EXPECT_EQ(co_await read_until(*raw, "\n"), "early\n");
  });
}

// The two ends against each other, over TCP.
TEST_F(HttpClientTest, AbortedAnswerIsBrokenForTheClient) {
  run([this]() -> Task<void> {
    auto listener = *listen_tcp(executor(), "127.0.0.1", 0);
    client.emplace(*co_await connect_tcp("127.0.0.1", listener->port(), soon()));
    ServerConnection peer(*co_await listener->accept());
    co_await ask();
    EXPECT_TRUE(*co_await peer.read_request(soon()));
    EXPECT_TRUE(co_await peer.start_response({}));
    EXPECT_TRUE(co_await peer.write_body(as_bytes("part")));
    EXPECT_TRUE(co_await client->read_response(soon()));
    std::array<std::byte, 100> buffer;
    EXPECT_EQ(co_await client->body().read(buffer), 4U);
    peer.abort();
    EXPECT_EQ((co_await client->body().read(buffer)).error().code, Code::unavailable);
  });
}

TEST_F(HttpClientTest, LargeBodiesBothWays) {
  run([this]() -> Task<void> {
    auto listener = *listen_tcp(executor(), "127.0.0.1", 0);
    client.emplace(*co_await connect_tcp("127.0.0.1", listener->port(), soon()));
    ServerConnection peer(*co_await listener->accept());
    const std::string sent(700'000, 'u');
    spawn(executor(), "upload", [](ClientConnection& to, const std::string& text) -> Task<void> {
      EXPECT_TRUE(co_await to.write_request({.method = "PUT", .target = "/", .chunked = true}));
      EXPECT_TRUE(co_await to.write_body(as_bytes(text)));
      EXPECT_TRUE(co_await to.end_request());
    }(*client, sent));
    EXPECT_TRUE(*co_await peer.read_request(soon()));
    auto uploaded = co_await read_all(peer.body(), 1'000'000);
    EXPECT_TRUE(uploaded && *uploaded == sent);
    spawn(executor(), "download", [](ServerConnection& from, const std::string& text) -> Task<void> {
      EXPECT_TRUE(co_await from.respond({}, text));
    }(peer, sent));
    EXPECT_TRUE(co_await client->read_response(soon()));
    EXPECT_TRUE(co_await body() == sent);
  });
}

}  // namespace
}  // namespace space::http
