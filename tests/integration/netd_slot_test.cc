// The gateway as it runs: space-noded as root makes a slot, space-netd as a user of its own serves it, and a
// guest on its tap finds no other way. The node's uplink leads to a namespace that plays the internet.
#include <sys/stat.h>
#include <sys/wait.h>

#include <boost/asio/io_context.hpp>
#include <csignal>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/json.h"
#include "base/json_text.h"
#include "net/h2_session.h"
#include "netd/dns_answer.h"
#include "tests/integration/noded_fixture.h"
#include "tests/integration/slot_guest.h"

namespace space::noded {
namespace {

using namespace netd;

constexpr uid_t netd_uid = 54322;
constexpr char server[] = "45.0.0.10", other_server[] = "45.0.0.20";
const std::vector<std::string> both_clients{"--sandboxd-uid", "0", "--netd-uid", std::to_string(netd_uid)};

// What is at the other end of the node's uplink: a resolver, HTTP on 80, and a server that speaks first
// on 22.
class Internet {
 public:
  Internet() : thread_([this] { live(); }) {
    EXPECT_TRUE(await([this] { return tid_ != 0; }));
    EXPECT_EQ(
        std::system(fmt::format("ip link add up0 type veth peer name eth0 netns {} && ip link set lo up &&"
                                " ip link set up0 up && ip addr add 45.0.0.1/24 dev up0",
                                tid_.load())
                        .c_str()),
        0);
    linked_ = true;
    EXPECT_TRUE(await([this] { return serving_.load(); }));
  }
  ~Internet() {
    stop_ = true;
    thread_.join();
  }
  std::size_t questions() const { return questions_; }
  std::size_t connections() const { return connections_; }

 private:
  static Fd listen_at(const char* host, std::uint16_t port, int type) {
    Address own = address_of(host, port);
    Fd fd(::socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(::bind(fd.get(), own.get(), own.size), 0) << std::strerror(errno);
    if (type == SOCK_STREAM) EXPECT_EQ(::listen(fd.get(), 16), 0);
    return fd;
  }
  void live() {
    EXPECT_EQ(::unshare(CLONE_NEWNET), 0);
    tid_ = ::gettid();
    EXPECT_TRUE(await([this] { return linked_.load(); }));
    EXPECT_EQ(std::system("ip link set lo up && ip link set eth0 up && ip addr add 45.0.0.10/24 dev eth0 && "
                          "ip addr add 45.0.0.20/24 dev eth0"),
              0);
    const Fd dns = listen_at(server, 53, SOCK_DGRAM), web = listen_at("0.0.0.0", 80, SOCK_STREAM),
             shell = listen_at("0.0.0.0", 22, SOCK_STREAM);
    serving_ = true;
    while (!stop_) {
      std::vector<pollfd> ready{{dns.get(), POLLIN, 0}, {web.get(), POLLIN, 0}, {shell.get(), POLLIN, 0}};
      for (const Fd& open : open_) ready.push_back({open.get(), POLLIN, 0});
      if (::poll(ready.data(), ready.size(), 20) <= 0) continue;
      if (ready[0].revents != 0) answer_question(dns);
      for (std::size_t i = 3; i < ready.size(); ++i) {
        if (ready[i].revents != 0) answer_bytes(open_[i - 3]);
      }
      std::erase_if(open_, [](const Fd& fd) { return !fd; });
      if (ready[1].revents != 0) take(web, "");
      if (ready[2].revents != 0) take(shell, "SSH-2.0-test\r\n");
    }
  }
  void take(const Fd& listener, const std::string& banner) {
    Fd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    ++connections_;
    (void)!::send(fd.get(), banner.data(), banner.size(), MSG_NOSIGNAL);
    open_.push_back(std::move(fd));
  }
  static void answer_bytes(Fd& open) {
    char bytes[4096];
    if (::recv(open.get(), bytes, sizeof bytes, 0) <= 0) {
      open.reset();
      return;
    }
    const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    (void)!::send(open.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  }
  void answer_question(const Fd& dns) {
    static const std::map<std::string, std::string> zone{
        {"allowed.example.com", server}, {"ssh.example.com", server}, {"inside.example.com", "10.1.2.3"}};
    std::array<std::byte, 2048> bytes;
    Address from;
    const ssize_t size = ::recvfrom(dns.get(), bytes.data(), bytes.size(), 0, from.get(), &from.size);
    if (size <= 0) return;
    const auto query = parse_dns(std::span(bytes).first(static_cast<std::size_t>(size)));
    if (!query) return;
    ++questions_;
    DnsAnswer answer = answer_to(*query);
    const auto known = zone.find(dns_lower(query->question.name));
    if (known == zone.end()) {
      answer.rcode = DnsRcode::nx_domain;
    } else if (query->question.type == DnsType::a) {
      answer.records.push_back(address_record(query->question.name, *IpAddress::parse(known->second), 60));
    }
    const Bytes wire = write_answer(answer, 512);
    (void)!::sendto(dns.get(), wire.data(), wire.size(), 0, from.get(), from.size);
  }

  std::atomic<pid_t> tid_ = 0;
  std::atomic<bool> linked_ = false, serving_ = false, stop_ = false;
  std::atomic<std::size_t> questions_ = 0, connections_ = 0;
  std::vector<Fd> open_;
  std::thread thread_;
};

// The network namespace of the node is the test's own while it lives.
class OwnNetwork {
 public:
  OwnNetwork() : before_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
    EXPECT_EQ(::unshare(CLONE_NEWNET), 0);
  }
  ~OwnNetwork() { EXPECT_EQ(::setns(before_.get(), CLONE_NEWNET), 0); }

 private:
  Fd before_;
};

Task<void> call_over(std::string path, CallRequest request, Result<CallResponse>* out) {
  auto stream = co_await connect_unix(path, Deadline::after(Millis(patience_ms)));
  if (!stream) {
    *out = std::unexpected(stream.error());
    co_return;
  }
  const auto session = H2Session::client(*std::move(stream));
  const auto run = [](std::shared_ptr<H2Session> driven) -> Task<void> { (void)co_await driven->run(); };
  spawn(co_await boost::asio::this_coro::executor, "session", run(session));
  *out = co_await session->call(std::move(request), Deadline::after(Millis(2 * patience_ms)));
  session->close("done");
}

class NetdSlotTest : public NodedTest {
 protected:
  NetdSlotTest() {
    namespace fs = std::filesystem;
    ::chmod(root_.c_str(), 0755);
    for (const std::string& folder : {state_ + "/netd", run_ + "/netd"}) {
      fs::create_directories(folder);
      EXPECT_EQ(::chown(folder.c_str(), netd_uid, netd_uid), 0);
    }
    start_noded(both_clients);
    EXPECT_TRUE(client().call(Verb::slot_create, id_, "", {0}).done());
    guest_.emplace(run_ + "/noded/netns/" + id_);
    start_netd();
  }
  ~NetdSlotTest() override {
    stop_netd();
    guest_.reset();
  }

