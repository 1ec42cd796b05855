// Captures the memory of a real process, which writes to a private mapping of a file as a VMM does.
#include "vmm/memory_capture.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>

#include "base/bytes.h"
#include "base/fd.h"

namespace space::vmm {
namespace {

constexpr std::uint64_t pages = 2048;
constexpr std::uint64_t memory_bytes = pages * page_bytes;

enum class Act : std::uint32_t { fill, zero, rewrite, protect, map_again };
struct Order {
  Act act;
  std::uint32_t first, count, seed;
};

void fill(std::byte* page, std::uint32_t seed) {
  std::minstd_rand random(seed + 1);
  for (std::size_t i = 0; i < page_bytes; ++i) page[i] = static_cast<std::byte>(random() >> 8);
}

// Stands still between orders.
class Child {
 public:
  explicit Child(const std::string& memory) {
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) serve(memory, to[0], from[1]);
    ::close(to[0]);
    ::close(from[1]);
    orders_ = Fd(to[1]);
    answers_ = Fd(from[0]);
    wait();
    mem_ = open("mem");
    maps_ = open("maps");
    pagemap_ = open("pagemap");
  }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void order(Act act, std::uint32_t first, std::uint32_t count = 1, std::uint32_t seed = 1) {
    const Order text{act, first, count, seed};
    EXPECT_EQ(::write(orders_.get(), &text, sizeof text), static_cast<ssize_t>(sizeof text));
    wait();
  }
  void kill() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  MemoryFds fds() const { return {mem_.get(), maps_.get(), pagemap_.get()}; }
  // All of it, by the plainest means.
  std::string dump() const {
    std::string text(memory_bytes, '\0');
    EXPECT_EQ(::pread(mem_.get(), text.data(), text.size(), static_cast<off_t>(address_)),
              static_cast<ssize_t>(text.size()));
    return text;
  }

 private:
  [[noreturn]] static void serve(const std::string& memory, int orders, int answers) {
    const int file = ::open(memory.c_str(), O_RDONLY);
    const auto map = [file] {
      return static_cast<std::byte*>(
          ::mmap(nullptr, memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0));
    };
    std::byte* data = map();
    Order order{};
    do {
      for (std::uint32_t i = 0; i < order.count; ++i) {
        std::byte* page = data + (order.first + i) * page_bytes;
        if (order.act == Act::fill) fill(page, order.seed + i);
        if (order.act == Act::zero) std::memset(page, 0, page_bytes);
        if (order.act == Act::rewrite) *const_cast<volatile std::byte*>(page) = *page;
        if (order.act == Act::protect) ::mprotect(page, page_bytes, PROT_READ);
        if (order.act == Act::map_again) (void)map();
      }
      if (::write(answers, &data, sizeof data) != sizeof data) break;
    } while (::read(orders, &order, sizeof order) == sizeof order);
    ::_exit(0);
  }

  void wait() {
    ASSERT_EQ(::read(answers_.get(), &address_, sizeof address_), static_cast<ssize_t>(sizeof address_));
  }
  Fd open(const char* name) const {
    auto opened = open_fd("/proc/" + std::to_string(pid_) + "/" + name, O_RDONLY);
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? std::move(*opened) : Fd();
  }

  pid_t pid_ = -1;
  std::uint64_t address_ = 0;
  Fd orders_, answers_, mem_, maps_, pagemap_;
};

std::vector<std::uint64_t> differing_pages(std::string_view a, std::string_view b) {
  std::vector<std::uint64_t> differing;
  for (std::uint64_t page = 0; page < pages; ++page)
    if (a.substr(page * page_bytes, page_bytes) != b.substr(page * page_bytes, page_bytes))
      differing.push_back(page);
  return differing;
}

// With PAGEMAP_SCAN, where this kernel has it, and without.
class MemoryCaptureTest : public testing::TestWithParam<bool> {
 protected:
  MemoryCaptureTest() {
    char folder[] = "/tmp/space-capture.XXXXXX";
    folder_ = ::mkdtemp(folder);
    const Fd file = image_at(folder_ + "/memory");
    std::vector<std::byte> page(page_bytes);
    for (std::uint32_t at = 100; at < 700; ++at) {  // the rest is a hole
      fill(page.data(), at);
      EXPECT_EQ(::pwrite(file.get(), page.data(), page.size(), static_cast<off_t>(at * page_bytes)),
                static_cast<ssize_t>(page.size()));
    }
    child_ = std::make_unique<Child>(folder_ + "/memory");
    options_ = {.memory_bytes = memory_bytes, .allow_scan = GetParam()};
  }
  ~MemoryCaptureTest() override { std::filesystem::remove_all(folder_); }

