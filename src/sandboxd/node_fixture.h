// NodeTest: the whole sandbox manager as the real process, between a fake node manager with fake VMs and a
// fake control plane. Killing it here is kill -9. For tests.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>

#include "base/bytes.h"
#include "base/ids.h"
#include "sandboxd/fake_netd.h"
#include "sandboxd/fake_noded.h"

extern char** environ;

namespace space {

using namespace std::chrono_literals;

inline const std::string digest(64, 'a');
inline const std::string token = "0123456789abcdef0123456789abcdef";

class NodeTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/space-node-XXXXXX";
    folder_ = mkdtemp(pattern);
    for (const auto* name : {"noded", "netd", "control", "sandboxd"})
      std::filesystem::create_directory(folder_ + "/" + name);
    noded_.emplace(loop_.get_executor(), folder_ + "/noded/noded.sock");
    noded_->templates.insert(digest);
    netd_.emplace(loop_.get_executor(), folder_ + "/netd/netd.sock");
    netd_->has_slot = [this](const std::string& id) { return noded_->sandboxes[id].slot; };
    auto listener = listen_unix(loop_.get_executor(), folder_ + "/control/node.sock", 0600);
    ASSERT_TRUE(listener);
    listener_ = *std::move(listener);
    spawn(loop_.get_executor(), "fake control", accept_nodes());
    start();
  }

  void TearDown() override {
    kill_manager();
    netd_.reset();
    noded_.reset();
    std::filesystem::remove_all(folder_);
  }

  void start() {
    const std::string arguments[] = {SPACE_SANDBOXD,
                                     "--state",
                                     folder_,
                                     "--run",
                                     folder_,
                                     "--accelerator",
                                     accelerator_,
                                     "--memory-limit-mib",
                                     std::to_string(memory_limit_mib_),
                                     allow_tcg_multitenant_ ? "--allow-tcg-multitenant" : ""};
    std::vector<char*> argv;
    for (const std::string& argument : arguments)
      if (!argument.empty()) argv.push_back(const_cast<char*>(argument.c_str()));
    for (const std::string& argument : more_arguments_) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ASSERT_EQ(::posix_spawn(&pid_, SPACE_SANDBOXD, nullptr, nullptr, argv.data(), environ), 0);
    pump_until([&] { return session_ && !session_->closed(); });
  }

  void kill_manager(int signal = SIGKILL) {
    if (pid_ == 0) return;
    if (!has_ended()) ::kill(pid_, signal);
    // Asked to end, it still has work to do with everybody.
    if (signal == SIGTERM) pump_until([&] { return has_ended(); });
    if (pid_ > 0) ::waitpid(pid_, &exit_status_, 0);
    pid_ = 0;
    if (session_) pump_until([&] { return session_->closed(); });
    session_.reset();
  }

  // True also when it ended by itself.
  bool has_ended() {
    if (pid_ > 0 && ::waitpid(pid_, &exit_status_, WNOHANG) == pid_) pid_ = -1;
    return pid_ <= 0;
  }

  template <class Condition>
  void pump_until(Condition condition) {
    const Deadline deadline = Deadline::after(30s);
    while (!condition()) {
      ASSERT_FALSE(deadline.passed()) << "gave up waiting";
      loop_.run_one_for(10ms);
    }
  }

  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    spawn(loop_.get_executor(), "test", detail::store_result(std::move(task), &result));
    pump_until([&] { return result.has_value(); });
    return *std::move(result);
  }

  struct Answer {
    int status = 0;
    JsonObject body;
  };
  // Status 0: the node went away.
  Answer call(const std::string& name, const JsonObject& body) {
    auto response = run(session_->call({"POST", "/node/" + name, to_text(body)}, Deadline::after(60s)));
    if (!response) return {};
    return {response->status, parse_json_object(response->body, "answer").value()};
  }

  JsonObject create_body(const std::string& id, const std::string& team = "a") {
    return {{"id", id},           {"team", team},      {"generation", 1},  {"template", digest},
            {"vcpus", 1},         {"memory_mib", 512}, {"disk_mib", 4096}, {"access_token", token},
            {"env", {{"A", "b"}}}};
  }
  std::string created() {
    const std::string id = new_sandbox_id();
    const Answer answer = call("sandbox/create", create_body(id));
    EXPECT_EQ(answer.status, 200) << to_text(answer.body);
    return id;
  }
  // Its death is its end.
  std::string created_mortal() {
    const std::string id = created();
    EXPECT_EQ(call("sandbox/recovery", {{"id", id}, {"policy", "none"}}).status, 200);
    return id;
  }
  std::string state_of(const std::string& id) {
    const Answer answer = call("sandbox/get", {{"id", id}});
    return answer.status == 200 ? std::string(answer.body.at("state").as_string()) : "";
  }
  std::string echo(const std::string& id, const std::string& text) {
    auto stream = run(session_->connect(id + ":49983", Deadline::after(40s)));
    if (!stream) return "error: " + stream.error().message;
    return echo_on(**stream, text);
  }
  std::string echo_on(Stream& stream, const std::string& text) {
    if (!run(stream.write(as_bytes(text)))) return "write failed";
    std::string received;
    while (received.size() < text.size()) {
      std::byte buffer[256];
      const auto n = run(stream.read(buffer));
      if (!n || *n == 0) return "read failed";
      received += as_text(std::span(buffer).first(*n));
    }
    return received;
  }
  // Nothing in the kernel, no sockets, no record.
  void expect_nothing_left() {
    EXPECT_TRUE(noded_->holds_nothing());
    EXPECT_TRUE(netd_->gates.empty());
    EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/sandboxd/vm"));
    EXPECT_EQ(call("sandbox/list", {}).body.at("sandboxes").as_array().size(), 0u);
  }

  std::string folder_;
  boost::asio::io_context loop_;
  std::optional<FakeNoded> noded_;
  std::optional<FakeNetd> netd_;
  std::unique_ptr<Listener> listener_;
  std::shared_ptr<H2Session> session_;
  std::int64_t memory_limit_mib_ = 1'000'000;
  bool allow_tcg_multitenant_ = false;
  std::string accelerator_ = "tcg";
  std::vector<std::string> more_arguments_;
  pid_t pid_ = 0;
  int exit_status_ = 0;

 private:
  Task<void> accept_nodes() {
    while (true) {
      auto stream = co_await listener_->accept();
      if (!stream) co_return;
      session_ = H2Session::client(*std::move(stream));
      spawn(loop_.get_executor(), "fake control session", drive(session_));
    }
  }
  static Task<void> drive(std::shared_ptr<H2Session> session) { co_await session->run(); }
};

}  // namespace space
