// The daemon's HTTP API over an in-process stream, with real programs. Runs as any user; programs run as that
// user.
#include "guest/http_service.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>

namespace space::guest {
namespace {

constexpr Millis patience{20'000};

struct Answer {
  int status = 0;
  std::string body;
};

// Events of a stream answer in a comparable form: "start", "stdout:text", "end:{…}", "eos:{…}".
struct Events {
  std::string output;
  std::string errors;
  std::string terminal;
  std::string end;
  std::string end_of_stream;
  std::uint32_t pid = 0;
  int after_end = 0;
};

class HttpServiceTest : public testing::Test {
 protected:
  HttpServiceTest() : table_(loop_.get_executor()), state_(loop_.get_executor()), service_(state_, table_) {
    char path[] = "/tmp/space-guest-XXXXXX";
    folder_ = ::mkdtemp(path);
    const std::string etc = folder_ + "/etc";
    std::filesystem::create_directory(etc);
    std::ofstream(etc + "/passwd") << fmt::format("me:x:{}:{}::{}:/bin/sh\n", ::getuid(), ::getgid(),
                                                  folder_);
    state_.users = UserDatabase(etc);
    state_.default_user = "me";
  }
  ~HttpServiceTest() override { std::filesystem::remove_all(folder_); }

  StreamPtr connect() {
    auto [ours, theirs] = make_stream_pair(loop_.get_executor());
    spawn(loop_.get_executor(), "service", service_.serve(std::move(theirs)));
    return std::move(ours);
  }

  // Runs the loop until `task` is done.
  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    boost::asio::co_spawn(loop_, detail::store_result(std::move(task), &result), boost::asio::detached);
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (!result && std::chrono::steady_clock::now() < limit) loop_.run_one_for(Millis(100));
    if (!result) ADD_FAILURE() << "no answer in time";
    return result ? *std::move(result) : T();
  }

  Task<Answer> call_task(std::string method, std::string target, std::string body, http::Fields fields) {
    http::ClientConnection client(connect());
    http::RequestHead head{
        .method = method, .target = target, .fields = fields, .content_length = body.size()};
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
  Answer call(std::string method, std::string target, std::string body = "", http::Fields fields = {}) {
    return run(call_task(std::move(method), std::move(target), std::move(body), std::move(fields)));
  }
  Answer rpc(std::string_view method, std::string body) {
    return call("POST", fmt::format("/process.Process/{}", method), std::move(body));
  }
  Task<Events> stream_task(std::string method, std::string body, http::Fields fields) {
    const Bytes request = connect::envelope(0, body);
    const Answer answer =
        co_await call_task("POST", "/process.Process/" + method, std::string(as_text(request)), fields);
    EXPECT_EQ(answer.status, 200) << answer.body;
    co_return parse(answer.body);
  }
  Events stream(std::string method, std::string body, http::Fields fields = {}) {
    return run(stream_task(std::move(method), std::move(body), std::move(fields)));
  }
  Events shell(std::string command, http::Fields fields = {}) {
    return stream(
        "Start",
        to_text(JsonObject{{"process", JsonObject{{"cmd", "/bin/sh"}, {"args", JsonArray{"-c", command}}}},
                           {"stdin", false}}),
        std::move(fields));
  }
  // Starts a program whose stream is read by a coroutine of its own; returns when it is listed.
  std::uint32_t background(std::string request, Events* result) {
    boost::asio::co_spawn(
        loop_,
        [](HttpServiceTest* test, std::string body, Events* out) -> Task<void> {
          *out = co_await test->stream_task("Start", std::move(body), {});
        }(this, std::move(request), result),
        boost::asio::detached);
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (table_.running().empty() && std::chrono::steady_clock::now() < limit)
      loop_.run_one_for(Millis(100));
    return table_.running().empty() ? 0 : static_cast<std::uint32_t>(table_.running().begin()->first);
  }
  void run_until_ended(const Events& events) {
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (events.end_of_stream.empty() && std::chrono::steady_clock::now() < limit)
      loop_.run_one_for(Millis(100));
  }

  static void take(const JsonObject& event, Events& events) {
    if (!events.end.empty()) ++events.after_end;
    if (const auto* start = event.if_contains("start"))
      events.pid = start->at("pid").to_number<std::uint32_t>();
    if (const auto* end = event.if_contains("end")) events.end = std::string(end->at("status").as_string());
    const auto* data = event.if_contains("data");
    if (data == nullptr) return;
    for (const auto& [kind, bytes] : data->as_object()) {
      std::string& target = kind == "stdout"   ? events.output
                            : kind == "stderr" ? events.errors
                                               : events.terminal;
      target += as_text(*from_base64(std::string(bytes.as_string())));
    }
  }
  static Events parse(std::string_view body) {
    Events events;
    connect::EnvelopeReader reader;
    reader.feed(as_bytes(body));
    for (auto envelope = reader.next(); envelope && *envelope; envelope = reader.next()) {
      EXPECT_TRUE(events.end_of_stream.empty()) << "sent after the end of the stream";
      if ((*envelope)->flags == connect::flag_end_of_stream) {
        events.end_of_stream = (*envelope)->payload;
      } else {
        take(parse_json((*envelope)->payload)->at("event").as_object(), events);
      }
    }
    EXPECT_TRUE(reader.empty());
    EXPECT_EQ(events.after_end, 0);
    return events;
  }

  boost::asio::io_context loop_{1};
  ProcessTable table_;
  GuestState state_;
  HttpService service_;
  std::string folder_;
};

TEST_F(HttpServiceTest, OutputThenEndThenEndOfStream) {
  const Events events = shell("echo out; echo err >&2; exit 3");
  EXPECT_GT(events.pid, 0U);
  EXPECT_EQ(events.output, "out\n");
  EXPECT_EQ(events.errors, "err\n");
  EXPECT_EQ(events.end, "exit status 3");
  EXPECT_EQ(events.end_of_stream, "{}");
}

TEST_F(HttpServiceTest, TenMegabytesArriveInOrder) {
  const Events events = shell("seq 1 1500000");
  std::string expected;
  for (int i = 1; i <= 1'500'000; ++i) expected += fmt::format("{}\n", i);
  EXPECT_GT(expected.size(), 10'000'000U);
  EXPECT_TRUE(events.output == expected) << events.output.size();
}

TEST_F(HttpServiceTest, EnvironmentHoldsOnlyWhatIsSaid) {
  state_.environment = {{"SANDBOX_VALUE", "1"}};
  ::setenv("SPACE_LEAK", "x", 1);
  const Events events = shell("env; pwd");
  EXPECT_EQ(events.output.find("SPACE_LEAK"), std::string::npos);
  for (const char* wanted : {"SANDBOX_VALUE=1\n", "E2B_SANDBOX=true\n", "LOGNAME=me\n"})
    EXPECT_NE(events.output.find(wanted), std::string::npos) << wanted;
  EXPECT_NE(events.output.find("\n" + folder_ + "\n"), std::string::npos) << events.output;
}

TEST_F(HttpServiceTest, WhatCannotStartSaysWhy) {
  const auto failed = [&](std::string process) { return stream("Start", process).end_of_stream; };
  EXPECT_NE(
      failed(R"({"process":{"cmd":"/bin/true","cwd":"/no/such"}})").find("cwd '/no/such' does not exist"),
      std::string::npos);
  EXPECT_NE(failed(R"({"process":{"cmd":"no-such-program"}})").find(R"("code":"invalid_argument")"),
            std::string::npos);
  EXPECT_NE(failed(R"({"process":{"cmd":"/etc"}})").find("Permission denied"), std::string::npos);
  EXPECT_NE(failed("[]").find("invalid_argument"), std::string::npos);
  http::Fields nobody;
  nobody.add("Authorization", "Basic bm9ib2R5OnB3");
  EXPECT_NE(shell("true", nobody).end_of_stream.find("invalid username: 'nobody'"), std::string::npos);
  EXPECT_TRUE(table_.running().empty());
}

TEST_F(HttpServiceTest, TimeoutKillsAndEndsTheStreamWithAnError) {
  http::Fields fields;
  fields.add("Connect-Timeout-Ms", "100");
  const Events events = shell("sleep 60 & sleep 60", fields);  // the orphan holds the pipes
  EXPECT_TRUE(events.end.empty());
  EXPECT_NE(events.end_of_stream.find("deadline_exceeded"), std::string::npos);
  EXPECT_TRUE(table_.running().empty());
}

TEST_F(HttpServiceTest, InputSignalsAndLateConnect) {
  Events events;
  const auto pid = background(R"({"process":{"cmd":"/bin/cat"},"tag":"kitten"})", &events);
  ASSERT_GT(pid, 0U);
  const std::string process = fmt::format(R"("process":{{"pid":{}}})", pid);
  EXPECT_NE(rpc("List", "{}").body.find("kitten"), std::string::npos);
  EXPECT_EQ(rpc("SendInput", "{" + process + R"(,"input":{"stdin":"aGVsbG8="}})").status, 200);
  EXPECT_EQ(rpc("SendInput", "{" + process + R"(,"input":{"pty":"aGVsbG8="}})").status, 500);
  EXPECT_EQ(rpc("Update", "{" + process + R"(,"pty":{"size":{"cols":1,"rows":1}}})").status, 400);
  EXPECT_EQ(rpc("SendSignal", "{" + process + R"(,"signal":"SIGNAL_SIGHUP"})").status, 501);
  EXPECT_EQ(rpc("CloseStdin", R"({"process":{"tag":"kitten"}})").status, 200);
  run_until_ended(events);
  EXPECT_EQ(events.output, "hello");
  EXPECT_EQ(events.end, "exit status 0");
  const Events late = stream("Connect", "{" + process + "}");
  EXPECT_EQ(late.pid, pid);
  EXPECT_EQ(late.end, "exit status 0");
  const Answer gone = rpc("SendSignal", "{" + process + R"(,"signal":"SIGNAL_SIGKILL"})");
  EXPECT_EQ(gone.status, 404);
  EXPECT_NE(gone.body.find(fmt::format("process with pid {} not found", pid)), std::string::npos);
  EXPECT_NE(stream("Connect", R"({"process":{"pid":4000000000}})").end_of_stream.find("not_found"),
            std::string::npos);
  EXPECT_EQ(rpc("Nothing", "{}").status, 501);
}

TEST_F(HttpServiceTest, KillEndsEvenWhenOrphansHoldThePipes) {
  Events events;
  const auto pid = background(
      R"({"process":{"cmd":"/bin/sh","args":["-c","sleep 60 & echo up; wait"]},"stdin":false})", &events);
  ASSERT_GT(pid, 0U);
  EXPECT_EQ(
      rpc("SendSignal", fmt::format(R"({{"process":{{"pid":{}}},"signal":"SIGNAL_SIGKILL"}})", pid)).status,
      200);
  run_until_ended(events);
  EXPECT_EQ(events.end, "signal: killed");
}

TEST_F(HttpServiceTest, WhatIsLeftInTheBackgroundDoesNotHoldTheEnd) {
  const std::string marker = folder_ + "/still-there";
  // It writes more than a pipe holds after the end: it must neither stand still nor be killed.
  const Events events =
      shell(fmt::format("(sleep 0.5; head -c 300000 /dev/zero; : > {}) & echo hi; echo oops >&2", marker));
  EXPECT_EQ(events.output, "hi\n");
  EXPECT_EQ(events.errors, "oops\n");
  EXPECT_EQ(events.end, "exit status 0");
  EXPECT_FALSE(std::filesystem::exists(marker));
  EXPECT_TRUE(table_.running().empty());
  const auto limit = std::chrono::steady_clock::now() + patience;
  while (!std::filesystem::exists(marker) && std::chrono::steady_clock::now() < limit)
    loop_.run_one_for(Millis(100));
  EXPECT_TRUE(std::filesystem::exists(marker));
}

TEST_F(HttpServiceTest, AnOrphanThatWritesWithoutEndDoesNotHoldTheEndEither) {
  const Events events = shell("yes & echo $!");
  EXPECT_EQ(events.end, "exit status 0");
  ::kill(std::stoi(events.output.substr(events.output.find_first_of("0123456789"))), SIGKILL);
}

TEST_F(HttpServiceTest, ATerminalNobodyWatchesKeepsItsLatestOutput) {
  const std::string marker = folder_ + "/written";
  {
    StreamPtr client = connect();
    const Bytes body = connect::envelope(
        0,
        fmt::format(
            R"({{"process":{{"cmd":"/bin/sh","args":["-c","seq 1 40000; echo last; : > {}; read x"]}},"pty":{{}}}})",
            marker));
    const std::string request =
        fmt::format("POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}",
                    body.size(), as_text(body));
    EXPECT_TRUE(run([](StreamPtr* stream, std::string text) -> Task<Result<void>> {
      co_return co_await (*stream)->write(as_bytes(text));
    }(&client, request)));
    while (table_.running().empty()) loop_.run_one_for(Millis(100));
  }
  const auto process = table_.running().begin()->second;
  const auto limit = std::chrono::steady_clock::now() + patience;
  while (!std::filesystem::exists(marker) && std::chrono::steady_clock::now() < limit)
    loop_.run_one_for(Millis(5));
  EXPECT_TRUE(process->signal(SIGKILL));
  const Events events = stream("Connect", fmt::format(R"({{"process":{{"pid":{}}}}})", process->pid()));
  EXPECT_TRUE(events.terminal.ends_with("last\r\n")) << events.terminal.size();
  EXPECT_LT(events.terminal.size(), 64U * 1024);
  EXPECT_EQ(events.end, "signal: killed");
}

TEST_F(HttpServiceTest, AProgramOutlivesItsStream) {
  {
    StreamPtr client = connect();
    const Bytes body =
        connect::envelope(0, R"({"process":{"cmd":"/bin/sleep","args":["60"]},"stdin":false})");
    std::string request =
        fmt::format("POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}",
                    body.size(), as_text(body));
    const auto started = run([](StreamPtr* stream, std::string text) -> Task<std::size_t> {
      (void)co_await (*stream)->write(as_bytes(text));
      std::array<std::byte, 1024> answer;
      co_return (co_await (*stream)->read(answer)).value_or(0);
    }(&client, std::move(request)));
    EXPECT_GT(started, 0U);
  }
  for (int i = 0; i < 20; ++i) loop_.run_one_for(Millis(5));
  ASSERT_EQ(table_.running().size(), 1U);
  const auto process = table_.running().begin()->second;
  EXPECT_TRUE(process->signal(SIGKILL));
  const auto limit = std::chrono::steady_clock::now() + patience;
  while (!process->ended() && std::chrono::steady_clock::now() < limit) loop_.run_one_for(Millis(100));
  EXPECT_TRUE(process->ended());
}

TEST_F(HttpServiceTest, TerminalHasItsSizeAndControlsTheSession) {
  const Events events = stream(
      "Start",
      R"({"process":{"cmd":"/bin/sh","args":["-c","stty size; tty"]},"pty":{"size":{"cols":91,"rows":17}}})");
  EXPECT_NE(events.terminal.find("17 91"), std::string::npos) << events.terminal;
  EXPECT_NE(events.terminal.find("/dev/pts/"), std::string::npos) << events.terminal;
  EXPECT_EQ(events.end, "exit status 0");
}

TEST_F(HttpServiceTest, TokenGuardsEverythingButHealth) {
  state_.access_token = SecretText(std::string("secret"));
  EXPECT_EQ(call("GET", "/health").status, 204);
  EXPECT_EQ(rpc("List", "{}").status, 401);
  EXPECT_NE(call("GET", "/files?path=/etc/passwd").body.find("missing signature query parameter"),
            std::string::npos);
  http::Fields wrong;
  wrong.add("X-Access-Token", "secreT");
  EXPECT_EQ(call("GET", "/files?path=/etc/passwd", "", wrong).status, 401);
  EXPECT_EQ(call("POST", "/process.Process/List", "{}", wrong).status, 401);
  http::Fields right;
  right.add("X-Access-Token", "secret");
  EXPECT_EQ(call("POST", "/process.Process/List", "{}", right).status, 200);
  EXPECT_EQ(call("POST", "/init", "{}", right).status, 404);
}

TEST_F(HttpServiceTest, FilesGoInAndOut) {
  http::Fields raw;
  raw.add("Content-Type", "application/octet-stream");
  const std::string big(600'000, 'x');
  const Answer written = call("POST", "/files?path=a/b%20c/big", big, raw);
  EXPECT_EQ(written.status, 200) << written.body;
  EXPECT_NE(written.body.find(folder_ + "/a/b c/big"), std::string::npos);
  EXPECT_TRUE(call("GET", "/files?path=~/a/b%20c/big").body == big);

  http::Fields form;
  form.add("Content-Type", "multipart/form-data; boundary=B");
  const auto part = [](std::string path, std::string content) {
    return fmt::format("--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\n\r\n{}\r\n",
                       path, content);
  };
  EXPECT_EQ(call("POST", "/files", part("one", "1") + part("two", "") + "--B--\r\n", form).status, 200);
  EXPECT_EQ(call("GET", "/files?path=one").body, "1");
  EXPECT_EQ(call("GET", "/files?path=two").body, "");
  EXPECT_EQ(call("POST", "/files", part("one", "1") + part("./one", "2") + "--B--\r\n", form).status, 400);
  EXPECT_EQ(call("POST", "/files", part("three", "3"), form).status, 400);
}

TEST_F(HttpServiceTest, FilesThatCannotBe) {
  EXPECT_EQ(call("GET", "/files?path=missing").status, 404);
  EXPECT_EQ(call("GET", "/files?path=/").status, 400);
  EXPECT_EQ(call("GET", "/files?path=/dev/null").status, 400);
  EXPECT_EQ(call("GET", "/files?path=~bob").status, 400);
  EXPECT_EQ(call("GET", "/files?path=x&username=nobody").status, 401);
  EXPECT_EQ(call("POST", "/files?path=/tmp", "x").status, 400);
  EXPECT_EQ(call("POST", "/files", "x").status, 400);
  EXPECT_EQ(call("DELETE", "/files?path=x").status, 405);
  EXPECT_NE(call("GET", "/files?path=/proc/self/status").body.find("Name:"), std::string::npos);
  EXPECT_EQ(call("GET", "/nothing").status, 404);
}

}  // namespace
}  // namespace space::guest