  static Fd image_at(const std::string& path) {
    Fd file = open_fd(path, O_RDWR | O_CREAT, 0600).value();
    EXPECT_EQ(::ftruncate(file.get(), memory_bytes), 0);
    return file;
  }
  // As the node manager makes one: what the snapshot before it holds.
  Fd next_image(const std::string& before) {
    const std::string path = folder_ + "/image";
    std::filesystem::remove(path);
    Fd file = image_at(path);
    for (std::uint64_t page = 0; page < pages; ++page) {
      const auto content = std::string_view(before).substr(page * page_bytes, page_bytes);
      if (content.find_first_not_of('\0') == content.npos) continue;  // holes stay holes
      EXPECT_EQ(::pwrite(file.get(), content.data(), content.size(), static_cast<off_t>(page * page_bytes)),
                static_cast<ssize_t>(page_bytes));
    }
    return file;
  }
  static std::string content(int fd) {
    std::string text(memory_bytes + 1, '\0');
    EXPECT_EQ(::pread(fd, text.data(), text.size(), 0), static_cast<ssize_t>(memory_bytes));
    text.pop_back();
    return text;
  }
  std::string launch_memory() const { return content(open_fd(folder_ + "/memory", O_RDONLY).value().get()); }

  void dirty_at_random(std::mt19937& random) {
    for (int i = 0; i < 60; ++i) {
      const auto first = static_cast<std::uint32_t>(random() % (pages - 8));
      const auto count = static_cast<std::uint32_t>(1 + random() % 8);
      child_->order(static_cast<Act>(random() % 3), first, count, static_cast<std::uint32_t>(random()));
    }
    child_->order(random() % 2 ? Act::fill : Act::zero, 0);
    child_->order(Act::fill, pages - 1, 1, static_cast<std::uint32_t>(random()));
  }

  std::string folder_;
  std::unique_ptr<Child> child_;
  MemoryCapture::Options options_;
  StagingBuffer buffer_;
};

INSTANTIATE_TEST_SUITE_P(Ways, MemoryCaptureTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "scan" : "pagemap"; });

TEST_P(MemoryCaptureTest, OneAfterTheOtherEqualsAFullDump) {
  std::mt19937 random(5);
  std::string before = launch_memory();
  for (int round = 0; round < 10; ++round) {
    if (round == 3) child_->order(Act::protect, 300);  // three mappings from here on
    if (round > 3) child_->order(Act::fill, 299, 1, 7), child_->order(Act::fill, 301, 1, 8);
    if (round < 3) dirty_at_random(random);
    child_->order(Act::fill, 1000 + static_cast<std::uint32_t>(round), 3, static_cast<std::uint32_t>(round));
    const std::string now = child_->dump();
    const Fd image = next_image(before);
    auto capture = MemoryCapture::stage(child_->fds(), options_, buffer_);
    ASSERT_TRUE(capture) << capture.error().message;
    EXPECT_TRUE(capture->complete());
    child_->order(Act::fill, 1500, 20, 99);  // it runs on, and what it writes now is not of this snapshot
    const auto stats = capture->write(image.get());
    ASSERT_TRUE(stats) << stats.error().message;

    EXPECT_TRUE(content(image.get()) == now) << "round " << round;
    const auto dirty = differing_pages(before, now);
    EXPECT_EQ(stats->dirty_pages, dirty.size());
    EXPECT_EQ(stats->written_bytes, (dirty.size() - stats->zero_pages) * page_bytes);
    EXPECT_GE(stats->private_pages, stats->dirty_pages);
    if (round == 0) EXPECT_GT(stats->zero_pages, 0u);
    before = now;
  }
  // The comparison sees one byte.
  std::string planted = before;
  planted[777 * page_bytes + 5] ^= 1;
  EXPECT_EQ(differing_pages(before, planted), std::vector<std::uint64_t>{777});
}

TEST_P(MemoryCaptureTest, FindsTheVeryPagesThatWereWritten) {
  const auto private_runs = [&] {
    return find_private_pages(child_->fds(), memory_bytes, GetParam()).value().runs;
  };
  EXPECT_TRUE(private_runs().empty());
  child_->order(Act::fill, 0);
  child_->order(Act::rewrite, 101, 2);
  child_->order(Act::zero, 103);
  child_->order(Act::fill, pages - 1);
  EXPECT_EQ(private_runs(), (std::vector<PageRun>{{0, 1}, {101, 3}, {pages - 1, 1}}));
  EXPECT_EQ(MemoryCapture::private_bytes(child_->fds(), options_).value(), 5 * page_bytes);
  child_->order(Act::protect, 102);
  EXPECT_EQ(private_runs(), (std::vector<PageRun>{{0, 1}, {101, 3}, {pages - 1, 1}}));
}

TEST_P(MemoryCaptureTest, ManyRunsAndSeveralThreads) {
  for (std::uint32_t page = 0; page < pages; page += 2) child_->order(Act::fill, page, 1, page);
  child_->order(Act::fill, 600, 1400, 5);
  const std::string now = child_->dump();
  for (const unsigned threads : {1u, 2u, 7u}) {
    options_.threads = threads;
    auto capture = MemoryCapture::stage(child_->fds(), options_, buffer_);
    ASSERT_TRUE(capture) << capture.error().message;
    const Fd image = next_image(launch_memory());
    ASSERT_TRUE(capture->write(image.get()));
    EXPECT_TRUE(content(image.get()) == now) << threads;
  }
}

