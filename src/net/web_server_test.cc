// One server, both protocols: the same handlers, seen by HTTP/2 clients that keep the rules and by some that
// do not.
#include "net/web_server.h"

#include "net/h2_test_client.h"
#include "net/h2_test_frames.h"
#include "net/test_loop.h"

namespace space::http {
namespace {

namespace h2 = h2_test;
using testing::HasSubstr;

class WebServerTest : public LoopTest {
 protected:
  void SetUp() override { start(); }
  void start(Millis idle = Millis(60'000)) {
    server.emplace(
        ServerHandlers{.request = [this](ServerExchange& exchange,
                                         RequestHead head) { return serve(exchange, std::move(head)); },
                       .malformed = refuse},
        idle);
  }
  StreamPtr dial() {
    auto [ours, theirs] = make_stream_pair(executor());
    spawn(executor(), "server", server->serve(std::move(theirs)));
    return std::move(ours);
  }
  void connect(bool gives_window_back = true) {
    client.emplace(dial(), gives_window_back);
    spawn(executor(), "client", client->run());
  }
  static Task<void> until(std::function<bool()> condition) {
    for (int i = 0; i < 20'000 && !condition(); ++i) co_await sleep_for(Millis(1));
    EXPECT_TRUE(condition());
  }
  Task<h2::Client::Stream> ask(h2::HeaderList headers, std::string body = "") {
    const auto id = client->send(headers, body);
    co_await until([&] { return (*client)[id].over() || client->closed; });
    co_return (*client)[id];
  }

  static Task<void> refuse(ServerExchange& exchange, Error why) {
    (void)co_await exchange.respond({.status = why.code == Code::exhausted ? 431 : 400, .fields = {}},
                                    why.message);
  }
  Task<void> serve(ServerExchange& exchange, RequestHead head) {
    ++started;
    const std::string path(head.path());
    if (path == "/say") {
      (void)co_await exchange.respond({.status = 200, .fields = {}},
                                      fmt::format("{} {} {} {}", head.method, head.target,
                                                  head.fields.get("Host").value_or("-"), head.has_body()));
    } else if (path == "/echo") {
      co_await echo(exchange);
    } else if (path == "/count") {
      co_await count_body(exchange);
    } else if (path == "/early") {
      (void)co_await exchange.respond({.status = 413, .fields = {}}, "too much");
    } else if (path == "/empty") {
      (void)co_await exchange.respond({.status = 204, .fields = {}}, "");
    } else if (path == "/forever") {
      (void)co_await exchange.start_response({.status = 200, .fields = {}}, as_bytes("first"));
      co_await exchange.peer_gone();
      ++gone;
    } else if (path == "/endless") {
      (void)co_await exchange.start_response({.status = 200, .fields = {}});
      const Bytes piece(10'000);
      while (co_await exchange.write_body(piece)) written += piece.size();
      ++gone;
    } else if (path == "/broken") {
      (void)co_await exchange.start_response({.status = 200, .fields = {}}, as_bytes("half"));
      exchange.abort();
    } else if (path == "/short") {
      (void)co_await exchange.start_response({.status = 200, .fields = {}, .content_length = 10},
                                             as_bytes("1"));
      EXPECT_FALSE(co_await exchange.end_response());
    } else if (path == "/long") {
      (void)co_await exchange.start_response({.status = 200, .fields = {}, .content_length = 1});
      EXPECT_FALSE(co_await exchange.write_body(as_bytes("12")));
    } else if (path == "/switch") {
      EXPECT_FALSE(co_await exchange.start_response({.status = 101, .fields = {}}));
    } else if (path == "/wait") {
      co_await until([this] { return released; });
      (void)co_await exchange.respond({.status = 200, .fields = {}}, "waited");
    }  // any other gets no answer
    ++done;
  }
  static Task<void> echo(ServerExchange& exchange) {
    (void)co_await exchange.start_response({.status = 200, .fields = {}});
    Bytes piece(20'000);
    while (true) {
      const auto n = co_await exchange.body().read(piece);
      if (!n) co_return exchange.abort();
      if (*n == 0) break;
      if (!co_await exchange.write_body(std::span(piece).first(*n))) co_return;
    }
    (void)co_await exchange.end_response();
  }
  // Reads only once it is released.
  Task<void> count_body(ServerExchange& exchange) {
    co_await until([this] { return released; });
    Bytes piece(20'000);
    std::size_t total = 0;
    while (true) {
      const auto n = co_await exchange.body().read(piece);
      if (!n) ++failed;
      if (!n || *n == 0) break;
      total += *n;
    }
    (void)co_await exchange.respond({.status = 200, .fields = {}}, std::to_string(total));
  }

  std::optional<WebServer> server;
  std::optional<h2::Client> client;
  int started = 0;
  int done = 0;
  int gone = 0;
  int failed = 0;
  bool released = false;
  std::size_t written = 0;
};

TEST_F(WebServerTest, BothProtocolsReachTheSameHandlers) {
  connect();
  run([&]() -> Task<void> {
    const auto answer = co_await ask(h2::request("GET", "/say?a=b", "sandbox.test:1"));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "GET /say?a=b sandbox.test:1 false");
    EXPECT_EQ(answer.fields.get("content-length"), "33");
    EXPECT_EQ((co_await ask(h2::request("POST", "/say"), "body")).body, "POST /say localhost true");

    ClientConnection old(dial());
    RequestHead head{.method = "GET", .target = "/say", .fields = {}};
    head.fields.add("Host", "h1");
    (void)co_await old.write_request(head);
    (void)co_await old.end_request();
    EXPECT_TRUE(co_await old.read_response(soon()));
    EXPECT_EQ(co_await read_all(old.body(), 100), "GET /say h1 false");
  });
}

TEST_F(WebServerTest, TheGreetingCountsOnlyAsTheFirstBytes) {
  run([&]() -> Task<void> {
    for (const std::string before : {"\r\n", "GET /say HTTP/1.1\r\n\r\n"}) {
      const auto stream = dial();
      co_await write_text(*stream, before + std::string(h2::preface));
      (void)co_await stream->finish();
      EXPECT_THAT(co_await read_text(*stream), HasSubstr("HTTP/1.1 400"));
    }
    const auto stream = dial();
    co_await write_text(*stream, "PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n" + h2::frame(h2::settings, 0, 0, ""));
    EXPECT_THAT(co_await read_text(*stream), testing::Not(HasSubstr("HTTP/1.1")));
    EXPECT_EQ(started, 1);
  });
}

TEST_F(WebServerTest, ManyAtOnceAndASlowOneHoldsNobodyUp) {
  connect();
  run([&]() -> Task<void> {
    const auto slow = client->send(h2::request("GET", "/wait"));
    std::vector<std::int32_t> ids;
    const std::string body(100'000, 'e');
    for (int i = 0; i < 100; ++i) ids.push_back(client->send(h2::request("POST", "/echo"), body));
    for (const auto id : ids) {
      co_await until([&] { return (*client)[id].over(); });
      EXPECT_TRUE((*client)[id].body == body && (*client)[id].ended);
    }
    EXPECT_FALSE((*client)[slow].over());
    released = true;
    co_await until([&] { return (*client)[slow].over(); });
    EXPECT_EQ((*client)[slow].body, "waited");
  });
}

TEST_F(WebServerTest, AnUnreadUploadIsHeldBackAndHoldsNobodyUp) {
  connect();
  run([&]() -> Task<void> {
    const std::size_t size = 4 * 1024 * 1024;
    const auto upload = client->send(h2::request("POST", "/count"), std::string(size, 'u'));
    EXPECT_EQ((co_await ask(h2::request("POST", "/echo"), "beside")).body, "beside");
    EXPECT_GE(client->unsent(upload), size - 256 * 1024);
    released = true;
    co_await until([&] { return (*client)[upload].over(); });
    EXPECT_EQ((*client)[upload].body, std::to_string(size));
  });
}

// All streams of a connection together may not hold more than the session's window; what is given up is
// given back.
TEST_F(WebServerTest, AConnectionHoldsABoundedAmountOfUnreadBodies) {
  connect();
  run([&]() -> Task<void> {
    std::vector<std::int32_t> ids;
    const std::size_t size = 256 * 1024;
    for (int i = 0; i < 60; ++i)
      ids.push_back(client->send(h2::request("POST", "/count"), std::string(size, 'u')));
    co_await until([&] { return started == 60; });
    co_await settle();
    const auto waiting = [&] {
      std::size_t sum = 0;
      for (const auto id : ids) sum += client->unsent(id);
      return sum;
    };
    co_await until([&] { return waiting() <= 60 * size - 7 * 1024 * 1024; });
    EXPECT_GE(waiting(), 60 * size - 8 * 1024 * 1024 - size);
    for (int i = 0; i < 40; ++i) client->reset(ids[static_cast<std::size_t>(i)]);
    released = true;
    for (std::size_t i = 40; i < 60; ++i) {
      co_await until([&] { return (*client)[ids[i]].over(); });
      EXPECT_EQ((*client)[ids[i]].body, std::to_string(size));
    }
    EXPECT_EQ((co_await ask(h2::request("POST", "/echo"), std::string(9'000'000, 'x'))).body.size(),
              9'000'000U);
  });
}

TEST_F(WebServerTest, AClientThatDoesNotReadStopsTheWriterAlone) {
  connect(false);
  run([&]() -> Task<void> {
    const auto stuck = client->send(h2::request("GET", "/endless"));
    co_await until([&] { return (*client)[stuck].body.size() == 65535; });
    EXPECT_EQ((co_await ask(h2::request("GET", "/say"))).status, 200);
    EXPECT_LE(written, 65535U + 64 * 1024);
    const std::size_t before = written;
    client->give_window_back(stuck, 60'000);
    co_await until([&] { return written > before; });
    client->reset(stuck);
    co_await until([&] { return gone == 1; });
  });
}

TEST_F(WebServerTest, AClientThatCancelsIsNoticed) {
  connect();
  run([&]() -> Task<void> {
    const auto id = client->send(h2::request("GET", "/forever"));
    co_await until([&] { return (*client)[id].body == "first"; });
    client->reset(id);
    co_await until([&] { return gone == 1; });
    released = true;
    const auto upload = client->send(h2::request("POST", "/count"), "part", false);
    co_await until([&] { return started == 2; });
    client->reset(upload);
    co_await until([&] { return failed == 1; });
    EXPECT_EQ((co_await ask(h2::request("GET", "/say"))).status, 200);
  });
}

TEST_F(WebServerTest, AnAnswerThatStopsHalfWayIsReset) {
  connect();
  run([&]() -> Task<void> {
    for (const char* path : {"/broken", "/short", "/long", "/nothing", "/switch"}) {
      const auto answer = co_await ask(h2::request("GET", path));
      EXPECT_EQ(answer.reset, NGHTTP2_INTERNAL_ERROR) << path;
      EXPECT_FALSE(answer.ended) << path;
    }
    EXPECT_EQ((co_await ask(h2::request("GET", "/say"))).status, 200);
  });
}

TEST_F(WebServerTest, AnAnswerBeforeTheBodyArrivesAndEndsTheUpload) {
  connect();
  run([&]() -> Task<void> {
    const auto answer = co_await ask(h2::request("POST", "/early"), std::string(1024 * 1024, 'u'));
    EXPECT_EQ(answer.status, 413);
    EXPECT_EQ(answer.body, "too much");
    EXPECT_TRUE(answer.ended);
    EXPECT_EQ((co_await ask(h2::request("GET", "/say"))).status, 200);
  });
}

TEST_F(WebServerTest, HeadsWithoutBodies) {
  connect();
  run([&]() -> Task<void> {
    const auto head = co_await ask(h2::request("HEAD", "/say"));
    EXPECT_EQ(head.fields.get("content-length"), "25");
    EXPECT_EQ(head.body, "");
    EXPECT_TRUE(head.ended);
    const auto empty = co_await ask(h2::request("GET", "/empty"));
    EXPECT_EQ(empty.status, 204);
    EXPECT_FALSE(empty.fields.get("content-length"));
    EXPECT_TRUE(empty.ended);
  });
}

TEST_F(WebServerTest, ContinueIsSaidWhenTheBodyIsWanted) {
  connect();
  run([&]() -> Task<void> {
    const auto headers = h2::with(h2::request("POST", "/count"), {{"expect", "100-continue"}});
    const auto id = client->send(headers, "", false);
    co_await until([&] { return started == 1; });
    EXPECT_EQ((*client)[id].interim, 0);
    released = true;
    co_await until([&] { return (*client)[id].interim == 1; });
    client->send_more(id, "12345", true);
    co_await until([&] { return (*client)[id].over(); });
    EXPECT_EQ((*client)[id].body, "5");
  });
}

// Refused by whoever sees it first; never handled, and the connection goes on.
TEST_F(WebServerTest, MalformedRequestsAreRefusedOneByOne) {
  using namespace std::string_literals;
  connect();
  run([&]() -> Task<void> {
    std::vector<h2::HeaderList> bad;
    for (const auto& [name, value] : h2::HeaderList{{"x", "a\r\nY: b"},
                                                    {"x", "a\0b"s},
                                                    {"transfer-encoding", "chunked"},
                                                    {"connection", "close"},
                                                    {"upgrade", "websocket"},
                                                    {"host", "other.test"},
                                                    {":late", "1"},
                                                    {"content-length", "5"},
                                                    {"content-length", "x"}})
      bad.push_back(h2::with(h2::request("GET", "/say"), {{name, value}}));
    bad.push_back(h2::with(h2::request("POST", "/say"), {{"content-length", "0"}, {"content-length", "0"}}));
    bad.push_back(h2::request("GET", "say"));
    bad.push_back(h2::request("GET", "/a\r\nb"));
    bad.push_back({{":method", "CONNECT"}, {":authority", "localhost:22"}});
    bad.push_back({{":method", "GET"}, {":path", "/say"}, {":authority", "a"}});
    for (const auto& headers : bad) {
      const auto answer = co_await ask(headers);
      EXPECT_TRUE(answer.status == 400 || answer.reset == NGHTTP2_PROTOCOL_ERROR)
          << headers.back().first << ": " << headers.back().second << " " << answer.status;
    }
    EXPECT_EQ(started, 0);
    EXPECT_EQ((co_await ask(h2::request("GET", "/say"))).status, 200);
  });
}

TEST_F(WebServerTest, ABodyThatIsNotAsLongAsAnnouncedFails) {
  connect();
  run([&]() -> Task<void> {
    released = true;
    for (const char* length : {"3", "9"}) {
      const auto answer =
          co_await ask(h2::with(h2::request("POST", "/count"), {{"content-length", length}}), "12345");
      EXPECT_EQ(answer.reset, NGHTTP2_PROTOCOL_ERROR) << length;
    }
    EXPECT_EQ(
        (co_await ask(h2::with(h2::request("POST", "/count"), {{"content-length", "5"}}), "12345")).body,
        "5");
  });
}

TEST_F(WebServerTest, ALargeHeadIsAnsweredAndAFloodEndsTheConnection) {
  connect();
  run([&]() -> Task<void> {
    const auto large = [](int count) {
      auto headers = h2::request("GET", "/say");
      for (int i = 0; i < count; ++i) headers.emplace_back("x-large", std::string(1000, 'x'));
      return headers;
    };
    EXPECT_EQ((co_await ask(large(50))).status, 200);
    EXPECT_EQ((co_await ask(large(100))).status, 431);
    EXPECT_EQ((co_await ask(h2::request("GET", "/say"))).status, 200);
    co_await ask(large(200));
    co_await until([&] { return client->closed; });
    EXPECT_EQ(client->goaway, NGHTTP2_ENHANCE_YOUR_CALM);
    connect();
    EXPECT_EQ((co_await ask(h2::request("GET", "/say"))).status, 200);
  });
}

// A head that never ends: in pieces that say something, and in empty ones.
TEST_F(WebServerTest, AFloodOfContinuationsEndsTheConnection) {
  run([&]() -> Task<void> {
    for (const std::string& piece : {h2::header("x", std::string(4000, 'y')), std::string()}) {
      const auto stream = dial();
      co_await write_text(*stream, std::string(h2::preface) + h2::frame(h2::settings, 0, 0, "") +
                                       h2::frame(h2::headers, h2::end_stream, 1, h2::post("/say")));
      const Deadline limit = soon();
      const std::string frame = h2::frame(9, 0, 1, piece);
      bool open = true;
      while (open && !limit.passed()) open = (co_await stream->write(as_bytes(frame))).has_value();
      EXPECT_FALSE(open);
    }
    EXPECT_EQ(started, 0);
  });
}

TEST_F(WebServerTest, RapidResetsEndTheConnection) {
  connect();
  run([&]() -> Task<void> {
    for (int i = 0; i < 20'000 && !client->closed; ++i) {
      client->reset(client->send(h2::request("GET", "/forever")));
      if (i % 50 == 0) co_await sleep_for(Millis(0));
    }
    co_await until([&] { return client->closed; });
    co_await until([&] { return started == done; });
    EXPECT_GT(started, 0);
  });
}

TEST_F(WebServerTest, ARetiringServerFinishesWhatItBegan) {
  connect();
  run([&]() -> Task<void> {
    const auto id = client->send(h2::request("GET", "/wait"));
    co_await until([&] { return started == 1; });
    server->retire();
    co_await until([&] { return client->goaway.has_value(); });
    EXPECT_EQ(client->goaway, NGHTTP2_NO_ERROR);
    EXPECT_EQ(server->exchanges(), 1U);
    released = true;
    co_await until([&] { return client->closed; });
    EXPECT_EQ((*client)[id].body, "waited");
    EXPECT_TRUE(client->closed_in_order);
    co_await until([&] { return server->connections() == 0; });
  });
}

TEST_F(WebServerTest, AClientThatSaysGoodbyeStillGetsItsAnswer) {
  connect();
  run([&]() -> Task<void> {
    const auto id = client->send(h2::request("GET", "/wait"));
    co_await until([&] { return started == 1; });
    client->say_goodbye();
    co_await settle();
    released = true;
    co_await until([&] { return client->closed; });
    EXPECT_EQ((*client)[id].body, "waited");
    EXPECT_TRUE(client->closed_in_order);
  });
}

TEST_F(WebServerTest, AnIdleConnectionIsClosedAndABusyOneIsNot) {
  start(Millis(50));
  connect();
  run([&]() -> Task<void> {
    const auto id = client->send(h2::request("GET", "/wait"));
    co_await until([&] { return started == 1; });
    co_await sleep_for(Millis(150));
    EXPECT_FALSE(client->closed);
    released = true;
    co_await until([&] { return client->closed; });
    EXPECT_EQ((*client)[id].body, "waited");
    EXPECT_EQ(client->goaway, NGHTTP2_NO_ERROR);
  });
}

TEST_F(WebServerTest, ALostConnectionEndsItsExchanges) {
  run([&]() -> Task<void> {
    {
      const auto stream = dial();
      co_await write_text(
          *stream, std::string(h2::preface) + h2::frame(h2::settings, 0, 0, "") +
                       h2::frame(h2::headers, h2::end_headers | h2::end_stream, 1, h2::post("/forever")));
      co_await until([&] { return started == 1; });
    }
    co_await until([&] { return gone == 1 && server->connections() == 0; });
  });
}

}  // namespace
}  // namespace space::http
