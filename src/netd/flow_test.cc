// Flows through a gate: what is let out, where to, and what a refused guest sees.
#include "netd/test_gate.h"
#include "netd/test_hello.h"

namespace space::netd {
namespace {

using namespace std::chrono_literals;
using Kind = TestServer::Kind;

constexpr std::string_view alert_access_denied("\x15\x03\x03\x00\x02\x02\x31", 7);
constexpr std::string_view alert_internal_error("\x15\x03\x03\x00\x02\x02\x50", 7);

class FlowTest : public GateTest {
 protected:
  // What comes back for `text`; the guest then ends.
  Task<std::string> ask(std::string to, std::uint16_t port, std::string text) {
    const StreamPtr guest = co_await connect(to, port);
    if (!guest) co_return "error: reset";
    if (!text.empty()) co_await guest->write(as_bytes(text));
    co_await guest->finish();
    co_return co_await read_text(*guest);
  }
  static bool reset(const std::string& answer) { return answer.starts_with("error: "); }
};

TEST_F(FlowTest, an_allowed_address_is_reached_and_both_ends_are_passed_on) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::echo, "banner ");
    route("45.0.2.10", 22, server);
    co_await open(R"({"mode":"restricted","allow":["45.0.2.0/24:22"]})");
    EXPECT_EQ(co_await ask("45.0.2.10", 22, "hello"), "banner hello");
    EXPECT_TRUE(co_await eventually([&] { return gate_->flows() == 0; }));
    EXPECT_EQ(server.ended(), 1U);
    const auto entries = log();
    EXPECT_EQ(entries.size(), 3U);  // the policy, connected, ended
    EXPECT_EQ(entries[1].address, "45.0.2.10");
    EXPECT_FALSE(entries[1].bytes_in);
    EXPECT_EQ(entries[2].bytes_in, 12U);
    EXPECT_EQ(entries[2].bytes_out, 5U);
    EXPECT_EQ(to_string(entries[2].reason), "allow_rule");
  });
}

TEST_F(FlowTest, what_is_not_allowed_is_reset_and_never_dialled) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::echo);
    for (const char* where : {"45.0.2.10", "45.0.9.9", "169.254.169.254"}) route(where, 22, server);
    co_await open(R"({"mode":"restricted","allow":["45.0.2.0/24:22"]})");
    EXPECT_TRUE(reset(co_await ask("45.0.9.9", 22, "")));
    EXPECT_EQ(last_reason(), "deny_mode");
    EXPECT_TRUE(reset(co_await ask("45.0.2.10", 23, "")));
    EXPECT_EQ(last_reason(), "deny_port");
    EXPECT_TRUE(reset(co_await ask("169.254.169.254", 22, "")));
    EXPECT_EQ(last_reason(), "deny_platform");
    EXPECT_EQ(server.connections(), 0U);
    EXPECT_EQ(co_await ask("45.0.2.10", 22, "x"), "x");  // the same server is reached when it may be
    EXPECT_EQ(gate_->counters().denied_total, 3U);
  });
}

TEST_F(FlowTest, a_name_opens_its_port_at_the_addresses_the_guest_was_told) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::silent, "SSH-2.0 ");
    route("45.0.2.10", 22, server);
    route("45.0.9.9", 22, server);
    co_await open(R"({"mode":"restricted","allow":["git.example.com:22"]})");
    EXPECT_TRUE(reset(co_await ask("45.0.2.10", 22, "")));
    told("git.example.com", "45.0.2.10");
    const StreamPtr guest = co_await connect("45.0.2.10", 22);
    EXPECT_EQ(co_await read_until(*guest, " "),
              "SSH-2.0 ");  // the server speaks first: nothing is waited for
    EXPECT_TRUE(reset(co_await ask("45.0.9.9", 22, "")));
    EXPECT_EQ(log()[2].host, "git.example.com");
  });
}

