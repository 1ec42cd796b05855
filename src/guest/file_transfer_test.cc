// GET, HEAD and POST of /files and /files/compose over an in-process stream, with real files. Runs as any
// user.
#include <gtest/gtest.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <fstream>

#include "core/file_signature.h"
#include "guest/gzip.h"
#include "guest/http_service.h"

namespace space::guest {
namespace {

constexpr Millis patience{20'000};

using FieldList = std::vector<std::pair<std::string, std::string>>;

struct Answer {
  int status = 0;  // 0: the connection broke
  http::Fields fields;
  std::optional<std::uint64_t> length;  // Content-Length
  std::string body;
  std::string field(std::string_view name) const { return std::string(fields.get(name).value_or("-")); }
};

class FileTransferTest : public testing::Test {
 protected:
  FileTransferTest() : table_(loop_.get_executor()), state_(loop_.get_executor()), service_(state_, table_) {
    char path[] = "/var/tmp/space-files-XXXXXX";  // of a file system that has attributes
    folder_ = ::mkdtemp(path);
    const std::string etc = folder_ + "/etc";
    std::filesystem::create_directory(etc);
    std::ofstream(etc + "/passwd") << fmt::format("me:x:{}:{}::{}:/bin/sh\n", ::getuid(), ::getgid(),
                                                  folder_);
    state_.users = UserDatabase(etc);
    state_.default_user = "me";
  }
  ~FileTransferTest() override { std::filesystem::remove_all(folder_); }

  Task<Answer> exchange(std::string method, std::string target, std::string body, FieldList more) {
    auto [ours, theirs] = make_stream_pair(loop_.get_executor());
    spawn(loop_.get_executor(), "service", service_.serve(std::move(theirs)));
    http::ClientConnection client(std::move(ours));
    http::RequestHead head{.method = std::move(method), .target = std::move(target), .fields = {}};
    head.chunked = !body.empty();
    head.fields.add("Host", "localhost");
    for (const auto& [name, value] : more) head.fields.add(name, value);
    (void)co_await client.write_request(head);
    if (!body.empty()) (void)co_await client.write_body(as_bytes(body));
    (void)co_await client.end_request();
    const auto response = co_await client.read_response(Deadline::after(patience));
    if (!response) co_return Answer();
    Answer answer{response->head.status, response->head.fields, response->head.content_length, ""};
    auto text = co_await http::read_all(client.body(), 64 * 1024 * 1024);
    if (!text) co_return Answer();
    answer.body = *std::move(text);
    co_return answer;
  }
  Answer call(std::string method, std::string target, std::string body = "", FieldList fields = {}) {
    std::optional<Answer> result;
    boost::asio::co_spawn(
        loop_,
        detail::store_result(
            exchange(std::move(method), std::move(target), std::move(body), std::move(fields)), &result),
        boost::asio::detached);
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (!result && std::chrono::steady_clock::now() < limit) loop_.run_one_for(Millis(100));
    return result.value_or(Answer());
  }
  Answer get(const std::string& name, FieldList fields = {}) {
    return call("GET", "/files?path=" + name, "", std::move(fields));
  }
  Answer upload(const std::string& name, std::string body, FieldList fields = {}) {
    fields.emplace_back("Content-Type", "application/octet-stream");
    return call("POST", "/files?path=" + name, std::move(body), std::move(fields));
  }
  Answer compose(std::string_view sources, std::string_view destination) {
    return call("POST", "/files/compose",
                fmt::format(R"({{"source_paths":[{}],"destination":"{}"}})", sources, destination));
  }
  void put(const std::string& name, std::string_view content) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << content;
  }
  std::string content(const std::string& name) {
    std::ifstream file(folder_ + "/" + name, std::ios::binary);
    return file ? std::string(std::istreambuf_iterator<char>(file), {}) : "missing";
  }
  std::vector<std::string> names() {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      if (entry.path().filename() != "etc") found.push_back(entry.path().filename());
    std::ranges::sort(found);
    return found;
  }
  static std::string gzip(std::string_view text) {
    return std::string(as_text(Compressor().compress(as_bytes(text), true)));
  }
  static std::string gunzip(std::string_view compressed) {
    Decompressor decompressor;
    Bytes out(16 * 1024 * 1024);
    const auto progress = decompressor.decompress(as_bytes(compressed), out);
    if (!progress || !decompressor.complete()) return "no gzip";
    return std::string(as_text(std::span(out).first(progress->produced)));
  }
  static std::string part(std::string_view disposition, std::string_view text) {
    return fmt::format("--B\r\nContent-Disposition: form-data; {}\r\n\r\n{}\r\n", disposition, text);
  }
  Answer send_form(const std::string& body, const std::string& query = "", FieldList fields = {}) {
    fields.emplace_back("Content-Type", "multipart/form-data; boundary=B");
    return call("POST", "/files" + query, body + "--B--\r\n", std::move(fields));
  }

  boost::asio::io_context loop_{1};
  ProcessTable table_;
  GuestState state_;
  HttpService service_;
  std::string folder_;
};

std::string counted(std::size_t size) {
  std::string text;
  for (int i = 0; text.size() < size; ++i) text += fmt::format("{:07}\n", i);
  text.resize(size);
  return text;
}

TEST_F(FileTransferTest, AWholeFileSaysWhatItIs) {
  put("a.txt", "hello");
  const Answer answer = get("a.txt");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "hello");
  EXPECT_EQ(answer.length, 5U);
  EXPECT_EQ(answer.field("Content-Type"), "application/octet-stream");
  EXPECT_EQ(answer.field("Content-Disposition"), "inline; filename=\"a.txt\"");
  EXPECT_EQ(answer.field("Vary"), "Accept-Encoding");
  EXPECT_EQ(answer.field("Accept-Ranges"), "bytes");
  EXPECT_NE(answer.field("Last-Modified"), "-");
  EXPECT_NE(answer.field("ETag"), "-");
  EXPECT_EQ(answer.field("Content-Encoding"), "-");
  const Answer head = call("HEAD", "/files?path=a.txt");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.length, 5U);
  EXPECT_EQ(head.body, "");
  put("\xC3\xA4 \".txt", "");
  const Answer odd = get("%C3%A4%20%22.txt");
  EXPECT_EQ(odd.length, 0U);
  EXPECT_EQ(odd.field("Content-Disposition"), "inline; filename*=UTF-8''%C3%A4%20%22.txt");
}

