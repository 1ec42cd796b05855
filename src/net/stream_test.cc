#include "net/stream.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "net/test_loop.h"

namespace space {
namespace {

using std::chrono::milliseconds;

struct Ends {
  StreamPtr a;
  StreamPtr b;
};

// The kinds of streams behave alike; each test of the contract runs over all of them.
class StreamTest : public LoopTest, public testing::WithParamInterface<const char*> {
 protected:
  Task<Ends> make_ends() {
    if (GetParam() == std::string_view("pair")) {
      auto [a, b] = make_stream_pair(executor(), 1000);
      co_return Ends{std::move(a), std::move(b)};
    }
    if (GetParam() == std::string_view("unix")) {
      int fds[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
      co_return Ends{make_stream(executor(), Fd(fds[0])), make_stream(executor(), Fd(fds[1]))};
    }
    auto listener = *listen_tcp(executor(), "127.0.0.1", 0);
    auto a = co_await connect_tcp("127.0.0.1", listener->port(), soon());
    auto b = co_await listener->accept();
    co_return Ends{*std::move(a), *std::move(b)};
  }
  bool tells_reset_from_end() const { return GetParam() != std::string_view("unix"); }
};

INSTANTIATE_TEST_SUITE_P(All, StreamTest, testing::Values("pair", "unix", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 2654435761U >> 11);
  return text;
}

Task<void> write_and_finish(Stream& stream, std::string text) {
  co_await write_text(stream, std::move(text));
  EXPECT_TRUE(co_await stream.finish());
}

// The oldest descriptor that `stream`'s peer sent, and the text it came with. A socket of ours takes none in,
// so the test asks the kernel.
Task<Fd> receive_descriptor(Stream* stream, int socket, std::string expected) {
  std::string text(expected.size(), '\0');
  if (socket < 0) {
    EXPECT_EQ(*co_await stream->read(std::as_writable_bytes(std::span(text))), expected.size());
    EXPECT_EQ(text, expected);
    co_return stream->take_descriptor();
  }
  iovec data{text.data(), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  EXPECT_EQ(::recvmsg(socket, &message, MSG_CMSG_CLOEXEC), static_cast<ssize_t>(expected.size()));
  EXPECT_EQ(text, expected);
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr) co_return Fd();
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  co_return Fd(fd);
}

TEST_P(StreamTest, PassesADescriptorOrRefusesAndSendsNothing) {
  run([this]() -> Task<void> {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    const Fd peer(fds[1]);
    Ends ends = GetParam() == std::string_view("unix") ? Ends{make_stream(executor(), Fd(fds[0])), nullptr}
                                                       : co_await make_ends();
    char name[] = "/tmp/space-stream.XXXXXX";
    const Fd file(::mkstemp(name));
    ::unlink(name);
    EXPECT_TRUE(write_all(file.get(), as_bytes("content")));

    const auto sent = co_await ends.a->write_with(as_bytes("with it"), file.get());
    if (GetParam() == std::string_view("tcp")) {
      EXPECT_EQ(sent.error().code, Code::invalid_argument);
      EXPECT_TRUE(co_await ends.a->write(as_bytes("without")));
      co_return;
    }
    EXPECT_TRUE(sent);
    const Fd received = co_await receive_descriptor(ends.b.get(), ends.b ? -1 : peer.get(), "with it");
    char content[8] = {};
    EXPECT_EQ(::pread(received.get(), content, 7, 0), 7);
    EXPECT_STREQ(content, "content");
    EXPECT_NE(received.get(), file.get());
    if (ends.b) EXPECT_FALSE(ends.b->take_descriptor()) << "there was one";
  });
}

TEST_P(StreamTest, CarriesMoreThanItsBufferAndHalfCloses) {
  run([this]() -> Task<void> {
    auto ends = co_await make_ends();
    const std::string sent = pattern(3'000'000);
    spawn(executor(), "writer", write_and_finish(*ends.a, sent));
    EXPECT_TRUE(co_await read_text(*ends.b) == sent);
    // The other direction still works.
    co_await write_and_finish(*ends.b, "answer");
    EXPECT_EQ(co_await read_text(*ends.a), "answer");
  });
}

TEST_P(StreamTest, EndIsReadAgainAndAgain) {
  run([this]() -> Task<void> {
    auto ends = co_await make_ends();
    co_await write_and_finish(*ends.a, "x");
    EXPECT_EQ(co_await read_text(*ends.b), "x");
    EXPECT_EQ(co_await read_text(*ends.b), "");
  });
}

TEST_P(StreamTest, ResetIsNotAnEnd) {
  run([this]() -> Task<void> {
    auto ends = co_await make_ends();
    ends.a->reset();
    std::array<std::byte, 10> buffer;
    const auto n = co_await ends.b->read(buffer);
    if (tells_reset_from_end()) {
      EXPECT_FALSE(n);
    }
    co_await settle();
    const auto first = co_await ends.b->write(as_bytes("x"));
    const auto second = co_await ends.b->write(as_bytes("x"));
    EXPECT_FALSE(first && second);
  });
}

TEST_P(StreamTest, DestroyedUnfinishedIsReset) {
  run([this]() -> Task<void> {
    auto ends = co_await make_ends();
    co_await write_text(*ends.b, "never read");
    co_await settle();
    ends.a.reset();
    EXPECT_THAT(co_await read_text(*ends.b), testing::StartsWith("error: "));
  });
}

TEST_P(StreamTest, DestroyedFinishedBothWaysIsAnEnd) {
  run([this]() -> Task<void> {
    auto ends = co_await make_ends();
    co_await write_and_finish(*ends.b, "question");
    EXPECT_EQ(co_await read_text(*ends.a), "question");
    co_await write_and_finish(*ends.a, "answer");
    ends.a.reset();
    EXPECT_EQ(co_await read_text(*ends.b), "answer");
  });
}

Task<void> note_read(Stream& stream, std::shared_ptr<std::string> outcome) {
  *outcome = co_await read_text(stream);
}

TEST_P(StreamTest, OwnResetEndsAPendingRead) {
  run([this]() -> Task<void> {
    auto ends = co_await make_ends();
    auto outcome = std::make_shared<std::string>();
    spawn(executor(), "reader", note_read(*ends.a, outcome));
    co_await settle();
    EXPECT_EQ(*outcome, "");
    ends.a->reset();
    co_await settle();
    EXPECT_THAT(*outcome, testing::StartsWith("error: "));
  });
}

Task<Result<std::size_t>> read_some(Stream& stream) {
  std::array<std::byte, 10> buffer;
  co_return co_await stream.read(buffer);
}
Task<Result<int>> write_endlessly(Stream& stream) {
  const std::string block = pattern(100'000);
  while (true) SPACE_CO_CHECK(co_await stream.write(as_bytes(block)));
}

TEST_P(StreamTest, DeadlineEndsAReadAndTheStreamIsStillGood) {
  run([this]() -> Task<void> {
    auto ends = co_await make_ends();
    const auto n = co_await with_deadline(read_some(*ends.a), Deadline::after(milliseconds(3)), "read");
    EXPECT_EQ(n.error().code, Code::deadline);
    co_await write_text(*ends.b, "late");
    EXPECT_EQ(*co_await read_some(*ends.a), 4U);
  });
}

TEST_P(StreamTest, DeadlineEndsAWriteNobodyReads) {
  run([this]() -> Task<void> {
    auto ends = co_await make_ends();
    const auto n =
        co_await with_deadline(write_endlessly(*ends.a), Deadline::after(milliseconds(20)), "write");
    EXPECT_EQ(n.error().code, Code::deadline);
  });
}

TEST_P(StreamTest, DeadlineEndsAWriteToAnEagerReader) {
  run([this]() -> Task<void> {
    auto ends = co_await make_ends();
    auto outcome = std::make_shared<std::string>();
    spawn(executor(), "reader", note_read(*ends.b, outcome));
    const auto n =
        co_await with_deadline(write_endlessly(*ends.a), Deadline::after(milliseconds(20)), "write");
    EXPECT_EQ(n.error().code, Code::deadline);
    ends.a->reset();
    while (outcome->empty()) co_await settle();
  });
}

TEST_P(StreamTest, SpliceCarriesBothWaysAndPassesHalfClosesOn) {
  run([this]() -> Task<void> {
    auto left = co_await make_ends();
    auto right = co_await make_ends();
    spawn(executor(), "splice", splice(std::move(left.b), std::move(right.a), 4096));
    const std::string sent = pattern(500'000);
    spawn(executor(), "writer", write_and_finish(*left.a, sent));
    EXPECT_TRUE(co_await read_text(*right.b) == sent);
    const std::string back = pattern(300'000);
    spawn(executor(), "writer", write_and_finish(*right.b, back));
    EXPECT_TRUE(co_await read_text(*left.a) == back);
  });
}

TEST_P(StreamTest, SplicePassesAResetOn) {
  run([this]() -> Task<void> {
    auto left = co_await make_ends();
    auto right = co_await make_ends();
    spawn(executor(), "splice", splice(std::move(left.b), std::move(right.a)));
    co_await write_text(*left.a, "half");
    EXPECT_EQ(co_await read_until(*right.b, "half"), "half");
    co_await write_text(*right.b, "unread");  // lets a unix socket tell a reset
    co_await settle();
    left.a->reset();
    if (tells_reset_from_end()) {
      EXPECT_THAT(co_await read_text(*right.b), testing::StartsWith("error: "));
    }
  });
}

Task<Result<int>> splice_until_cancelled(StreamPtr a, StreamPtr b) {
  co_await splice(std::move(a), std::move(b));
  co_return 0;
}

TEST_P(StreamTest, CancelledSpliceResetsBothSides) {
  run([this]() -> Task<void> {
    auto left = co_await make_ends();
    auto right = co_await make_ends();
    (void)co_await with_deadline(splice_until_cancelled(std::move(left.b), std::move(right.a)),
                                 Deadline::after(milliseconds(5)), "splice");
    if (tells_reset_from_end()) {
      EXPECT_THAT(co_await read_text(*left.a), testing::StartsWith("error: "));
      EXPECT_THAT(co_await read_text(*right.b), testing::StartsWith("error: "));
    }
  });
}

class SocketTest : public LoopTest {
 protected:
  SocketTest() {
    std::string name = (std::filesystem::temp_directory_path() / "space-net-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~SocketTest() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/s.sock"; }

 private:
  std::string folder_;
};

TEST_F(SocketTest, UnixListenerReplacesItsPathAndSetsItsMode) {
  run([this]() -> Task<void> {
    auto stale = *listen_unix(executor(), path(), 0600);
    auto listener = *listen_unix(executor(), path(), 0660);
    struct stat info{};
    EXPECT_EQ(::stat(path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0660U);
    auto client = *co_await connect_unix(path(), soon());
    auto served = *co_await listener->accept();
    co_await write_text(*client, "hi\n");
    EXPECT_EQ(co_await read_until(*served, "\n"), "hi\n");
  });
}

TEST_F(SocketTest, ConnectFailuresAreErrors) {
  run([this]() -> Task<void> {
    EXPECT_EQ((co_await connect_unix(path(), soon())).error().code, Code::unavailable);
    EXPECT_EQ((co_await connect_unix(std::string(200, 'x'), soon())).error().code, Code::invalid_argument);
    EXPECT_EQ((co_await connect_tcp("localhost", 1, soon())).error().code, Code::invalid_argument);
    std::uint16_t port = (*listen_tcp(executor(), "127.0.0.1", 0))->port();
    EXPECT_EQ((co_await connect_tcp("127.0.0.1", port, soon())).error().code, Code::unavailable);
    EXPECT_FALSE(listen_tcp(executor(), "not an address", 0));
  });
}

TEST_F(SocketTest, SocketsAreNotInherited) {
  run([this]() -> Task<void> {
    auto listener = *listen_tcp(executor(), "::1", 0);
    auto client = *co_await connect_tcp("::1", listener->port(), soon());
    auto served = *co_await listener->accept();
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      const int fd = std::stoi(entry.path().filename());
      struct stat info{};
      if (::fstat(fd, &info) != 0 || !S_ISSOCK(info.st_mode) || fd <= 2) continue;
      EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC) << fd;
    }
  });
}

Task<void> note_connect(std::string path, std::shared_ptr<int> connected) {
  auto stream = co_await connect_unix(path, Deadline::after(std::chrono::seconds(30)));
  EXPECT_TRUE(stream) << stream.error().message;
  ++*connected;
  co_await sleep_for(std::chrono::hours(1));
}

TEST_F(SocketTest, FullUnixQueueIsWaitedOut) {
  run([this]() -> Task<void> {
    auto listener = *listen_unix(executor(), path(), 0600, 1);
    auto connected = std::make_shared<int>(0);
    for (int i = 0; i < 5; ++i) spawn(executor(), "client", note_connect(path(), connected));
    co_await settle();
    EXPECT_LT(*connected, 5);
    std::vector<StreamPtr> served;
    for (int i = 0; i < 5; ++i) served.push_back(*co_await listener->accept());
    while (*connected < 5) co_await sleep_for(milliseconds(1));
  });
}

Task<void> note_accept(Listener& listener, std::shared_ptr<std::optional<Code>> outcome) {
  const auto stream = co_await listener.accept();
  *outcome = stream ? Code::internal : stream.error().code;
}

TEST_F(SocketTest, CloseEndsAPendingAccept) {
  run([this]() -> Task<void> {
    auto listener = *listen_tcp(executor(), "127.0.0.1", 0);
    auto outcome = std::make_shared<std::optional<Code>>();
    spawn(executor(), "accept", note_accept(*listener, outcome));
    co_await settle();
    EXPECT_FALSE(outcome->has_value());
    listener->close();
    co_await settle();
    EXPECT_EQ(*outcome, Code::unavailable);
  });
}

TEST_F(SocketTest, AcceptWaitsForFreeDescriptors) {
  run([this]() -> Task<void> {
    auto listener = *listen_tcp(executor(), "127.0.0.1", 0);
    auto client = *co_await connect_tcp("127.0.0.1", listener->port(), soon());
    std::vector<Fd> hoard;
    rlimit old{};
    ::getrlimit(RLIMIT_NOFILE, &old);
    const rlimit low{.rlim_cur = 64, .rlim_max = old.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &low);
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) hoard.emplace_back(fd);
    const auto none = co_await with_deadline(listener->accept(), Deadline::after(milliseconds(50)), "accept");
    EXPECT_FALSE(none);
    hoard.clear();
    EXPECT_TRUE(co_await with_deadline(listener->accept(), soon(), "accept"));
    ::setrlimit(RLIMIT_NOFILE, &old);
  });
}

TEST_F(SocketTest, CharacterDevices) {
  run([this]() -> Task<void> {
    const int main_fd = ::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    EXPECT_GE(main_fd, 0);
    EXPECT_EQ(::grantpt(main_fd), 0);
    EXPECT_EQ(::unlockpt(main_fd), 0);
    auto terminal = *open_fd(::ptsname(main_fd), O_RDWR | O_NOCTTY | O_NONBLOCK);
    auto a = make_stream(executor(), Fd(main_fd));
    auto b = make_stream(executor(), std::move(terminal));
    co_await write_text(*a, "typed\n");
    EXPECT_EQ(co_await read_until(*b, "\n"), "typed\n");
    EXPECT_TRUE(co_await b->finish());  // a device has no half-close; nothing breaks
    b->reset();
    EXPECT_THAT(co_await read_text(*a), testing::StartsWith("error: "));
  });
}

}  // namespace
}  // namespace space