TEST_F(FlowTest, tls_goes_where_the_gateway_finds_the_name) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::echo);
    TestServer& attacker = serve(Kind::echo);
    route("45.0.2.10", 443, server);
    route("45.0.9.9", 443, attacker);
    zone_->address("web.example.com", "10.0.0.7");  // filtered
    zone_->address("web.example.com", "45.0.2.10");
    co_await open(R"({"mode":"restricted","allow":["web.example.com"]})");
    const std::string hello = client_hello({"WEB.example.com."});
    // In the hard-coded address' place: never told for the name.
    EXPECT_TRUE(reset(co_await ask("45.0.9.9", 443, hello)) || last_reason() == "deny_pin");
    told("web.example.com", "45.0.9.8");
    EXPECT_EQ(co_await ask("45.0.9.8", 443, hello), hello);  // echoed by the name's own server
    EXPECT_EQ(server.received(), hello);
    EXPECT_EQ(attacker.connections(), 0U);
    EXPECT_EQ(dialled_, std::vector<std::string>{"45.0.2.10:443"});
  });
}

TEST_F(FlowTest, without_pins_a_name_rule_takes_any_address_to_the_name) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::echo);
    route("45.0.2.10", 443, server);
    zone_->address("web.example.com", "45.0.2.10");
    co_await open(R"({"mode":"restricted","pinned":false,"allow":["web.example.com"]})");
    const std::string hello = client_hello({"web.example.com"});
    EXPECT_EQ(co_await ask("45.0.9.9", 443, hello), hello);
    EXPECT_EQ(dialled_, std::vector<std::string>{"45.0.2.10:443"});
  });
}

TEST_F(FlowTest, tls_names_that_are_refused_get_an_alert) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::echo);
    route("45.0.2.10", 443, server);
    zone_->address("web.example.com", "45.0.2.10");
    co_await open(R"({"mode":"restricted","allow":["web.example.com"]})");
    told("web.example.com", "45.0.2.10");
    struct Case {
      std::string bytes;
      std::string reason;
    };
    const std::vector<Case> cases = {
        {client_hello({"other.example.com"}), "deny_mode"},
        {client_hello({"xweb.example.com"}), "deny_mode"},
        {client_hello({}), "deny_no_name"},
        {client_hello({"45.0.2.10"}), "deny_bad_name"},
        {client_hello({std::string_view("web.example.com\0.evil", 21)}), "deny_bad_name"},
        {client_hello({"*.example.com"}), "deny_bad_name"},
        {client_hello({"web.example.com", "evil.example"}), "deny_bad_name"},
        {client_hello({"web.example.com"}, 20'000), "deny_bad_name"},
    };
    for (const Case& refused : cases) {
      EXPECT_EQ(co_await ask("45.0.2.10", 443, refused.bytes), alert_access_denied) << refused.reason;
      EXPECT_EQ(last_reason(), refused.reason);
    }
    EXPECT_TRUE(reset(co_await ask("45.0.2.10", 443, "GET / HTTP/1.1\r\n\r\n")));
    EXPECT_EQ(last_reason(), "deny_protocol");
    EXPECT_EQ(server.connections(), 0U);
    const std::string hello = client_hello({"web.example.com"});
    EXPECT_EQ(co_await ask("45.0.2.10", 443, hello), hello);
  });
}

TEST_F(FlowTest, a_hello_may_come_byte_by_byte) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::echo);
    route("45.0.2.10", 443, server);
    zone_->address("web.example.com", "45.0.2.10");
    co_await open(R"({"mode":"restricted","allow":["web.example.com"]})");
    told("web.example.com", "45.0.2.10");
    const std::string hello = client_hello({"web.example.com"});
    const StreamPtr guest = co_await connect("45.0.2.10", 443);
    for (const char byte : hello) {
      co_await guest->write(as_bytes(std::string_view(&byte, 1)));
      co_await settle();
    }
    co_await guest->finish();
    EXPECT_EQ(co_await read_text(*guest), hello);
  });
}

// Attack cases 18 and 32: whoever begins and does not go on is closed, one who says nothing too.
TEST_F(FlowTest, heads_that_never_end_are_closed) {
  run([&]() -> Task<void> {
    co_await open(R"({"mode":"restricted","allow":["web.example.com"]})");
    told("web.example.com", "45.0.2.10");
    const StreamPtr half = co_await connect("45.0.2.10", 443);
    co_await half->write(as_bytes(client_hello({"web.example.com"}).substr(0, 60)));
    const StreamPtr silent = co_await connect("45.0.2.10", 443);
    const StreamPtr request = co_await connect("45.0.2.10", 80);
    co_await request->write(as_bytes("GET / HTTP/1.1\r\nHo"));
    co_await settle();
    EXPECT_EQ(gate_->flows(), 3U);
    EXPECT_EQ(co_await read_text(*half), alert_internal_error);
    EXPECT_TRUE(reset(co_await read_text(*silent)));
    EXPECT_TRUE((co_await read_text(*request)).starts_with("HTTP/1.1 504 "));
    EXPECT_EQ(times(EgressReason::timeout), 2U);
    EXPECT_EQ(times(EgressReason::deny_no_name), 1U);
  });
}

