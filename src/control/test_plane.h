// TestPlane: a whole control plane in one process for tests: the real edge, API, proxy, service and database
// file, a FakeNode for the node and a FakeClock for the wall. `restart` is a kill -9: nothing but the file
// survives.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "control/edge.h"
#include "control/fake_node.h"

namespace space::control {

struct Answer {
  int status = 0;  // 0: the connection broke
  std::string body;
  http::Fields fields;
  JsonObject json() const { return parse_json_object(body, "answer").value_or(JsonObject()); }
  std::string message() const;
};

class TestPlane {
 public:
  explicit TestPlane(std::int64_t timeout_max_s = 3600, EgressMode egress_default = EgressMode::allow_all);
  ~TestPlane();

  void connect_node();  // the node dials in; returns when it is accepted
  void lose_node();
  bool connected() const;
  void restart();

  // Drives the loop until `task` is done.
  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    boost::asio::co_spawn(
        *loop_,
        [](Task<T> t, std::optional<T>& out) -> Task<void> { out.emplace(co_await std::move(t)); }(
                                                 std::move(task), result),
        [](std::exception_ptr error) {
          if (error) std::rethrow_exception(error);
        });
    run_until([&] { return result.has_value(); });
    return *std::move(result);
  }
  // Drives the loop until `condition` holds; fails the test after 10 s.
  void run_until(std::function<bool()> condition);

  // A new connection to the edge.
  StreamPtr dial(bool from_loopback = true);
  static http::RequestHead request(std::string method, std::string target, std::string body);
  static http::RequestHead to_sandbox(std::string method, std::string target, std::string sandbox,
                                      int port = 49983);
  // One request on a connection of its own.
  Answer send(http::RequestHead head, std::string body = "");
  Answer api(std::string method, std::string target, std::string body = "");
  // A request under way, to be looked after later.
  class Sending {
   public:
    void begin(TestPlane& plane, http::RequestHead head, std::string body);
    bool done() const { return answer_->has_value(); }
    const Answer& answer() const { return **answer_; }
    void leave() { connection_->abort(); }

   private:
    std::optional<http::ClientConnection> connection_;
    std::shared_ptr<std::optional<Answer>> answer_ = std::make_shared<std::optional<Answer>>();
  };
  std::unique_ptr<Sending> begin(http::RequestHead head, std::string body = "");
  std::unique_ptr<Sending> begin_api(std::string method, std::string target, std::string body = "");
  Answer finish(Sending& sending);
  // Creates one of "base" and answers its id.
  std::string create(std::string body = R"({"templateID":"base"})");

  FakeClock clock;
  FakeNode& node() { return *node_; }
  SandboxService& sandboxes();
  store::Repository& repository();
  Executor executor() { return loop_->get_executor(); }
  std::string api_key;

 private:
  struct Parts;
  void open();

  std::int64_t timeout_max_s_;
  EgressMode egress_default_;
  std::string folder_;
  std::unique_ptr<boost::asio::io_context> loop_;
  std::unique_ptr<FakeNode> node_;
  std::unique_ptr<Parts> parts_;
};

// Sends and reads the answer whole.
Task<Answer> exchange(http::ClientConnection& connection, http::RequestHead head, std::string body);
Task<Answer> read_answer(http::ClientConnection& connection);

}  // namespace space::control