TEST_F(FileTransferTest, PartsOfALargeFile) {
  const std::string text = counted(1'000'000);
  put("big", text);
  EXPECT_TRUE(get("big").body == text);
  for (const auto& [first, last] : {std::pair(0U, 0U),
                                    {5U, 300'000U},
                                    {262'143U, 262'144U},
                                    {262'144U, 999'999U},
                                    {900'000U, 950'000U},
                                    {999'999U, 999'999U}}) {
    const Answer answer =
        get("big", {{"Range", fmt::format("bytes={}-{}", first, last)}, {"Accept-Encoding", "gzip"}});
    EXPECT_EQ(answer.status, 206);
    EXPECT_EQ(answer.field("Content-Range"), fmt::format("bytes {}-{}/1000000", first, last));
    EXPECT_TRUE(answer.body == text.substr(first, last - first + 1)) << first;
  }
  const Answer outside = get("big", {{"Range", "bytes=1000000-"}});
  EXPECT_EQ(outside.status, 416);
  EXPECT_EQ(outside.field("Content-Range"), "bytes */1000000");
  EXPECT_TRUE(get("big", {{"Range", "bytes=0-1,5-9"}}).body == text);
}

TEST_F(FileTransferTest, ConditionsOfAFile) {
  put("a", "hello");
  const Answer first = get("a");
  const Answer again = get("a", {{"If-None-Match", first.field("ETag")}});
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.body, "");
  EXPECT_EQ(again.field("Last-Modified"), first.field("Last-Modified"));
  EXPECT_EQ(get("a", {{"If-Modified-Since", first.field("Last-Modified")}}).status, 304);
  EXPECT_EQ(get("a", {{"If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"}}).status, 412);
  put("a", "changed");
  EXPECT_EQ(get("a", {{"If-None-Match", first.field("ETag")}}).body, "changed");
  EXPECT_EQ(get("a", {{"If-Range", first.field("ETag")}, {"Range", "bytes=0-0"}}).body, "changed");
  const std::string modified = get("a").field("Last-Modified");
  EXPECT_EQ(get("a", {{"If-Range", modified}, {"Range", "bytes=0-0"}}).body, "c");
}