TEST_F(FlowTest, an_address_rule_needs_no_name) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::echo);
    route("45.0.2.10", 443, server);
    co_await open(R"({"mode":"restricted","allow":["web.example.com","45.0.2.10"]})");
    for (const std::string& hello :
         {client_hello({}), client_hello({"anything.example"}), std::string("no TLS")})
      EXPECT_EQ(co_await ask("45.0.2.10", 443, hello), hello);
  });
}

TEST_F(FlowTest, an_address_rule_for_tls_is_for_tls_alone) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::echo);
    route("45.0.2.10", 443, server);
    co_await open(R"({"mode":"restricted","allow":["45.0.2.10 tls"]})");
    const std::string nameless = client_hello({});
    EXPECT_EQ(co_await ask("45.0.2.10", 443, nameless), nameless);
    EXPECT_TRUE(reset(co_await ask("45.0.2.10", 443, "no TLS")));
    EXPECT_EQ(last_reason(), "deny_protocol");
    EXPECT_EQ(server.connections(), 1U);
  });
}

TEST_F(FlowTest, destinations_that_fail_say_so) {
  run([&]() -> Task<void> {
    zone_->address("down.example.com", "45.0.2.11");
    zone_->address("inside.example.com", "10.0.0.7");
    co_await open(R"({"mode":"restricted","allow":["*.example.com","45.0.2.11:22"]})");
    for (const char* name : {"down.example.com", "inside.example.com", "none.example.com"})
      told(name, "45.0.2.11");
    EXPECT_TRUE(reset(co_await ask("45.0.2.11", 443, client_hello({"down.example.com"}))));
    EXPECT_EQ(last_reason(), "unreachable");  // its RST is passed on
    EXPECT_EQ(co_await ask("45.0.2.11", 443, client_hello({"none.example.com"})), alert_internal_error);
    EXPECT_EQ(last_reason(), "unresolved");
    EXPECT_EQ(co_await ask("45.0.2.11", 443, client_hello({"inside.example.com"})), alert_access_denied);
    EXPECT_EQ(last_reason(), "deny_filtered");
    EXPECT_TRUE(reset(co_await ask("45.0.2.11", 22, "")));
  });
}

TEST_F(FlowTest, resets_are_passed_on_both_ways) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::resets);
    TestServer& patient = serve(Kind::silent);
    route("45.0.2.10", 22, server);
    route("45.0.2.11", 22, patient);
    co_await open(R"({"mode":"allow_all"})");
    const StreamPtr guest = co_await connect("45.0.2.10", 22);
    EXPECT_TRUE(reset(co_await read_text(*guest)));
    StreamPtr other = co_await connect("45.0.2.11", 22);
    EXPECT_TRUE(co_await eventually([&] { return patient.connections() == 1; }));
    other->reset();
    EXPECT_TRUE(co_await eventually([&] { return patient.ended() == 1 && gate_->flows() == 0; }));
  });
}

TEST_F(FlowTest, a_reset_after_a_half_close_is_noticed) {
  run([&]() -> Task<void> {
    TestServer& patient = serve(Kind::silent);
    route("45.0.2.11", 22, patient);
    co_await open(R"({"mode":"allow_all"})");
    // The guest has ended and the server, which says nothing, has not: only the reset can end the flow.
    StreamPtr guest = co_await connect("45.0.2.11", 22);
    co_await guest->write(as_bytes("x"));
    co_await guest->finish();
    EXPECT_TRUE(co_await eventually([&] { return patient.received() == "x"; }));
    EXPECT_EQ(gate_->flows(), 1U);
    guest->reset();
    EXPECT_TRUE(co_await eventually([&] { return gate_->flows() == 0; }));
  });
}

