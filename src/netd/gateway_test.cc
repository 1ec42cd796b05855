// The gateway as its calls see it: policies on the disk and in force, slots, restarts.
#include "netd/gateway.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "netd/host_addresses.h"
#include "netd/rpc.h"
#include "netd/test_gate.h"
#include "netd/test_hello.h"

namespace space::netd {
namespace {

using namespace std::chrono_literals;

constexpr const char* first_id = "i0000000000000000001";
constexpr const char* second_id = "i0000000000000000002";

// Slots as a node manager has them: whose sockets are open is known to it.
class FakeSlots final : public SlotSource {
 public:
  Task<Result<std::vector<std::string>>> list(Deadline) override {
    ++lists;
    if (down > 0) {
      --down;
      co_return fail(Code::unavailable, "the node manager is not running");
    }
    co_return ids;
  }
  Task<Result<SlotSockets>> open(std::string id, Deadline) override {
    ++opens;
    if (std::ranges::find(ids, id) == ids.end()) co_return fail(Code::not_found, "no such slot");
    if (std::ranges::find(busy, id) != busy.end()) co_return fail(Code::conflict, "open already");
    busy.push_back(id);
    SlotSockets slot = loopback_slot();
    ports[id] = port_of(slot.tcp4.get());
    co_return slot;
  }

