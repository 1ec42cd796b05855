// The pure pieces that are too small for a file of their own.
#include <gtest/gtest.h>

#include "guest/cgroup.h"
#include "guest/channel_service.h"
#include "guest/exchange.h"
#include "guest/guest_stats.h"
#include "guest/identity.h"

namespace space::guest {
namespace {

TEST(KeyedNumber, FindsWholeKeysOnly) {
  EXPECT_EQ(keyed_number("populated 1\nfrozen 0\n", "frozen"), 0U);
  EXPECT_EQ(keyed_number("MemTotal:  2048 kB\n", "MemTotal"), 2048U);
  EXPECT_EQ(keyed_number("SwapCached: 7 kB\nCached: 9 kB", "Cached"), 9U);
  EXPECT_EQ(keyed_number("frozenly 1\nfrozen\n", "frozen"), std::nullopt);
}

TEST(BusyTime, LeavesIdleOut) {
  EXPECT_EQ(busy_time_us("cpu  1 2 3 1000 1000 4 5 1000 7 7\ncpu0 …", 100), 150'000U);
  EXPECT_EQ(busy_time_us("intr 5", 100), 0U);
  EXPECT_EQ(busy_time_us("cpu  1 2", 100), 30'000U);
}

TEST(TunnelPort, IsOfLocalhostOnly) {
  EXPECT_EQ(tunnel_port("localhost:49983"), 49983);
  for (const char* wrong : {"", "localhost", "localhost:", "localhost:0", "localhost:65536", "localhost:80x",
                            "127.0.0.1:80", "localhost:-1", "localhost: 80"})
    EXPECT_FALSE(tunnel_port(wrong)) << wrong;
}

TEST(HostName, IsOneLabel) {
  EXPECT_TRUE(is_host_name("i123abc"));
  for (const char* wrong : {"", "a b", "a\nb", "a.b"}) EXPECT_FALSE(is_host_name(wrong)) << wrong;
  EXPECT_FALSE(is_host_name(std::string(64, 'a')));
}

TEST(Hosts, NameTheMachineOnce) {
  const std::string once = hosts_with_name("127.0.0.1 localhost\n127.0.1.1\told\n127.0.1.10 other", "new");
  EXPECT_EQ(once, "127.0.0.1 localhost\n127.0.1.10 other\n127.0.1.1 new\n");
  EXPECT_EQ(hosts_with_name(once, "new"), once);
}

TEST(RequestFields, UserTimeoutAndKeepalive) {
  http::RequestHead head;
  EXPECT_EQ(basic_user(head).value(), std::nullopt);
  EXPECT_EQ(timeout_of(head).value(), std::nullopt);
  EXPECT_EQ(keepalive_of(head), Millis(90'000));
  head.fields.set("Authorization", "Basic dXNlcjo=");
  head.fields.set("Connect-Timeout-Ms", "1500");
  head.fields.set("Keepalive-Ping-Interval", "50");
  EXPECT_EQ(basic_user(head).value(), "user");
  EXPECT_EQ(timeout_of(head).value(), Millis(1500));
  EXPECT_EQ(keepalive_of(head), Millis(50'000));
  head.fields.set("Authorization", "Basic !!");
  head.fields.set("Connect-Timeout-Ms", "99999999999");
  head.fields.set("Keepalive-Ping-Interval", "0");
  EXPECT_EQ(basic_user(head).error().code, Code::unauthenticated);
  EXPECT_EQ(timeout_of(head).error().code, Code::invalid_argument);
  EXPECT_EQ(keepalive_of(head), Millis(90'000));
  head.fields.set("Authorization", "Bearer x");
  head.fields.set("Connect-Timeout-Ms", "0");
  EXPECT_EQ(basic_user(head).value(), std::nullopt);
  EXPECT_EQ(timeout_of(head).value(), std::nullopt);
}

}  // namespace
}  // namespace space::guest