TEST_F(FileTransferTest, CompressedWhenAskedFor) {
  const std::string text = counted(3'000'000);
  put("big", text);
  const Answer packed = get("big", {{"Accept-Encoding", "gzip"}});
  EXPECT_EQ(packed.field("Content-Encoding"), "gzip");
  EXPECT_EQ(packed.length, std::nullopt);
  EXPECT_TRUE(packed.field("ETag").starts_with("W/"));
  EXPECT_LT(packed.body.size(), text.size() / 2);
  EXPECT_TRUE(gunzip(packed.body) == text);
  EXPECT_EQ(get("big", {{"Accept-Encoding", "gzip, deflate"}}).field("Content-Encoding"), "-");
  EXPECT_EQ(call("HEAD", "/files?path=big", "", {{"Accept-Encoding", "gzip"}}).field("Content-Encoding"),
            "gzip");
  EXPECT_EQ(get("big", {{"Accept-Encoding", "identity;q=0"}}).status, 406);
  put("empty", "");
  const Answer empty = get("empty", {{"Accept-Encoding", "gzip"}});
  EXPECT_EQ(empty.length, 0U);
  EXPECT_EQ(empty.field("Content-Encoding"), "-");
}

TEST_F(FileTransferTest, FilesThatSayTheyAreEmptyAreReadToTheirEnd) {
  const Answer status = get("/proc/self/status");
  EXPECT_NE(status.body.find("Name:"), std::string::npos);
  EXPECT_EQ(status.field("ETag"), "-");
  EXPECT_EQ(status.length, status.body.size());
  EXPECT_NE(gunzip(get("/proc/self/status", {{"Accept-Encoding", "gzip"}}).body).find("Name:"),
            std::string::npos);
  // Longer than one piece, so that nobody knows its length beforehand.
  const Answer symbols = get("/proc/kallsyms");
  EXPECT_EQ(symbols.length, std::nullopt);
  EXPECT_GT(symbols.body.size(), 300'000U);
  EXPECT_EQ(get("/proc/kallsyms", {{"Range", "bytes=0-1"}}).status, 200);
}

TEST_F(FileTransferTest, RawUploads) {
  const std::string text = counted(2'000'000);
  const Answer written = upload("in/a%20b/raw", text);
  EXPECT_EQ(written.status, 200);
  EXPECT_EQ(written.body, fmt::format(R"([{{"path":"{}/in/a b/raw","name":"raw","type":"file"}}])", folder_));
  EXPECT_TRUE(content("in/a b/raw") == text);
  EXPECT_EQ(upload("in/a%20b/raw", "short").status, 200);
  EXPECT_EQ(content("in/a b/raw"), "short");
  EXPECT_EQ(upload("in", "x").status, 400);
  EXPECT_EQ(upload("/dev/null", "x").status, 400);
  EXPECT_EQ(upload("", "x").status, 400);
  EXPECT_EQ(upload("in/a%20b/raw/below", "x").status, 400) << "below a file";
}

TEST_F(FileTransferTest, CompressedUploads) {
  const std::string text = counted(2'000'000);
  EXPECT_EQ(upload("g", gzip(text), {{"Content-Encoding", "gzip"}}).status, 200);
  EXPECT_TRUE(content("g") == text);
  EXPECT_EQ(upload("g", gzip("one") + gzip("two"), {{"Content-Encoding", "x-gzip"}}).status, 200);
  EXPECT_EQ(content("g"), "onetwo");
  EXPECT_EQ(upload("g", "not gzip at all", {{"Content-Encoding", "gzip"}}).status, 400);
  const std::string cut = gzip(text);
  EXPECT_EQ(upload("g", cut.substr(0, cut.size() - 10), {{"Content-Encoding", "gzip"}}).status, 400);
  EXPECT_EQ(upload("g", "x", {{"Content-Encoding", "br"}}).status, 415);
  const std::string form = part("name=\"file\"; filename=\"f\"", "of a form") + "--B--\r\n";
  const FieldList fields = {{"Content-Type", "multipart/form-data; boundary=B"},
                            {"Content-Encoding", "gzip"}};
  EXPECT_EQ(call("POST", "/files", gzip(form), fields).status, 200);
  EXPECT_EQ(content("f"), "of a form");
}

TEST_F(FileTransferTest, FormUploads) {
  const std::string text = counted(1'000'000);
  const Answer written =
      send_form(part("name=\"file\"; filename=\"x/one\"", text) + part("name=\"other\"", "ignored") +
                part("name=\"file\"; filename=\"two\"", ""));
  EXPECT_EQ(written.status, 200) << written.body;
  EXPECT_TRUE(content("x/one") == text);
  EXPECT_EQ(content("two"), "");
  const JsonArray list = parse_json(written.body)->as_array();
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].at("name").as_string(), "one");
  EXPECT_EQ(send_form(part("name=\"file\"; filename=\"named\"", "1"), "?path=chosen").status, 200);
  EXPECT_EQ(content("chosen"), "1");
  EXPECT_EQ(content("named"), "missing");
  const std::string twice =
      part("name=\"file\"; filename=\"t\"", "1") + part("name=\"file\"; filename=\"./t\"", "2");
  EXPECT_EQ(send_form(twice).status, 400);
  EXPECT_EQ(send_form(twice, "?path=chosen").status, 400);
  EXPECT_EQ(send_form(part("name=\"file\"", "no name")).status, 400);
  EXPECT_EQ(send_form(part("name=\"other\"", "x")).body, "[]");
  EXPECT_EQ(send_form(part("name=\"file\"; filename=\"x\"", "a folder")).status, 400);
}