  void start_netd() {
    std::vector<std::string> words{
        path_of("space-netd"), "--state", state_,    "--run", run_, "--sandboxd-uid", "0",
        "--resolver",          server,    "--loops", "2"};
    netd_ = ::fork();
    if (netd_ == 0) {
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      if (::setresgid(netd_uid, netd_uid, netd_uid) == 0 && ::setresuid(netd_uid, netd_uid, netd_uid) == 0) {
        ::execv(arguments[0], arguments.data());
      }
      ::_exit(127);
    }
    EXPECT_TRUE(await([this] { return call("list", "{}").status == 200; }));
  }
  void stop_netd() {
    ::kill(netd_, SIGKILL);
    ::waitpid(netd_, nullptr, 0);
  }
  CallResponse call(const std::string& name, std::string body) const {
    boost::asio::io_context loop;
    Result<CallResponse> answer = fail(Code::internal, "no answer");
    spawn(
        loop.get_executor(), "call",
        call_over(run_ + "/netd/netd.sock", {.path = "/gateway/" + name, .body = std::move(body)}, &answer));
    loop.run();
    return answer ? *answer : CallResponse{.status = 0, .body = answer.error().message};
  }
  CallResponse give(const char* how, int generation, const std::string& policy) const {
    return call(how, fmt::format(R"({{"id":"{}","generation":{},"policy":{}}})", id_, generation, policy));
  }

