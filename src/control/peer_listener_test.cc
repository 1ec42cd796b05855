#include "control/peer_listener.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <optional>

#include "base/bytes.h"
#include "confine/attacks.h"

namespace space::control {
namespace {

class PeerListenerTest : public testing::Test {
 protected:
  // What a client of this user reads from a listener that expects `uid` and greets whom it lets in.
  std::string greeting(uid_t uid) {
    const std::string path = folder_.folder + "/door.sock";
    boost::asio::io_context loop;
    auto listener = PeerListener::open(loop.get_executor(), path, uid);
    if (!listener) return "no listener: " + listener.error().message;
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0 || (status.st_mode & 0777) != 0660) return "wrong mode";
    std::optional<std::string> heard;
    spawn(loop.get_executor(), "listener", greet(*std::move(listener)));
    spawn(loop.get_executor(), "client", listen_to(path, heard));
    const Deadline deadline = Deadline::after(Millis(10'000));
    while (!heard && !deadline.passed()) loop.run_one_for(Millis(10));
    return heard.value_or("nothing within ten seconds");
  }

 private:
  static Task<void> greet(PeerListener listener) {
    const auto stream = co_await listener.accept();
    if (stream) static_cast<void>(co_await (*stream)->write(as_bytes("welcome")));
  }
  static Task<void> listen_to(std::string path, std::optional<std::string>& heard) {
    auto stream = co_await connect_unix(path, Deadline::after(Millis(5'000)));
    if (!stream) {
      heard = "no connection";
      co_return;
    }
    std::array<std::byte, 16> buffer{};
    const auto size = co_await (*stream)->read(buffer);
    heard = size ? std::string(reinterpret_cast<const char*>(buffer.data()), *size) : size.error().message;
  }
  confine::Targets folder_;
};

TEST_F(PeerListenerTest, the_user_it_expects_is_served) {
  EXPECT_EQ(greeting(::geteuid()), "welcome");
}

TEST_F(PeerListenerTest, any_other_user_is_closed_unread) {
  EXPECT_EQ(greeting(::geteuid() + 1), "");
}

}  // namespace
}  // namespace space::control