TEST_F(FlowTest, a_tighter_policy_closes_what_it_forbids_before_it_answers) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::echo);
    for (const char* where : {"45.0.2.10", "45.0.2.11"}) route(where, 443, server);
    route("45.0.2.12", 80, server);
    zone_->address("web.example.com", "45.0.2.10");
    zone_->address("other.example.com", "45.0.2.11");
    co_await open(R"({"mode":"restricted","allow":["web.example.com","other.example.com","45.0.2.12"]})");
    told("web.example.com", "45.0.2.10");
    told("other.example.com", "45.0.2.11");
    const StreamPtr kept = co_await connect("45.0.2.10", 443);
    const StreamPtr cut = co_await connect("45.0.2.11", 443);
    const StreamPtr half = co_await connect("45.0.2.11", 443);  // has said nothing yet
    const std::string hello = client_hello({"web.example.com"});
    const std::string other = client_hello({"other.example.com"});
    co_await kept->write(as_bytes(hello));
    co_await cut->write(as_bytes(other));
    EXPECT_EQ(co_await read_until(*kept, hello), hello);
    EXPECT_EQ(co_await read_until(*cut, other), other);
    EXPECT_EQ(gate_->flows(), 3U);
    EXPECT_EQ(
        co_await gate_->set_policy(matcher_of(R"({"mode":"restricted","allow":["web.example.com"]})"), 2),
        1U);
    EXPECT_EQ(gate_->flows(), 2U);
    EXPECT_TRUE(reset(co_await read_text(*cut)));
    co_await kept->write(as_bytes("more"));
    EXPECT_EQ(co_await read_until(*kept, "more"), "more");
    co_await half->write(as_bytes(other));
    co_await half->finish();
    EXPECT_EQ(co_await read_text(*half), alert_access_denied);  // by the policy of now
    EXPECT_EQ(co_await gate_->set_policy(matcher_of(R"({"mode":"deny_all"})"), 3), 1U);
    EXPECT_TRUE(reset(co_await read_text(*kept)));
  });
}

TEST_F(FlowTest, a_flow_that_is_being_dialled_is_cut_too) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::echo);
    route("45.0.2.10", 443, server);
    zone_->address("web.example.com", "45.0.2.10");
    zone_->released = std::make_unique<Event>(executor());
    zone_->hold = true;
    co_await open(R"({"mode":"restricted","allow":["web.example.com"]})");
    told("web.example.com", "45.0.2.10");
    const StreamPtr guest = co_await connect("45.0.2.10", 443);
    co_await guest->write(as_bytes(client_hello({"web.example.com"})));
    EXPECT_TRUE(co_await eventually([&] { return !zone_->asked.empty(); }));
    EXPECT_EQ(co_await gate_->set_policy(matcher_of(R"({"mode":"deny_all"})"), 2), 1U);
    EXPECT_EQ(gate_->flows(), 0U);
    zone_->hold = false;
    zone_->released->notify_all();
    co_await settle();
    EXPECT_TRUE(reset(co_await read_text(*guest)));
    EXPECT_EQ(server.connections(), 0U);
  });
}

TEST_F(FlowTest, the_nodes_new_address_closes_flows_to_it) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::silent);
    route("45.0.2.10", 22, server);
    route("45.0.2.11", 22, server);
    co_await open(R"({"mode":"allow_all"})");
    const StreamPtr guest = co_await connect("45.0.2.10", 22);
    const StreamPtr other = co_await connect("45.0.2.11", 22);
    EXPECT_TRUE(co_await eventually([&] { return server.connections() == 2; }));
    co_await settle();
    loop_parts_->platform =
        std::make_shared<const PlatformDeny>(std::vector<Cidr>{Cidr::only(address("45.0.2.10"))});
    EXPECT_EQ(co_await gate_->set_platform(), 1U);
    EXPECT_TRUE(reset(co_await read_text(*guest)));
    EXPECT_TRUE(reset(co_await ask("45.0.2.10", 22, "")));
    EXPECT_EQ(last_reason(), "deny_platform");
    EXPECT_EQ(gate_->flows(), 1U);
  });
}