TEST_F(FileTransferTest, MetadataIsReplacedAsAWhole) {
  const auto attribute = [&](const char* name) {
    char value[64];
    const ssize_t size = ::getxattr((folder_ + "/m").c_str(), name, value, sizeof value);
    return size < 0 ? "-" : std::string(value, static_cast<std::size_t>(size));
  };
  const Answer first =
      upload("m", "x", {{"X-Metadata-Author", "Me"}, {"x-metadata-a.b", "2"}, {"X-Metadata-", "no key"}});
  EXPECT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(parse_json(first.body)->as_array()[0].at("metadata"),
            (JsonObject{{"author", "Me"}, {"a.b", "2"}}));
  EXPECT_EQ(attribute("user.e2b.author"), "Me");
  EXPECT_EQ(attribute("user.e2b.a.b"), "2");
  EXPECT_EQ(send_form(part("name=\"file\"; filename=\"m\"", "y"), "", {{"X-Metadata-Author", "You"}}).status,
            200);
  EXPECT_EQ(attribute("user.e2b.author"), "You");
  EXPECT_EQ(attribute("user.e2b.a.b"), "-");
  EXPECT_EQ(upload("m", "z").status, 200);
  EXPECT_EQ(attribute("user.e2b.author"), "-");
  EXPECT_EQ(upload("m", "z", {{"X-Metadata-" + std::string(247, 'k'), "v"}}).status, 400);
  EXPECT_EQ(upload("m", "z", {{"X-Metadata-k", std::string(4000, 'v')}}).status, 400);
}