  std::vector<std::string> ids = {first_id, second_id};
  std::vector<std::string> busy;
  std::map<std::string, std::uint16_t> ports;
  unsigned opens = 0;
  unsigned lists = 0;
  unsigned down = 0;
};

class GatewayTest : public LoopTest {
 protected:
  GatewayTest() {
    char name[] = "/tmp/netd-test-XXXXXX";
    folder_ = ::mkdtemp(name);
    files_.emplace(folder_);
    loop_parts_ = parts_for(executor());
    restart();
  }
  ~GatewayTest() override {
    ::chmod(folder_.c_str(), 0700);
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override {
    run([this]() -> Task<void> { co_await stop(); });
  }

  std::unique_ptr<LoopParts> parts_for(const Executor& executor) {
    return std::make_unique<LoopParts>(
        LoopParts{.executor = executor,
                  .resolver = std::make_unique<Resolver>(executor, std::make_unique<FakeUpstream>(zone_)),
                  .descriptors = descriptors_,
                  .platform = std::make_shared<const PlatformDeny>()});
  }
  Task<void> stop() {
    for (const char* id : {first_id, second_id}) (void)co_await gateway_->detach(id);
    co_await settle();
  }
  // As after a crash: nothing but the files is left.
  void restart() {
    slots_.busy.clear();
    gateway_.emplace(Gateway::Parts{.loops = {loop_parts_.get()}, .slots = slots_, .files = *files_});
    rpc_.emplace(*gateway_);
  }

  Task<CallResponse> call(std::string name, std::string body) {
    co_return co_await rpc_->call({.method = "POST", .path = "/gateway/" + name, .body = std::move(body)});
  }
  Task<std::string> answer(std::string name, std::string body) {
    const CallResponse response = co_await call(std::move(name), std::move(body));
    co_return response.status == 200 ? response.body : std::to_string(response.status);
  }
  Task<void> wait_for_news(std::string* out) {
    *out = co_await answer("log", fmt::format(R"({{"id":"{}","after":1,"wait_ms":30000}})", first_id));
  }
  static std::string with_policy(std::string_view id, int generation, std::string_view policy,
                                 std::string_view more = "") {
    return fmt::format(R"({{"id":"{}","generation":{},"policy":{}{}}})", id, generation, policy, more);
  }
  static std::string only(std::string_view id) { return fmt::format(R"({{"id":"{}"}})", id); }
  std::string file_of(std::string_view id) {
    std::ifstream file(fmt::format("{}/{}.json", folder_, id));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static constexpr std::string_view web = R"({"mode":"restricted","allow":["web.example.com"]})";
  static constexpr std::string_view none = R"({"mode":"deny_all"})";

  std::string folder_;
  std::shared_ptr<FakeZone> zone_ = std::make_shared<FakeZone>();
  FdBudget descriptors_{10'000};
  std::optional<PolicyFiles> files_;
  FakeSlots slots_;
  std::unique_ptr<LoopParts> loop_parts_;
  std::optional<Gateway> gateway_;
  std::optional<GatewayRpc> rpc_;
};

TEST_F(GatewayTest, attach_is_idempotent_and_follows_the_slot) {
  run([&]() -> Task<void> {
    EXPECT_EQ(co_await answer("attach", with_policy(first_id, 3, web)), R"({"generation":3})");
    EXPECT_EQ(co_await answer("attach", with_policy(first_id, 3, web)), R"({"generation":3})");
    EXPECT_TRUE(file_of(first_id).contains("web.example.com"));
    EXPECT_EQ(
        co_await answer("list", ""),
        fmt::format(R"({{"sandboxes":[{{"id":"{}","generation":3,"attached":true,"flows":0}}]}})", first_id));
    slots_.busy.clear();  // the slot was made anew under the same id
    const std::uint16_t before = slots_.ports[first_id];
    EXPECT_EQ(co_await answer("attach", with_policy(first_id, 3, web)), R"({"generation":3})");
    EXPECT_NE(slots_.ports[first_id], before);
    EXPECT_TRUE(co_await connect_tcp("127.0.0.1", slots_.ports[first_id], soon()));
    EXPECT_FALSE(co_await connect_tcp("127.0.0.1", before, soon()));
    slots_.ids = {second_id};
    EXPECT_EQ((co_await call("attach", with_policy("i0000000000000000003", 1, web))).status, 404);
  });
}

TEST_F(GatewayTest, what_sandboxd_attaches_with_counts) {
  run([&]() -> Task<void> {
    co_await answer("attach", with_policy(first_id, 7, web));
    EXPECT_EQ(co_await answer("attach", with_policy(first_id, 2, none)), R"({"generation":2})");
    EXPECT_TRUE(file_of(first_id).contains("deny_all"));
  });
}

TEST_F(GatewayTest, a_policy_is_on_the_disk_before_it_is_answered) {
  run([&]() -> Task<void> {
    EXPECT_EQ((co_await call("policy", with_policy(first_id, 1, web))).status, 404);
    co_await answer("attach", with_policy(first_id, 1, web));
    EXPECT_EQ(co_await answer("policy", with_policy(first_id, 2, none)), R"({"generation":2,"cut":0})");
    EXPECT_TRUE(file_of(first_id).contains("deny_all"));
    EXPECT_EQ((co_await call("policy", with_policy(first_id, 1, web))).status, 409);
    EXPECT_EQ((co_await call("policy", with_policy(first_id, 3, R"({"mode":"whatever"})"))).status, 400);
    EXPECT_EQ((co_await call("policy", with_policy("no-id", 3, web))).status, 400);
    EXPECT_TRUE((co_await answer("list", "")).contains(R"("generation":2)"));
  });
}

// A full disk is a folder in which no file can be made.
TEST_F(GatewayTest, a_change_that_cannot_be_kept_changes_nothing) {
  run([&]() -> Task<void> {
    co_await answer("attach", with_policy(first_id, 1, web));
    const std::string before = file_of(first_id);
    const auto test = fmt::format(R"({{"id":"{}","url":"https://web.example.com/"}})", first_id);
    zone_->address("web.example.com", "45.0.2.10");
    files_.emplace(folder_ + "/gone");
    EXPECT_NE((co_await call("policy", with_policy(first_id, 2, none))).status, 200);
    EXPECT_EQ(file_of(first_id), before);
    EXPECT_TRUE((co_await answer("test", test)).starts_with(R"({"allowed":true)"));
    EXPECT_TRUE((co_await answer("list", "")).contains(R"("generation":1)"));
    files_.emplace(folder_);
    EXPECT_EQ(co_await answer("policy", with_policy(first_id, 2, none)), R"({"generation":2,"cut":0})");
    EXPECT_TRUE((co_await answer("test", test)).starts_with(R"({"allowed":false,"reason":"deny_mode")"));
  });
}

TEST_F(GatewayTest, a_restart_enforces_what_was_last_said) {
  run([&]() -> Task<void> {
    co_await answer("attach", with_policy(first_id, 4, web));
    co_await answer("attach", with_policy(second_id, 1, none));
    co_await answer("detach", only(second_id));
    co_await stop();
    restart();
    std::ofstream(folder_ + "/i0000000000000000009.json") << "{broken";
    std::ofstream(folder_ + "/i0000000000000000008.json.tmp") << "{}";
    slots_.ids = {first_id,
                  "i0000000000000000007"};  // the second has a policy and no slot, another no policy
    slots_.down = 2;
    co_await gateway_->recover();
    EXPECT_EQ(slots_.lists, 3U);
    EXPECT_EQ(co_await answer("list", ""),
              fmt::format(R"({{"sandboxes":[{{"id":"{}","generation":4,"attached":true,"flows":0}},)"
                          R"({{"id":"{}","generation":1,"attached":false,"flows":0}}]}})",
                          first_id, second_id));
    EXPECT_EQ(slots_.busy, std::vector<std::string>{first_id});
  });
}

TEST_F(GatewayTest, what_is_forgotten_is_gone) {
  run([&]() -> Task<void> {
    co_await answer("attach", with_policy(first_id, 1, web));
    EXPECT_EQ(co_await answer("detach", only(first_id)), "{}");
    EXPECT_FALSE(co_await connect_tcp("127.0.0.1", slots_.ports[first_id], soon()));
    EXPECT_FALSE(file_of(first_id).empty());
    EXPECT_EQ(co_await answer("forget", only(first_id)), "{}");
    EXPECT_EQ(co_await answer("forget", only(first_id)), "{}");
    EXPECT_TRUE(file_of(first_id).empty());
    EXPECT_EQ(co_await answer("list", ""), R"({"sandboxes":[]})");
    EXPECT_EQ((co_await call("stats", only(first_id))).status, 404);
    EXPECT_EQ((co_await call("nonsense", only(first_id))).status, 404);
  });
}

TEST_F(GatewayTest, test_says_what_would_happen) {
  run([&]() -> Task<void> {
    zone_->address("web.example.com", "45.0.2.10");
    zone_->address("web.example.com", "10.0.0.1");
    zone_->address("in.example.com", "10.0.0.1");
    co_await answer("attach", with_policy(first_id, 5, R"({"mode":"restricted","allow":["*.example.com"]})"));
    const auto test = [&](std::string_view what) -> Task<std::string> {
      co_return co_await answer("test", fmt::format(R"({{"id":"{}",{}}})", first_id, what));
    };
    const std::string yes = co_await test(R"("url":"https://WEB.example.com/x")");
    EXPECT_TRUE(yes.starts_with(
        R"({"allowed":true,"reason":"allow_rule","rule":"allow *.example.com","explanation":")"))
        << yes;
    EXPECT_TRUE(
        yes.ends_with(R"("host":"web.example.com","port":443,"addresses":["45.0.2.10"],"generation":5})"))
        << yes;
    EXPECT_TRUE((co_await test(R"("url":"http://evil.net/")"))
                    .starts_with(R"({"allowed":false,"reason":"deny_mode")"));
    EXPECT_TRUE((co_await test(R"("url":"https://in.example.com/")"))
                    .starts_with(R"({"allowed":false,"reason":"deny_filtered")"));
    EXPECT_TRUE((co_await test(R"("url":"https://none.example.com/")"))
                    .starts_with(R"({"allowed":false,"reason":"unresolved")"));
    EXPECT_TRUE((co_await test(R"("host":"web.example.com","port":22)"))
                    .starts_with(R"({"allowed":false,"reason":"deny_port")"));
    for (const char* bad : {R"("url":"ftp://a.b/")", R"("url":"https:///")", R"("url":"https://a b/")",
                            R"("host":"a.b")", R"("host":"127.1","port":80)", R"("url":"https://u@a.b/")"})
      EXPECT_EQ(co_await test(bad), "400") << bad;
  });
}

TEST_F(GatewayTest, a_fork_knows_the_names_of_its_origin) {
  run([&]() -> Task<void> {
    zone_->address("web.example.com", "45.0.2.10");
    std::pair<IpAddress, std::uint16_t> meant{address("8.8.8.8"), std::uint16_t{53}};
    loop_parts_->meant = [&](std::uint16_t) { return meant; };
    loop_parts_->route = [](const IpAddress&, std::uint16_t) {
      return to_sockaddr(address("127.0.0.1"), port_of(loopback_socket(AF_INET, SOCK_STREAM).get()));
    };
    co_await answer("attach", with_policy(first_id, 1, web));
    auto guest = co_await connect_tcp("127.0.0.1", slots_.ports[first_id], soon());
    co_await (*guest)->write(
        as_bytes(dns_question_over_tcp("\x03web\x07"
                                       "example\x03"
                                       "com")));
    std::array<std::byte, 512> some;
    EXPECT_TRUE(co_await (*guest)->read(some));

    meant = {address("45.0.2.10"), std::uint16_t{443}};
    // Why a connection of the second to what the first was told gets nowhere.
    const auto reason = [&](std::string_view more) -> Task<std::string> {
      (void)co_await answer("forget", only(second_id));
      slots_.busy.clear();
      (void)co_await answer("attach", with_policy(second_id, 1, web, more));
      guest = co_await connect_tcp("127.0.0.1", slots_.ports[second_id], soon());
      co_await (*guest)->write(as_bytes(client_hello({"web.example.com"})));
      (void)co_await read_text(**guest);
      co_return co_await answer("log", fmt::format(R"({{"id":"{}","after":1}})", second_id));
    };
    EXPECT_TRUE((co_await reason("")).contains(R"("reason":"deny_)"));
    EXPECT_TRUE(
        (co_await reason(fmt::format(R"(,"pins_of":"{}")", first_id))).contains(R"("reason":"unreachable")"));
    EXPECT_TRUE((co_await reason(R"(,"pins_of":"i0000000000000000005")")).contains(R"("reason":"deny_)"));
    EXPECT_EQ(co_await answer("attach", with_policy(second_id, 1, web, R"(,"pins_of":"?")")), "400");
  });
}

TEST_F(GatewayTest, a_reader_of_the_log_waits_for_news) {
  run([&]() -> Task<void> {
    co_await answer("attach", with_policy(first_id, 1, web));
    const std::string page = co_await answer("log", only(first_id));
    EXPECT_TRUE(page.contains(R"("kind":"policy")"));
    EXPECT_TRUE(page.ends_with(R"("next":1,"gap":false})")) << page;
    std::string news;
    spawn(executor(), "wait", wait_for_news(&news));
    co_await settle();
    EXPECT_TRUE(news.empty());
    co_await answer("policy", with_policy(first_id, 2, none));
    for (int i = 0; i < 1000 && news.empty(); ++i) co_await sleep_for(1ms);
    EXPECT_TRUE(news.contains(R"("generation":2)")) << news;
    EXPECT_TRUE((co_await answer("log", fmt::format(R"({{"id":"{}","after":2,"wait_ms":1}})", first_id)))
                    .starts_with(R"({"entries":[])"));
  });
}

// Only who may calls: everybody else is closed unread.
TEST_F(GatewayTest, the_door_lets_in_whom_it_knows) {
  run([&]() -> Task<void> {
    const std::string path = folder_ + "/netd.sock";
    auto door = GatewayDoor::open(path, ::getuid());
    EXPECT_TRUE(door);
    boost::asio::cancellation_signal stop;
    boost::asio::co_spawn(executor(), door->serve(*rpc_),
                          boost::asio::bind_cancellation_slot(stop.slot(), [](const std::exception_ptr&) {}));
    auto stream = co_await connect_unix(path, soon());
    EXPECT_TRUE(stream);
    const auto session = H2Session::client(*std::move(stream));
    const auto drive = [](std::shared_ptr<H2Session> one) -> Task<void> { (void)co_await one->run(); };
    spawn(executor(), "session", drive(session));
    const auto listed = co_await session->call({.path = "/gateway/list", .body = "{}"}, soon());
    EXPECT_TRUE(listed);
    EXPECT_EQ(listed->body, R"({"sandboxes":[]})");
    session->close("done");
    stop.emit(boost::asio::cancellation_type::terminal);
    co_await settle();
  });
}

TEST(HostAddresses, are_those_of_the_machine) {
  auto host = HostAddresses::open();
  ASSERT_TRUE(host) << host.error().message;
  for (int i = 0; i < 2; ++i) {
    const auto own = host->read();
    ASSERT_TRUE(own) << own.error().message;
    EXPECT_TRUE(std::ranges::find(*own, Cidr::only(address("127.0.0.1"))) != own->end());
    EXPECT_TRUE(std::ranges::find(*own, Cidr::only(address("127.0.0.2"))) == own->end());
  }
}

// Gates of another loop run on another thread.
TEST_F(GatewayTest, gates_are_spread_over_loops) {
  boost::asio::io_context other(1);
  auto guard = boost::asio::make_work_guard(other);
  const auto parts = parts_for(other.get_executor());
  std::thread thread([&] { other.run(); });
  gateway_.emplace(
      Gateway::Parts{.loops = {loop_parts_.get(), parts.get()}, .slots = slots_, .files = *files_});
  rpc_.emplace(*gateway_);
  run([&]() -> Task<void> {
    zone_->address("web.example.com", "45.0.2.10");
    for (const char* id : {first_id, second_id}) {
      EXPECT_EQ(co_await answer("attach", with_policy(id, 1, web)), R"({"generation":1})");
      EXPECT_TRUE(
          (co_await answer("test", fmt::format(R"({{"id":"{}","url":"https://web.example.com/"}})", id)))
              .contains("45.0.2.10"));
      const auto guest = co_await connect_tcp("127.0.0.1", slots_.ports[id], soon());
      EXPECT_TRUE(!guest || (co_await read_text(**guest)).starts_with("error: "));
      EXPECT_TRUE((co_await answer("stats", only(id))).contains(R"("denied_total":1)"));
    }
    co_await gateway_->set_platform(
        std::make_shared<const PlatformDeny>(std::vector<Cidr>{Cidr::only(address("45.0.2.10"))}));
    for (const char* id : {first_id, second_id}) {
      EXPECT_FALSE(
          (co_await answer("test", fmt::format(R"({{"id":"{}","url":"https://web.example.com/"}})", id)))
              .contains("45.0.2.10"));
      EXPECT_EQ(co_await answer("forget", only(id)), "{}");
    }
  });
  guard.reset();
  other.stop();
  thread.join();
  gateway_.reset();
  gateway_.emplace(Gateway::Parts{.loops = {loop_parts_.get()}, .slots = slots_, .files = *files_});
}

}  // namespace
}  // namespace space::netd