TEST_P(MemoryCaptureTest, WhatFindsNoRoomIsWrittenInTheWindow) {
  child_->order(Act::fill, 50, 1000, 5);
  child_->order(Act::zero, 640, 3);
  const std::string before = launch_memory();
  const std::string now = child_->dump();
  ASSERT_FALSE(differing_pages(before, now).empty());
  for (const std::uint64_t staged : {0u, 1u, 600u}) {
    options_.stage_limit_bytes = staged * page_bytes;
    auto capture = MemoryCapture::stage(child_->fds(), options_, buffer_);
    ASSERT_TRUE(capture) << capture.error().message;
    EXPECT_FALSE(capture->complete());
    const Fd image = next_image(before);
    EXPECT_EQ(capture->write(image.get()).error().code, Code::conflict) << "half a memory is none";
    ASSERT_TRUE(capture->write_unstaged(child_->fds(), image.get()));
    const auto stats = capture->write(image.get());
    ASSERT_TRUE(stats) << stats.error().message;
    EXPECT_EQ(stats->unstaged_pages, stats->private_pages - staged);
    EXPECT_EQ(stats->dirty_pages, differing_pages(before, now).size());
    EXPECT_TRUE(content(image.get()) == now) << staged;
  }
}

TEST_P(MemoryCaptureTest, PagesThatBecameZeroTakeNoRoom) {
  const std::string before = launch_memory();
  const auto blocks = [](int fd) {
    struct stat status{};
    EXPECT_EQ(::fstat(fd, &status), 0);
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
  };
  const Fd image = next_image(before);
  ASSERT_EQ(::fsync(image.get()), 0);
  const std::uint64_t full = blocks(image.get());
  ASSERT_GE(full, 600 * page_bytes);
  child_->order(Act::zero, 100, 500);
  child_->order(Act::zero, 1000, 50);  // they were before
  auto capture = MemoryCapture::stage(child_->fds(), options_, buffer_);
  const auto stats = capture->write(image.get());
  ASSERT_TRUE(stats) << stats.error().message;
  EXPECT_EQ(stats->private_pages, 550u);
  EXPECT_EQ(stats->zero_pages, 500u);
  EXPECT_EQ(stats->dirty_pages, 500u);
  EXPECT_EQ(stats->written_bytes, 0u);
  EXPECT_LE(blocks(image.get()), full - 500 * page_bytes);
  EXPECT_TRUE(content(image.get()) == child_->dump());
}

TEST_P(MemoryCaptureTest, AnImageOfAnotherLengthIsRefused) {
  child_->order(Act::fill, 5);
  auto capture = MemoryCapture::stage(child_->fds(), options_, buffer_);
  const Fd image = next_image(launch_memory());
  ASSERT_EQ(::ftruncate(image.get(), memory_bytes - page_bytes), 0);
  EXPECT_EQ(capture->write(image.get()).error().code, Code::invalid_argument);
  ASSERT_EQ(::ftruncate(image.get(), memory_bytes), 0);
  EXPECT_TRUE(capture->write(image.get()));
}

TEST_P(MemoryCaptureTest, AVmmOfAnotherShapeIsRefused) {
  options_.memory_bytes = memory_bytes * 2;
  EXPECT_EQ(MemoryCapture::stage(child_->fds(), options_, buffer_).error().code, Code::invalid_argument);
  options_.memory_bytes = memory_bytes;
  EXPECT_TRUE(MemoryCapture::stage(child_->fds(), options_, buffer_));
  child_->order(Act::map_again, 0);
  const auto twice = MemoryCapture::stage(child_->fds(), options_, buffer_);
  EXPECT_EQ(twice.error().code, Code::invalid_argument);
}

TEST_P(MemoryCaptureTest, AVmmThatEndedIsUnavailable) {
  child_->order(Act::fill, 0, 50);
  child_->kill();
  EXPECT_EQ(MemoryCapture::stage(child_->fds(), options_, buffer_).error().code, Code::unavailable);
}

TEST(StagingBuffer, GrowsAndShrinks) {
  StagingBuffer buffer;
  EXPECT_TRUE(buffer.bytes().empty());
  ASSERT_TRUE(buffer.grow(3'000'000));
  const std::byte* where = buffer.bytes().data();
  EXPECT_GE(buffer.bytes().size(), 3'000'000u);
  std::memset(buffer.bytes().data(), 7, buffer.bytes().size());
  ASSERT_TRUE(buffer.grow(1'000'000));
  EXPECT_EQ(buffer.bytes().data(), where) << "it is large enough";
  StagingBuffer moved = std::move(buffer);
  EXPECT_EQ(moved.bytes().data(), where);
  moved.shrink(1'000'000);
  EXPECT_LT(moved.bytes().size(), 3'000'000u);
  EXPECT_EQ(moved.bytes().back(), std::byte{7});
  moved.shrink(0);
  EXPECT_TRUE(moved.bytes().empty());
  EXPECT_EQ(moved.grow(std::size_t{1} << 60).error().code, Code::exhausted);
  EXPECT_TRUE(moved.grow(4096));
}

}  // namespace
}  // namespace space::vmm