TEST_F(FileTransferTest, Compose) {
  const std::string big = counted(600'000);
  put("1", "one ");
  put("2", big);
  put("3", " three");
  const Answer made = compose(R"("1","2","3")", "new/all");
  EXPECT_EQ(made.status, 200) << made.body;
  EXPECT_EQ(made.body, fmt::format(R"({{"path":"{}/new/all","name":"all","type":"file"}})", folder_));
  EXPECT_TRUE(content("new/all") == "one " + big + " three");
  EXPECT_EQ(names(), (std::vector<std::string>{"new"}));
}

TEST_F(FileTransferTest, ComposeIntoOneOfItsSources) {
  put("1", "one ");
  put("2", "two");
  ::chmod((folder_ + "/1").c_str(), 0600);
  EXPECT_EQ(compose(R"("1","2","1")", "1").status, 200);
  EXPECT_EQ(content("1"), "one twoone ");
  EXPECT_EQ(names(), (std::vector<std::string>{"1"}));
  EXPECT_EQ(std::filesystem::status(folder_ + "/1").permissions(), std::filesystem::perms(0600));
}

TEST_F(FileTransferTest, AFailedComposeLosesNothing) {
  put("1", "one");
  put("2", "two");
  std::filesystem::create_directory(folder_ + "/folder");
  EXPECT_EQ(compose(R"("1","missing")", "2").status, 404);
  EXPECT_EQ(compose(R"("1","folder")", "2").status, 400);
  EXPECT_EQ(compose(R"("1")", "folder").status, 400);
  EXPECT_EQ(compose("", "2").status, 400);
  EXPECT_EQ(compose("1", "2").status, 400);
  EXPECT_EQ(call("POST", "/files/compose", "{").status, 400);
  EXPECT_EQ(call("POST", "/files/compose", R"({"source_paths":["1"],"destination":"2","username":"nobody"})")
                .status,
            401);
  EXPECT_EQ(content("1"), "one");
  EXPECT_EQ(content("2"), "two");
  EXPECT_EQ(names(), (std::vector<std::string>{"1", "2", "folder"}));
}

TEST_F(FileTransferTest, SignaturesInPlaceOfTheToken) {
  state_.access_token = SecretText(std::string("0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0"));
  put("hello.txt", "hello");
  const auto message = [](const Answer& answer) {
    EXPECT_EQ(answer.status, 401);
    return std::string(parse_json(answer.body)->at("message").as_string());
  };
  const std::string good =
      "/files?path=hello.txt&username=me&signature=" +
      http::percent_encode(sign({.path = "hello.txt", .username = "me"}, state_.access_token.reveal()));
  EXPECT_EQ(call("GET", good).body, "hello");
  EXPECT_EQ(call("HEAD", good).status, 200);
  EXPECT_EQ(message(call("POST", good, "x")), "invalid signature") << "made for reading";
  EXPECT_EQ(message(call("GET", good, "", {{"X-Access-Token", "wrong"}})),
            "access token present in header but does not match");
  EXPECT_EQ(message(call("GET", "/files?path=hello.txt")), "missing signature query parameter");
  EXPECT_EQ(message(call("GET", "/files?path=hello.txt&signature=v1_x")), "invalid signature");
  EXPECT_EQ(message(call("GET", good + "&signature_expiration=4000000000")), "invalid signature");
  const auto until = [&](std::string moment) {
    const SignedFileRequest request{.operation = FileOperation::write, .path = "up", .expiration = moment};
    return fmt::format("/files?path=up&signature={}&signature_expiration={}",
                       http::percent_encode(sign(request, state_.access_token.reveal())), moment);
  };
  EXPECT_EQ(call("POST", until("4000000000"), "up").status, 200);
  EXPECT_EQ(content("up"), "up");
  EXPECT_EQ(message(call("POST", until("1000000000"), "down")), "signature is already expired");
  EXPECT_EQ(content("up"), "up");
  EXPECT_EQ(call("POST", "/files/compose?signature=" + std::string(46, 'v'), "{}").status, 401);
  EXPECT_EQ(call("GET", "/metrics").status, 401);
  EXPECT_EQ(call("GET", "/metrics", "", {{"X-Access-Token", state_.access_token.reveal()}}).status, 200);
}

}  // namespace
}  // namespace space::guest
