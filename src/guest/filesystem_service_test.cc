// filesystem.Filesystem over an in-process stream, on a real folder.
#include "guest/filesystem_service.h"

#include <algorithm>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "guest/http_service.h"
#include "guest/temporary_folder.h"

namespace space::guest {
namespace {

constexpr Millis patience{20'000};

struct Answer {
  int status = 0;
  std::string body;
  JsonObject json() const {
    auto object = parse_json_object(body, "answer");
    EXPECT_TRUE(object) << body;
    return object ? *std::move(object) : JsonObject();
  }
};

class FilesystemServiceTest : public FolderTest {
 protected:
  FilesystemServiceTest()
      : table_(loop_.get_executor()), state_(loop_.get_executor()), service_(state_, table_) {
    std::filesystem::create_directory(at("etc"));
    std::filesystem::create_directory(at("home"));
    write(at("etc/passwd"), fmt::format("me:x:{}:{}::{}/home:/bin/sh\n", ::getuid(), ::getgid(), folder_));
    state_.users = UserDatabase(at("etc"));
    state_.default_user = "me";
  }

  StreamPtr connect() {
    auto [ours, theirs] = make_stream_pair(loop_.get_executor());
    spawn(loop_.get_executor(), "service", service_.serve(std::move(theirs)));
    return std::move(ours);
  }
  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    boost::asio::co_spawn(loop_, detail::store_result(std::move(task), &result), boost::asio::detached);
    run_until([&] { return result.has_value(); });
    if (!result) ADD_FAILURE() << "no answer in time";
    return result ? *std::move(result) : T();
  }
  template <class F>
  void run_until(F done) {
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (!done() && std::chrono::steady_clock::now() < limit) loop_.run_one_for(Millis(100));
  }

  static Task<Answer> call(StreamPtr stream, std::string method, std::string body, http::Fields fields) {
    http::ClientConnection client(std::move(stream));
    http::RequestHead head{.method = "POST",
                           .target = "/filesystem.Filesystem/" + method,
                           .fields = std::move(fields),
                           .content_length = body.size()};
    head.fields.add("Host", "localhost");
    head.fields.add("Content-Length", std::to_string(body.size()));
    if (!co_await client.write_request(head) || !co_await client.write_body(as_bytes(body)) ||
        !co_await client.end_request())
      co_return Answer();
    const auto response = co_await client.read_response(Deadline::after(patience));
    if (!response) co_return Answer{.status = -1, .body = response.error().message};
    const auto text = co_await http::read_all(client.body(), 64 * 1024 * 1024);
    co_return Answer{.status = response->head.status, .body = text.value_or("broken")};
  }
  Answer rpc(std::string method, std::string body, http::Fields fields = {}) {
    return run(call(connect(), std::move(method), std::move(body), std::move(fields)));
  }
  std::string code(std::string method, std::string body) {
    const Answer answer = rpc(std::move(method), std::move(body));
    return answer.status == 200 ? "ok" : std::string(answer.json().at("code").as_string());
  }
  static std::string path_body(const std::string& path) { return to_text(JsonObject{{"path", path}}); }

  // What one WatchDir stream has said so far.
  struct Watch {
    std::vector<std::string> events;  // "EVENT_TYPE_CREATE name"
    std::string end;
    bool started = false;
    int keepalives = 0;
    bool saw(std::string_view event) const { return std::ranges::find(events, event) != events.end(); }
  };
  static void take(const connect::Envelope& envelope, Watch& watch) {
    const auto message = parse_json_object(envelope.payload, "message");
    if (envelope.flags == connect::flag_end_of_stream) {
      watch.end = envelope.payload;
    } else if (const Json* event = message->if_contains("filesystem")) {
      watch.events.push_back(fmt::format("{} {}", std::string(event->at("type").as_string()),
                                         std::string(event->at("name").as_string())));
    } else {
      watch.started = watch.started || message->contains("start");
      watch.keepalives += message->contains("keepalive") ? 1 : 0;
    }
  }
  static Task<void> read_watch(StreamPtr stream, std::string body, http::Fields fields, Watch* watch) {
    http::ClientConnection client(std::move(stream));
    const Bytes request = connect::envelope(0, body);
    http::RequestHead head{.method = "POST",
                           .target = "/filesystem.Filesystem/WatchDir",
                           .fields = std::move(fields),
                           .content_length = request.size()};
    head.fields.add("Host", "localhost");
    head.fields.add("Content-Length", std::to_string(request.size()));
    (void)co_await client.write_request(head);
    (void)co_await client.write_body(request);
    (void)co_await client.end_request();
    const auto response = co_await client.read_response(Deadline::after(patience));
    if (!response || response->head.status != 200) co_return;
    connect::EnvelopeReader reader;
    std::array<std::byte, 4096> buffer;
    for (;;) {
      const auto count = co_await client.body().read(buffer);
      if (!count || *count == 0) co_return;
      reader.feed(std::span(buffer).first(*count));
      for (auto next = reader.next(); next && *next; next = reader.next()) take(**next, *watch);
    }
  }
  void start_watch(Watch& watch, std::string body, http::Fields fields = {}) {
    boost::asio::co_spawn(loop_, read_watch(connect(), std::move(body), std::move(fields), &watch),
                          boost::asio::detached);
    run_until([&] { return watch.started || !watch.end.empty(); });
  }

  boost::asio::io_context loop_{1};
  ProcessTable table_;
  GuestState state_;
  HttpService service_;
};

TEST_F(FilesystemServiceTest, StatOfAPathFromHome) {
  write(at("home/f"), "123");
  for (const char* path : {"f", "~/f", "./x/../f"}) {
    const Answer answer = rpc("Stat", path_body(path));
    ASSERT_EQ(answer.status, 200) << answer.body;
    const JsonObject entry = answer.json().at("entry").as_object();
    EXPECT_EQ(entry.at("name").as_string(), "f");
    EXPECT_EQ(entry.at("path").as_string(), at("home/f"));
    EXPECT_EQ(entry.at("type").as_string(), "FILE_TYPE_FILE");
    EXPECT_EQ(entry.at("size").as_string(), "3");
    EXPECT_EQ(entry.at("owner").as_string(), "me");
  }
  EXPECT_EQ(rpc("Stat", "{}").json().at("entry").at("path").as_string(), at("home"));
  EXPECT_EQ(code("Stat", path_body("missing")), "not_found");
  EXPECT_EQ(code("Stat", path_body("~bob")), "invalid_argument");
  EXPECT_EQ(code("Stat", "[]"), "invalid_argument");
  EXPECT_EQ(code("Stat", R"({"path":7})"), "invalid_argument");
}

TEST_F(FilesystemServiceTest, CodesOfTheContract) {
  EXPECT_EQ(code("MakeDir", path_body("d/e")), "ok");
  const Answer again = rpc("MakeDir", path_body("d/e"));
  EXPECT_EQ(again.status, 409);
  EXPECT_EQ(again.json().at("code").as_string(), "already_exists");
  write(at("home/f"), "");
  EXPECT_EQ(code("MakeDir", path_body("f")), "invalid_argument");
  EXPECT_EQ(code("MakeDir", "{}"), "invalid_argument");
  EXPECT_EQ(code("Move", R"({"source":"f","destination":"n/g"})"), "ok");
  EXPECT_EQ(code("Move", R"({"source":"f","destination":"g"})"), "not_found");
  EXPECT_EQ(code("Move", R"({"source":"n","destination":"d"})"), "failed_precondition");
  EXPECT_EQ(code("Move", R"({"source":"n"})"), "invalid_argument");
  EXPECT_EQ(code("ListDir", path_body("missing")), "not_found");
  EXPECT_EQ(code("ListDir", path_body("n/g")), "invalid_argument");
  ASSERT_EQ(::symlink("loop", at("home/loop").c_str()), 0);
  EXPECT_EQ(code("ListDir", path_body("loop")), "failed_precondition");
  EXPECT_EQ(code("Remove", path_body("n")), "ok");
  EXPECT_EQ(code("Remove", path_body("n")), "ok");
  EXPECT_EQ(code("Remove", path_body("")), "invalid_argument");
  EXPECT_EQ(code("Remove", path_body("/")), "invalid_argument");
  EXPECT_EQ(code("Nothing", "{}"), "unimplemented");
  http::Fields nobody;
  nobody.add("Authorization", "Basic bm9ib2R5OnB3");
  EXPECT_EQ(rpc("Stat", path_body("f"), nobody).status, 401);
}

TEST_F(FilesystemServiceTest, ListsNestedEntriesWithDepthAsNumberOrText) {
  ASSERT_EQ(code("MakeDir", path_body("a/b/c")), "ok");
  const auto count = [&](std::string body) {
    const JsonObject answer = rpc("ListDir", std::move(body)).json();
    return answer.at("entries").as_array().size();
  };
  EXPECT_EQ(count(R"({"path":"~"})"), 1U);
  EXPECT_EQ(count(R"({"path":"~","depth":0})"), 1U);
  EXPECT_EQ(count(R"({"path":"~","depth":2})"), 2U);
  EXPECT_EQ(count(R"({"path":"~","depth":"4294967295"})"), 3U);
  EXPECT_EQ(count(R"({"path":"a/b/c"})"), 0U);
  EXPECT_EQ(code("ListDir", R"({"path":"~","depth":-1})"), "invalid_argument");
}

TEST_F(FilesystemServiceTest, NamesThatAreNotUtf8LeadBack) {
  write(at("home/\xFF\xC3"), "12");
  const JsonObject answer = rpc("ListDir", "{}").json();
  const std::string shown(answer.at("entries").as_array().at(0).at("path").as_string());
  EXPECT_EQ(rpc("Stat", path_body(shown)).json().at("entry").at("size").as_string(), "2");
  EXPECT_EQ(code("Remove", path_body(shown)), "ok");
  EXPECT_TRUE(rpc("ListDir", "{}").json().at("entries").as_array().empty());
}

TEST_F(FilesystemServiceTest, AWatchTellsUntilItsFolderGoes) {
  Watch watch;
  start_watch(watch, R"({"path":"~","recursive":true})");
  ASSERT_TRUE(watch.started) << watch.end;
  write(at("home/f"), "x");
  ASSERT_EQ(code("MakeDir", path_body("d/e")), "ok");
  run_until([&] { return watch.saw("EVENT_TYPE_CREATE d/e"); });
  EXPECT_EQ(watch.events.at(0), "EVENT_TYPE_CREATE f");
  EXPECT_TRUE(watch.saw("EVENT_TYPE_CREATE d/e"));
  ASSERT_EQ(code("Remove", path_body("~")), "ok");
  run_until([&] { return !watch.end.empty(); });
  EXPECT_NE(watch.end.find(R"("code":"not_found")"), std::string::npos) << watch.end;
  EXPECT_EQ(watch.events.back(), "EVENT_TYPE_REMOVE .");
}

TEST_F(FilesystemServiceTest, AWatchKeepsItselfAliveAndEndsInTime) {
  http::Fields fields;
  fields.add("Keepalive-Ping-Interval", "1");
  fields.add("Connect-Timeout-Ms", "1500");
  Watch watch;
  start_watch(watch, path_body("~"), fields);
  run_until([&] { return !watch.end.empty(); });
  EXPECT_EQ(watch.keepalives, 1);
  EXPECT_NE(watch.end.find("deadline_exceeded"), std::string::npos) << watch.end;
}

TEST_F(FilesystemServiceTest, AWatchThatCannotBeSaysSoAtItsEnd) {
  write(at("home/f"), "");
  for (const auto& [path, wanted] : {std::pair("missing", "not_found"), {"f", "invalid_argument"}}) {
    Watch watch;
    start_watch(watch, path_body(path));
    EXPECT_FALSE(watch.started);
    EXPECT_NE(watch.end.find(wanted), std::string::npos) << watch.end;
  }
}

TEST_F(FilesystemServiceTest, PolledWatchers) {
  const auto made = rpc("CreateWatcher", R"({"path":"~","recursive":true,"include_entry":true})").json();
  const std::string id(made.at("watcherId").as_string());
  const std::string body = to_text(JsonObject{{"watcher_id", id}});
  const auto poll = [&] { return rpc("GetWatcherEvents", body).json().at("events").as_array(); };
  EXPECT_TRUE(poll().empty());
  write(at("home/f"), "123");
  JsonArray events;
  run_until([&] {
    const JsonArray more = poll();
    events.insert(events.end(), more.begin(), more.end());
    return events.size() >= 2;
  });
  EXPECT_EQ(events.at(1).at("type").as_string(), "EVENT_TYPE_WRITE");
  EXPECT_EQ(events.at(1).at("entry").at("size").as_string(), "3");
  EXPECT_EQ(code("RemoveWatcher", body), "ok");
  EXPECT_EQ(code("RemoveWatcher", body), "not_found");
  EXPECT_EQ(code("GetWatcherEvents", body), "not_found");
  EXPECT_EQ(code("CreateWatcher", path_body("missing")), "not_found");
}

TEST_F(FilesystemServiceTest, PolledWatchersAreBounded) {
  std::vector<std::string> ids;
  std::string failed;
  for (int i = 0; i < 65 && failed.empty(); ++i) {
    const Answer answer = rpc("CreateWatcher", path_body("~"));
    if (answer.status == 200) {
      ids.emplace_back(answer.json().at("watcherId").as_string());
    } else {
      failed = answer.json().at("code").as_string();
    }
  }
  EXPECT_EQ(ids.size(), 64U);
  EXPECT_EQ(failed, "resource_exhausted");
  for (const std::string& id : ids)
    EXPECT_EQ(code("RemoveWatcher", to_text(JsonObject{{"watcherId", id}})), "ok");
  EXPECT_EQ(code("CreateWatcher", path_body("~")), "ok");
}

TEST_F(FilesystemServiceTest, AQueueNobodyTakesFromEndsTheWatchAfterWhatItHeld) {
  std::shared_ptr<Watcher> watcher = *run([](std::string path) -> Task<Result<std::shared_ptr<Watcher>>> {
    co_return co_await Watcher::open({.path = std::move(path)}, {.events = 10, .bytes = 100'000});
  }(at("home")));
  for (int i = 0; i < 30; ++i) write(at(fmt::format("home/{}", i)), "");
  std::size_t taken = 0;
  run_until([&] {
    const bool ended = watcher->end() != nullptr;
    if (!ended) taken += watcher->take(60).size();
    return ended;
  });
  ASSERT_NE(watcher->end(), nullptr);
  EXPECT_EQ(watcher->end()->code, connect::RpcCode::data_loss);
  EXPECT_EQ(taken, 11U);
}

}  // namespace
}  // namespace space::guest