TEST_F(FlowTest, limits_refuse_before_descriptors_run_out) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::silent);
    route("45.0.2.10", 22, server);
    co_await open(R"({"mode":"allow_all","limits":{"conns":3}})");
    std::vector<StreamPtr> guests;
    for (int i = 0; i < 3; ++i) guests.push_back(co_await connect("45.0.2.10", 22));
    EXPECT_EQ(times(EgressReason::deny_limit), 0U);
    EXPECT_TRUE(reset(co_await ask("45.0.2.10", 22, "")));
    EXPECT_EQ(times(EgressReason::deny_limit), 1U);
    guests.pop_back();
    EXPECT_TRUE(co_await eventually([&] { return gate_->flows() == 2; }));
    co_await gate_->set_policy(matcher_of(R"({"mode":"allow_all"})"), 2);
    const FdBudget::Share all = descriptors_.take(descriptors_.left() - Flow::descriptors);
    EXPECT_TRUE(all);
    guests.push_back(co_await connect("45.0.2.10", 22));
    EXPECT_TRUE(reset(co_await ask("45.0.2.10", 22, "")));
    EXPECT_EQ(times(EgressReason::deny_limit), 2U);
    guests.clear();
    EXPECT_TRUE(co_await eventually([&] { return gate_->flows() == 0; }));
    EXPECT_EQ(descriptors_.left(), 3 * Flow::descriptors);
  });
}

TEST_F(FlowTest, a_flood_is_refused_and_leaves_nothing) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::silent);
    route("45.0.2.10", 22, server);
    co_await open(R"({"mode":"allow_all","limits":{"new_conns_per_s":10}})");
    const int before = descriptors_.left();
    for (int i = 0; i < 100; ++i) (void)co_await connect("45.0.2.10", 22);
    EXPECT_GE(times(EgressReason::deny_limit), 50U);
    EXPECT_GE(gate_->counters().flows_total, 10U);
    EXPECT_TRUE(co_await eventually([&] { return gate_->flows() == 0; }));
    EXPECT_EQ(descriptors_.left(), before);
    EXPECT_LT(log().size(), gate_->counters().flows_total * 2 + 10)
        << "refusals alike are counted, not written down one by one";
  });
}

TEST_F(FlowTest, used_up_traffic_ends_flows) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::echo);
    route("45.0.2.10", 22, server);
    co_await open(R"({"mode":"allow_all","limits":{"bytes_total":100000}})");
    const StreamPtr guest = co_await connect("45.0.2.10", 22);
    co_await guest->write(as_bytes("small"));
    EXPECT_EQ(co_await read_until(*guest, "small"), "small");
    (void)co_await guest->write(as_bytes(std::string(200'000, 'x')));
    EXPECT_TRUE(reset(co_await read_text(*guest)));
    EXPECT_TRUE(co_await eventually([&] { return gate_->flows() == 0; }));
    EXPECT_EQ(last_reason(), "deny_quota");
    EXPECT_TRUE(reset(co_await ask("45.0.2.10", 22, "")));
    EXPECT_EQ(last_reason(), "deny_quota");
  });
}

TEST_F(FlowTest, detached_nothing_answers_and_nothing_is_left) {
  run([&]() -> Task<void> {
    TestServer& server = serve(Kind::silent);
    route("45.0.2.10", 22, server);
    const int before = descriptors_.left();
    co_await open(R"({"mode":"allow_all"})");
    const StreamPtr guest = co_await connect("45.0.2.10", 22);
    EXPECT_LT(descriptors_.left(), before);
    co_await gate_->detach();
    EXPECT_TRUE(reset(co_await read_text(*guest)));
    EXPECT_FALSE(co_await connect_tcp("127.0.0.1", guest_port_, soon()));
    EXPECT_EQ(gate_->flows(), 0U);
    EXPECT_TRUE(co_await eventually([&] { return descriptors_.left() == before; }));
  });
}

TEST_F(FlowTest, dns_over_tcp_is_answered_whatever_the_address) {
  run([&]() -> Task<void> {
    zone_->address("web.example.com", "45.0.2.10");
    co_await open(R"({"mode":"restricted","allow":["web.example.com"]})");
    const StreamPtr guest = co_await connect("8.8.8.8", 53);
    co_await guest->write(
        as_bytes(dns_question_over_tcp("\x03web\x07"
                                       "example\x03"
                                       "com")));
    std::array<std::byte, 2048> answer;
    const auto n = co_await guest->read(answer);
    EXPECT_TRUE(n);
    EXPECT_TRUE(as_text(std::span(answer).first(n.value_or(0))).contains(std::string("\x2d\x00\x02\x0a", 4)));
    EXPECT_EQ(gate_->pins()->names(address("45.0.2.10")), std::vector<std::string>{"web.example.com"});
    EXPECT_EQ(gate_->counters().dns_queries, 1U);
  });
}

}  // namespace
}  // namespace space::netd