  // What the guest is told: "A.B.C.D", "none", or the code.
  std::string look_up(const std::string& resolver, const std::string& name, int type = SOCK_DGRAM) const {
    const Fd fd = guest_->connect(resolver, 53, type);
    if (!becomes(fd, POLLOUT) || error_of(fd) != 0) return "not connected";
    const Bytes query = write_query(9, {.name = name, .type = DnsType::a}, true);
    std::string bytes(as_text(query));
    if (type == SOCK_STREAM) bytes = std::string{'\0', static_cast<char>(query.size())} + bytes;
    EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    const std::string answer = heard(fd);
    const auto message =
        parse_dns(as_bytes(answer).subspan(type == SOCK_STREAM && answer.size() > 2 ? 2 : 0));
    if (!message) return "nothing";
    if (message->rcode != DnsRcode::no_error) {
      return fmt::format("code {}", static_cast<unsigned>(message->rcode));
    }
    return message->answers.empty() ? "none" : address_in(message->answers[0])->text();
  }
  static std::string heard(const Fd& fd) {
    char bytes[4096];
    if (!becomes(fd, POLLIN)) return "nothing";
    const ssize_t size = ::recv(fd.get(), bytes, sizeof bytes, 0);
    if (size < 0) return std::strerror(errno);
    return {bytes, static_cast<std::size_t>(size)};
  }
  std::string get(const std::string& host) const {
    const Fd fd = guest_->connect(server, 80);
    if (!becomes(fd, POLLOUT) || error_of(fd) != 0) return "not connected";
    const std::string request = "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
    EXPECT_EQ(::send(fd.get(), request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
    return heard(fd).substr(0, 12);
  }

  OwnNetwork network_;
  Internet internet_;
  std::string id_ = new_sandbox_id();
  std::optional<Guest> guest_;
  pid_t netd_ = 0;
};

constexpr char some[] = R"({"mode":"restricted","allow":["allowed.example.com","inside.example.com",
"ssh.example.com:22"]})";

TEST_F(NetdSlotTest, NamesAreAskedOfTheGatewayWhoeverIsAsked) {
  ASSERT_EQ(give("attach", 1, some).status, 200);
  for (const char* resolver : {"10.77.0.1", "8.8.8.8", "2606:4700::1111"}) {
    for (const int type : {SOCK_DGRAM, SOCK_STREAM}) {
      EXPECT_EQ(look_up(resolver, "allowed.example.com", type), server) << resolver;
      EXPECT_EQ(look_up(resolver, "blocked.example.com", type), "code 3") << resolver;
    }
  }
  EXPECT_EQ(internet_.questions(), 1U) << "once, and never for a name that is not allowed";
  EXPECT_EQ(look_up("8.8.8.8", "inside.example.com"), "code 3");
  EXPECT_EQ(internet_.questions(), 2U);
  const std::string log = call("log", fmt::format(R"({{"id":"{}"}})", id_)).body;
  EXPECT_NE(log.find("deny_filtered"), std::string::npos) << log;
  EXPECT_NE(log.find("blocked.example.com"), std::string::npos) << log;
}

TEST_F(NetdSlotTest, WhatIsAllowedGetsThroughAndNothingElse) {
  ASSERT_EQ(give("attach", 1, some).status, 200);
  EXPECT_EQ(look_up("8.8.8.8", "allowed.example.com"), server);
  EXPECT_EQ(get("allowed.example.com"), "HTTP/1.1 200");
  EXPECT_EQ(get("blocked.example.com"), "HTTP/1.1 403");
  const std::size_t before = internet_.connections();
  EXPECT_EQ(heard(guest_->connect(server, 22)), std::strerror(ECONNRESET)) << "never looked up";
  EXPECT_EQ(look_up("8.8.8.8", "ssh.example.com"), server);
  EXPECT_EQ(heard(guest_->connect(other_server, 22)), std::strerror(ECONNRESET));
  EXPECT_EQ(heard(guest_->connect("45.0.0.1", 80)), std::strerror(ECONNRESET)) << "the node itself";
  EXPECT_EQ(internet_.connections(), before);

  const Fd shell = guest_->connect(server, 22);
  EXPECT_EQ(heard(shell), "SSH-2.0-test\r\n");
  const CallResponse changed = give("policy", 2, R"({"mode":"restricted","allow":["allowed.example.com"]})");
  EXPECT_EQ(changed.status, 200);
  EXPECT_NE(changed.body.find("\"cut\":1"), std::string::npos) << changed.body;
  EXPECT_EQ(heard(shell), std::strerror(ECONNRESET));
  EXPECT_EQ(get("allowed.example.com"), "HTTP/1.1 200");
}

TEST_F(NetdSlotTest, AGatewayThatWasKilledEnforcesTheLastGenerationByItself) {
  ASSERT_EQ(give("attach", 7, some).status, 200);
  EXPECT_EQ(look_up("8.8.8.8", "allowed.example.com"), server);
  stop_netd();
  EXPECT_EQ(guest_->outcome(server, 80), ECONNREFUSED)
      << "without it nothing gets out, and it is said at once";
  start_netd();
  EXPECT_TRUE(await([this] { return look_up("8.8.8.8", "allowed.example.com") == server; }));
  EXPECT_EQ(look_up("8.8.8.8", "blocked.example.com"), "code 3");
  EXPECT_EQ(get("allowed.example.com"), "HTTP/1.1 200");
  EXPECT_NE(call("list", "{}").body.find("\"generation\":7"), std::string::npos);
}

}  // namespace
}  // namespace space::noded
