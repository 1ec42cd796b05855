#include "control/test_plane.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/bytes.h"
#include "base/fd.h"
#include "control/bootstrap.h"
#include "store/sqlite_repository.h"

namespace space::control {

namespace {

// A stream that says it comes from this machine.
class LoopbackStream final : public Stream {
 public:
  explicit LoopbackStream(StreamPtr stream) : stream_(std::move(stream)) {}
  Task<Result<std::size_t>> read(std::span<std::byte> into) override { return stream_->read(into); }
  Task<Result<void>> write(std::span<const std::byte> bytes) override { return stream_->write(bytes); }
  Task<Result<void>> finish() override { return stream_->finish(); }
  void reset() noexcept override { stream_->reset(); }
  bool peer_is_loopback() const override { return true; }

 private:
  StreamPtr stream_;
};

}  // namespace

struct TestPlane::Parts {
  Parts(const Executor& executor, std::unique_ptr<store::Repository> opened, const Clock& clock,
        std::int64_t timeout_max_s, EgressMode egress_default)
      : repository(std::move(opened)),
        nodes(executor),
        sandboxes(executor, *repository, nodes, clock,
                  {.timeout_max_s = timeout_max_s,
                   .node_patience = Millis(200),
                   .create_patience = Millis(5000),
                   .delete_patience = Millis(5000),
                   .transition_patience = Millis(300),
                   .move_patience = Millis(5000),
                   .pool_patience = Millis(100),
                   .egress_default = egress_default}),
        auth(*repository, clock),
        api(*repository, sandboxes, nodes, auth, clock, ""),
        proxy(sandboxes, nodes),
        signed_urls(sandboxes, clock),
        edge(executor, api, proxy, signed_urls) {}

