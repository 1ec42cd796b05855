// For tests: a loop of its own for each test, and the few waits they all need.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <string>

#include "base/bytes.h"
#include "net/stream.h"

namespace space {

class LoopTest : public testing::Test {
 protected:
  // Runs `test`, a coroutine lambda, until it returns; what it spawned may still be waiting then.
  template <class F>
  void run(F test) {
    bool done = false;
    spawn(executor(), "test", mark_done(test, &done));
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done && std::chrono::steady_clock::now() < limit) {
      loop_.run_one_for(std::chrono::seconds(1));
      loop_.restart();
    }
    ASSERT_TRUE(done) << "the test did not end";
  }

  Executor executor() { return loop_.get_executor(); }
  static Deadline soon() { return Deadline::after(std::chrono::seconds(30)); }
  // Lets everything that can go on without outside help go on.
  static Task<void> settle() {
    for (int i = 0; i < 20; ++i) co_await boost::asio::post(boost::asio::use_awaitable);
  }

 private:
  template <class F>
  static Task<void> mark_done(F& test, bool* done) {
    co_await test();
    *done = true;
  }

  boost::asio::io_context loop_;
};

// Until the end of the stream; "error: …" when it breaks.
inline Task<std::string> read_text(Stream& stream) {
  std::string text;
  std::array<std::byte, 4096> buffer;
  while (true) {
    const auto n = co_await stream.read(buffer);
    if (!n) co_return "error: " + n.error().message;
    if (*n == 0) co_return text;
    text += as_text(std::span(buffer).first(*n));
  }
}

// Until `text` ends with `ending`.
inline Task<std::string> read_until(Stream& stream, std::string ending) {
  std::string text;
  while (!text.ends_with(ending)) {
    std::array<std::byte, 1> one;
    const auto n = co_await stream.read(one);
    if (!n || *n == 0) co_return text + (n ? " [end]" : " [error]");
    text += as_text(one);
  }
  co_return text;
}

inline Task<void> write_text(Stream& stream, std::string text) {
  const auto written = co_await stream.write(as_bytes(text));
  EXPECT_TRUE(written) << written.error().message;
}

}  // namespace space
