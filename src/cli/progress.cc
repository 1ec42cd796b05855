#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace space::cli {

namespace {

constexpr Millis redraw_after{100};
constexpr std::string_view clear_line = "\r\x1b[K";

std::string duration_text(std::uint64_t seconds) {
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 3600) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  return fmt::format("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
}

}  // namespace

std::string byte_text(std::uint64_t bytes) {
  constexpr std::array units{"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (value /= 1024; value >= 1024 && unit + 1 < units.size(); value /= 1024) ++unit;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string progress_line(const ProgressState& state) {
  const std::uint64_t total = std::max(state.total_bytes, state.done_bytes);
  const std::uint64_t percent = total == 0 ? 100 : state.done_bytes * 100 / total;
  const std::uint64_t moved = state.done_bytes - std::min(state.kept_bytes, state.done_bytes);
  const auto milliseconds = static_cast<std::uint64_t>(std::max<Millis::rep>(state.elapsed.count(), 1));
  const std::uint64_t rate = moved * 1000 / milliseconds;
  std::string line = fmt::format("{:3}%  {} / {}  {}/s", percent, byte_text(state.done_bytes),
                                 byte_text(total), byte_text(rate));
  if (rate > 0) line += fmt::format("  {} left", duration_text((total - state.done_bytes) / rate));
  if (state.total_files > 1) line += fmt::format("  [{}/{} files]", state.done_files, state.total_files);
  return line;
}

Progress::Progress(bool visible)
    : visible_(visible), started_(system_clock().monotonic()), drawn_(started_ - redraw_after) {}

Progress::~Progress() {
  if (visible_) fmt::print(stderr, "{}", clear_line);
}

void Progress::expect(std::uint64_t bytes, std::size_t files) {
  state_.total_bytes += bytes;
  state_.total_files += files;
  draw();
}

void Progress::keep(std::uint64_t bytes) {
  state_.kept_bytes += bytes;
  advance(bytes);
}

void Progress::advance(std::uint64_t bytes) {
  state_.done_bytes += bytes;
  draw();
}

void Progress::file_done() {
  ++state_.done_files;
  draw();
}

void Progress::draw() {
  const Monotonic now = system_clock().monotonic();
  state_.elapsed = std::chrono::duration_cast<Millis>(now - started_);
  if (!visible_ || now - drawn_ < redraw_after) return;
  drawn_ = now;
  fmt::print(stderr, "{}{}", clear_line, progress_line(state_));
  std::fflush(stderr);
}

}  // namespace space::cli
