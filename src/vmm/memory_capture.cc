#include "vmm/memory_capture.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <thread>

namespace space::vmm {
namespace {

constexpr std::uint64_t pages_worth_a_thread = 1024;  // 4 MiB take a millisecond
constexpr std::uint64_t window_chunk_pages = 256;

std::uint64_t micros_since(std::chrono::steady_clock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start)
          .count());
}

// Runs of memory that are read to one place, one after the other.
struct Portion {
  std::vector<PageRun> runs;
  std::byte* into = nullptr;
};

Result<void> read_run(int mem, std::uint64_t address, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t count = ::pread(mem, into.data(), into.size(), static_cast<off_t>(address));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno(errno, "read the VMM's memory");
    if (count == 0) return fail(Code::unavailable, "the VMM is gone");
    into = into.subspan(static_cast<std::size_t>(count));
    address += static_cast<std::uint64_t>(count);
  }
  return {};
}

Result<void> read_portion(int mem, std::uint64_t memory, const Portion& portion) {
  std::byte* into = portion.into;
  for (const PageRun& run : portion.runs) {
    const std::size_t bytes = run.count * page_bytes;
    SPACE_CHECK(read_run(mem, memory + run.first * page_bytes, {into, bytes}));
    into += bytes;
  }
  return {};
}

// The first `pages` pages of `runs`, which keeps the rest.
std::vector<PageRun> take_pages(std::vector<PageRun>& runs, std::uint64_t pages) {
  std::vector<PageRun> taken;
  std::size_t whole = 0;
  while (whole < runs.size() && runs[whole].count <= pages) pages -= runs[whole++].count;
  taken.assign(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(whole));
  runs.erase(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(whole));
  if (pages > 0 && !runs.empty()) {
    taken.push_back({runs.front().first, pages});
    runs.front().first += pages;
    runs.front().count -= pages;
  }
  return taken;
}

// The kernel copies each page twice, at 0.27 s a GiB: while the VM stands still its processors are there to
// help.
unsigned threads_or_default(unsigned threads) {
  return threads != 0 ? threads : std::clamp(std::thread::hardware_concurrency(), 1u, 4u);
}

std::vector<Portion> split(std::vector<PageRun> runs, std::byte* into, unsigned threads) {
  const std::uint64_t pages = count_pages(runs);
  const std::uint64_t parts =
      std::clamp<std::uint64_t>(pages / pages_worth_a_thread, 1, threads_or_default(threads));
  std::vector<Portion> portions(parts);
  for (Portion& portion : portions) {
    portion.into = into;
    portion.runs = take_pages(runs, (pages + parts - 1) / parts);
    into += count_pages(portion.runs) * page_bytes;
  }
  return portions;
}

Result<void> read_in_parallel(int mem, std::uint64_t memory, const std::vector<Portion>& portions) {
  std::vector<Result<void>> results(portions.size());
  const auto read = [&](std::size_t i) { results[i] = read_portion(mem, memory, portions[i]); };
  {
    std::vector<std::jthread> threads;  // joined at the end of this block
    for (std::size_t i = 1; i < portions.size(); ++i) {
      try {
        threads.emplace_back(read, i);
      } catch (const std::system_error&) {
        read(i);  // no thread to be had
      }
    }
    read(0);
  }
  for (const Result<void>& result : results)
    if (!result) return result;
  return {};
}

}  // namespace

Result<std::uint64_t> MemoryCapture::private_bytes(MemoryFds vmm, Options options) {
  SPACE_TRY(const PrivatePages pages, find_private_pages(vmm, options.memory_bytes, options.allow_scan));
  return count_pages(pages.runs) * page_bytes;
}

Result<MemoryCapture> MemoryCapture::stage(MemoryFds vmm, Options options, StagingBuffer& buffer) {
  const auto start = std::chrono::steady_clock::now();
  SPACE_TRY(PrivatePages pages, find_private_pages(vmm, options.memory_bytes, options.allow_scan));
  MemoryCapture capture;
  capture.memory_bytes_ = options.memory_bytes;
  capture.address_ = pages.address;
  capture.stats_.private_pages = count_pages(pages.runs);

  const std::uint64_t wanted = std::min(capture.stats_.private_pages * page_bytes, options.stage_limit_bytes);
  SPACE_CHECK(buffer.grow(wanted));
  capture.runs_ = take_pages(pages.runs, wanted / page_bytes);
  capture.unstaged_ = std::move(pages.runs);
  capture.stats_.unstaged_pages = count_pages(capture.unstaged_);
  capture.staged_ = buffer.bytes().first(count_pages(capture.runs_) * page_bytes);

  SPACE_CHECK(read_in_parallel(vmm.mem, capture.address_,
                               split(capture.runs_, buffer.bytes().data(), options.threads)));
  capture.stats_.stage_us = micros_since(start);
  return capture;
}

Result<void> MemoryCapture::write_unstaged(MemoryFds vmm, int mem_raw) {
  if (complete()) return {};
  const auto start = std::chrono::steady_clock::now();
  SPACE_TRY(MemoryImage image, MemoryImage::open(mem_raw, memory_bytes_));
  const auto chunk = std::make_unique_for_overwrite<std::byte[]>(window_chunk_pages * page_bytes);
  for (PageRun rest : unstaged_) {
    while (rest.count > 0) {
      const PageRun run{rest.first, std::min(rest.count, window_chunk_pages)};
      const std::span bytes(chunk.get(), run.count * page_bytes);
      SPACE_CHECK(read_run(vmm.mem, address_ + run.first * page_bytes, bytes));
      SPACE_CHECK(image.update(run, bytes));
      rest = {run.end(), rest.count - run.count};
    }
  }
  unstaged_.clear();
  add(image.stats(), start);
  return {};
}

Result<CaptureStats> MemoryCapture::write(int mem_raw) {
  if (!complete()) return fail(Code::conflict, "pages that found no room were not written");
  const auto start = std::chrono::steady_clock::now();
  SPACE_TRY(MemoryImage image, MemoryImage::open(mem_raw, memory_bytes_));
  std::span<const std::byte> pages = staged_;
  for (const PageRun& run : runs_) {
    SPACE_CHECK(image.update(run, pages.first(run.count * page_bytes)));
    pages = pages.subspan(run.count * page_bytes);
  }
  SPACE_CHECK(image.sync());
  add(image.stats(), start);
  return stats_;
}

void MemoryCapture::add(const ImageStats& image, std::chrono::steady_clock::time_point since) {
  stats_.dirty_pages += image.dirty_pages;
  stats_.zero_pages += image.zero_pages;
  stats_.written_bytes += image.written_bytes;
  stats_.write_us += micros_since(since);
}

}  // namespace space::vmm
