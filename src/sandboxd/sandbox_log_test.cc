// A sandbox's log: its bounds, its order, what is asked of it, and the console's hostile text on its way in.
#include "sandboxd/sandbox_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <ranges>

#include "sandboxd/console_text.h"
#include "sandboxd/sandbox_logs.h"

namespace space {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> messages(const LogPage& page) {
  std::vector<std::string> result;
  for (const LogEntry& entry : page.entries) result.push_back(entry.message);
  return result;
}

class SandboxLogTest : public testing::Test {
 protected:
  void note(std::string text, LogLevel level = LogLevel::info) {
    log_.append(LogSource::node, level, std::move(text));
  }
  void print(std::string text) { log_.append(LogSource::console, LogLevel::info, std::move(text)); }

  boost::asio::io_context loop_;
  FakeClock clock_;
  SandboxLog log_{loop_.get_executor(), clock_};
};

TEST_F(SandboxLogTest, PagesForwardAndBackwardMissNothing) {
  for (int i = 0; i < 10; ++i) i % 2 == 0 ? note(std::to_string(i)) : print(std::to_string(i));
  LogQuery query{.limit = 4};
  std::vector<std::string> seen;
  for (LogPage page = log_.select(query); !page.entries.empty(); page = log_.select(query)) {
    for (const std::string& text : messages(page)) seen.push_back(text);
    query.after = page.next;
  }
  EXPECT_THAT(seen, ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"));
  query = {.limit = 6, .backward = true};
  LogPage page = log_.select(query);
  EXPECT_THAT(messages(page), ElementsAre("9", "8", "7", "6", "5", "4"));
  query.before = page.next;
  EXPECT_THAT(messages(log_.select(query)), ElementsAre("3", "2", "1", "0"));
}

TEST_F(SandboxLogTest, LevelAndTextChooseAndTheCursorStillMovesOn) {
  note("disk full", LogLevel::warn);
  note("started");
  note("it died", LogLevel::error);
  print("kernel: disk");
  EXPECT_THAT(messages(log_.select({.level = LogLevel::warn})), ElementsAre("disk full", "it died"));
  EXPECT_THAT(messages(log_.select({.search = "disk"})), ElementsAre("disk full", "kernel: disk"));
  const LogPage none = log_.select({.search = "nowhere"});
  EXPECT_THAT(none.entries, IsEmpty());
  EXPECT_THAT(log_.select({.after = none.next}).entries, IsEmpty());
}

TEST_F(SandboxLogTest, SequencesAreTimesUniqueAndNeverGoBack) {
  note("a");
  note("b");
  clock_.advance(5s);
  note("c");
  const auto entries = log_.select({}).entries;
  const auto start_us = std::uint64_t{1'700'000'000'000'000};
  EXPECT_EQ(entries[0].sequence, start_us);
  EXPECT_EQ(entries[1].sequence, start_us + 1);
  EXPECT_EQ(entries[2].sequence, start_us + 5'000'000);
  clock_.advance(-1h);
  note("d");
  EXPECT_EQ(log_.select({}).entries[3].sequence, start_us + 5'000'001);
}

TEST_F(SandboxLogTest, AGuestThatFloodsItsConsoleDoesNotEraseItsHistory) {
  note("sandbox created");
  for (int i = 0; i < 20'000; ++i) print(std::string(1000, 'x') + std::to_string(i));
  std::size_t count = 0;
  std::size_t bytes = 0;
  LogQuery query;
  for (LogPage page = log_.select(query); !page.entries.empty(); page = log_.select(query)) {
    std::size_t page_bytes = 0;
    for (const LogEntry& entry : page.entries) page_bytes += entry.bytes();
    EXPECT_LE(page_bytes, SandboxLog::page_bytes_max);
    count += page.entries.size();
    bytes += page_bytes;
    query.after = page.next;
  }
  EXPECT_LE(count, 4000U);
  EXPECT_LE(bytes, 1024U * 1024);
  EXPECT_EQ(log_.select({.limit = 1}).entries[0].message, "sandbox created");
  EXPECT_TRUE(log_.select({.limit = 1, .backward = true}).entries[0].message.ends_with("x19999"));
}

TEST(SandboxLogs, TheNewestOfThoseThatEndedAreKept) {
  boost::asio::io_context loop;
  SandboxLogs logs(loop.get_executor());
  const auto alive = logs.open("alive");
  for (std::size_t i = 0; i < SandboxLogs::ended_max + 1; ++i) {
    logs.open("s" + std::to_string(i));
    logs.end("s" + std::to_string(i));
  }
  EXPECT_EQ(logs.find("s0"), nullptr);
  EXPECT_NE(logs.find("s1"), nullptr);
  EXPECT_EQ(logs.find("alive"), alive);
  const auto again = logs.open("s1");  // made again: it is not an ended one any more
  for (int i = 0; i < 100; ++i) {
    logs.open("t" + std::to_string(i));
    logs.end("t" + std::to_string(i));
  }
  EXPECT_EQ(logs.find("s1"), again);
  logs.end("unknown");
  EXPECT_EQ(logs.find("unknown"), nullptr);
}

TEST(ConsoleText, LinesComeWholeHoweverTheyArrive) {
  ConsoleText console;
  EXPECT_THAT(console.feed("one\r\ntw").lines, ElementsAre("one"));
  EXPECT_THAT(console.feed("o").lines, IsEmpty());
  EXPECT_THAT(console.feed("\n\n\nthree\n").lines, ElementsAre("two", "three"));
}

TEST(ConsoleText, NothingSteersATerminal) {
  EXPECT_EQ(printable("\x1b]0;title\x07\x1b[2J"), "\\x1b]0;title\\x07\\x1b[2J");
  EXPECT_EQ(printable(std::string_view("a\0b\x7f\tc", 6)), "a\\x00b\\x7f\tc");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\x9b31m");  // the CSI of C1
  EXPECT_EQ(printable("gr\xc3\xbc\xc3\x9f \xe2\x82\xac"), "gr\xc3\xbc\xc3\x9f \xe2\x82\xac");
  ConsoleText console;
  for (const std::string& line : console.feed("\x1b[31mred\x1b[0m\n\x08\x08\n").lines)
    EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return c >= ' ' || c == '\t' || c < 0; })) << line;
}

TEST(ConsoleText, LinesAndTheirNumberAreBounded) {
  ConsoleText console;
  for (int i = 0; i < 100; ++i) EXPECT_THAT(console.feed(std::string(65536, 'a')).lines, IsEmpty());
  EXPECT_EQ(console.feed("\n").lines.at(0).size(), ConsoleText::line_bytes_max);
  const auto cut = console.feed(std::string(ConsoleText::line_bytes_max - 1, 'a') + "\xe2\x82\xac\n").lines;
  EXPECT_EQ(cut.at(0), std::string(ConsoleText::line_bytes_max - 1, 'a'));  // no half of a character
  std::string flood;
  for (int i = 0; i < 1000; ++i) flood += std::to_string(i) + "\n";
  const auto read = console.feed(flood);
  EXPECT_EQ(read.lines.size(), ConsoleText::lines_max);
  EXPECT_EQ(read.dropped, 1000 - ConsoleText::lines_max);
  EXPECT_EQ(read.lines.back(), "999");
}

}  // namespace
}  // namespace space