  std::unique_ptr<store::Repository> repository;
  NodeLink nodes;
  SandboxService sandboxes;
  Auth auth;
  Api api;
  Proxy proxy;
  SignedUrls signed_urls;
  Edge edge;
};

std::string Answer::message() const {
  const auto text = text_member(json(), "message");
  return text && *text ? **text : "";
}

TestPlane::TestPlane(std::int64_t timeout_max_s, EgressMode egress_default)
    : timeout_max_s_(timeout_max_s), egress_default_(egress_default) {
  char pattern[] = "/tmp/space-control-XXXXXX";
  folder_ = mkdtemp(pattern);
  loop_ = std::make_unique<boost::asio::io_context>(1);
  node_ = std::make_unique<FakeNode>(loop_->get_executor());
  open();
  store::Template base{"base-id", "base", std::string(64, 'a'), {}, "user", "/home/user", clock.wall()};
  EXPECT_TRUE(run(repository().put_template(base)));
}

TestPlane::~TestPlane() {
  parts_.reset();
  node_.reset();
  std::filesystem::remove_all(folder_);
}

void TestPlane::open() {
  auto repository = store::open_sqlite_repository(folder_ + "/control.db");
  ASSERT_TRUE(repository) << repository.error().message;
  parts_ =
      std::make_unique<Parts>(executor(), *std::move(repository), clock, timeout_max_s_, egress_default_);
  ASSERT_TRUE(run(bootstrap(*parts_->repository, folder_, "http://127.0.0.1:3000", clock.wall())));
  const auto file = parse_json_object(*read_file(folder_ + "/bootstrap.json", 4096), "bootstrap");
  api_key = *require_text(*file, "api_key");
  ASSERT_TRUE(run(parts_->sandboxes.start()));
}

void TestPlane::restart() {
  const auto kept = node_->sandboxes;
  const auto held = node_->held;
  const auto published = node_->published;
  parts_.reset();
  node_.reset();
  loop_ = std::make_unique<boost::asio::io_context>(1);
  node_ = std::make_unique<FakeNode>(loop_->get_executor());
  node_->sandboxes = kept;
  node_->held = held;
  node_->published = published;
  open();
}

SandboxService& TestPlane::sandboxes() {
  return parts_->sandboxes;
}
store::Repository& TestPlane::repository() {
  return *parts_->repository;
}

void TestPlane::connect_node() {
  auto [ours, theirs] = make_stream_pair(executor());
  spawn(executor(), "fake node", node_->serve(std::move(theirs)));
  spawn(executor(), "node link", parts_->nodes.serve(std::move(ours), parts_->sandboxes));
  run_until([this] { return parts_->nodes.current() != nullptr; });
}

void TestPlane::Sending::begin(TestPlane& plane, http::RequestHead head, std::string body) {
  connection_.emplace(plane.dial());
  spawn(plane.executor(), "client",
        [](http::ClientConnection& c, http::RequestHead h, std::string text,
           std::shared_ptr<std::optional<Answer>> out) -> Task<void> {
          *out = co_await exchange(c, std::move(h), std::move(text));
        }(*connection_, std::move(head), std::move(body), answer_));
}

std::unique_ptr<TestPlane::Sending> TestPlane::begin(http::RequestHead head, std::string body) {
  auto sending = std::make_unique<Sending>();
  sending->begin(*this, std::move(head), std::move(body));
  return sending;
}

std::unique_ptr<TestPlane::Sending> TestPlane::begin_api(std::string method, std::string target,
                                                         std::string body) {
  auto head = request(std::move(method), std::move(target), body);
  head.fields.add("X-API-Key", api_key);
  return begin(std::move(head), std::move(body));
}

Answer TestPlane::finish(Sending& sending) {
  run_until([&] { return sending.done(); });
  return sending.answer();
}

void TestPlane::lose_node() {
  node_->drop_session();
  run_until([this] { return parts_->nodes.current() == nullptr; });
}

bool TestPlane::connected() const {
  return parts_->nodes.current() != nullptr;
}

void TestPlane::run_until(std::function<bool()> condition) {
  const Deadline deadline = Deadline::after(Millis(10'000));
  while (!condition()) {
    if (deadline.passed()) {
      ADD_FAILURE() << "did not happen within 10 s";
      std::abort();
    }
    loop_->restart();
    loop_->run_one_for(Millis(100));
  }
}

StreamPtr TestPlane::dial(bool from_loopback) {
  auto [ours, theirs] = make_stream_pair(executor());
  spawn(executor(), "edge",
        parts_->edge.serve(from_loopback ? std::make_unique<LoopbackStream>(std::move(theirs))
                                         : std::move(theirs)));
  return std::move(ours);
}

http::RequestHead TestPlane::request(std::string method, std::string target, std::string body) {
  http::RequestHead head;
  head.method = std::move(method);
  head.target = std::move(target);
  head.fields.add("Host", "127.0.0.1:3000");
  if (!body.empty()) head.chunked = true;  // as the SDKs do
  return head;
}

http::RequestHead TestPlane::to_sandbox(std::string method, std::string target, std::string sandbox,
                                        int port) {
  auto head = request(std::move(method), std::move(target), "");
  head.fields.add("E2b-Sandbox-Id", sandbox);
  head.fields.add("E2b-Sandbox-Port", std::to_string(port));
  return head;
}

Task<Answer> read_answer(http::ClientConnection& connection) {
  const auto response = co_await connection.read_response(Deadline::after(Millis(10'000)));
  if (!response) co_return Answer();
  const auto body = co_await http::read_all(connection.body(), 64 * 1024 * 1024);
  if (!body) co_return Answer();
  co_return Answer{response->head.status, *body, response->head.fields};
}

Task<Answer> exchange(http::ClientConnection& connection, http::RequestHead head, std::string body) {
  (void)co_await connection.write_request(head);
  if (!body.empty()) (void)co_await connection.write_body(as_bytes(body));
  (void)co_await connection.end_request();
  co_return co_await read_answer(connection);
}

Answer TestPlane::send(http::RequestHead head, std::string body) {
  http::ClientConnection connection(dial());
  return run(exchange(connection, std::move(head), std::move(body)));
}

Answer TestPlane::api(std::string method, std::string target, std::string body) {
  auto head = request(std::move(method), std::move(target), body);
  head.fields.add("X-API-Key", api_key);
  return send(std::move(head), std::move(body));
}

std::string TestPlane::create(std::string body) {
  const Answer answer = api("POST", "/v2/sandboxes", std::move(body));
  EXPECT_EQ(answer.status, 201) << answer.body;
  return require_text(answer.json(), "sandboxID").value_or("");
}

}  // namespace space::control
