#include "net/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

#include "net/test_loop.h"

namespace space {
namespace {

sockaddr_storage address(const char* text) {
  sockaddr_storage storage{};
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    std::memcpy(&storage, &v4, sizeof v4);
  } else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    std::memcpy(&storage, &v6, sizeof v6);
  }
  return storage;
}

TEST(Loopback, IsToldFromTheRest) {
  for (const char* text : {"127.0.0.1", "127.255.1.2", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(is_loopback(address(text))) << text;
  for (const char* text : {"128.0.0.1", "10.0.0.1", "0.0.0.0", "192.168.127.1", "::", "::2",
                           "::ffff:10.0.0.1", "::127.0.0.1", "fe80::1", "no address"})
    EXPECT_FALSE(is_loopback(address(text))) << text;
}

class LoopbackPeer : public LoopTest {};

TEST_F(LoopbackPeer, OfAConnection) {
  run([&]() -> Task<void> {
    auto listener = listen_tcp(executor(), "127.0.0.1", 0);
    const auto client = co_await connect_tcp("127.0.0.1", (*listener)->port(), soon());
    const auto served = co_await (*listener)->accept();
    EXPECT_TRUE((*served)->peer_is_loopback());
    EXPECT_TRUE((*client)->peer_is_loopback());
    EXPECT_FALSE(make_stream_pair(executor()).first->peer_is_loopback());
  });
}

}  // namespace
}  // namespace space
