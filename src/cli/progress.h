// Progress of a transfer: one line on a terminal, drawn again and again; nothing elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace space::cli {

struct ProgressState {
  std::uint64_t total_bytes = 0;  // what is known of it
  std::uint64_t done_bytes = 0;
  std::uint64_t kept_bytes = 0;  // of those done: were there before this run
  std::size_t total_files = 0;
  std::size_t done_files = 0;
  Millis elapsed{0};
};

// Pure: "  42%  12.3 MiB / 29.0 MiB  4.1 MiB/s  4s left  [3/9 files]".
std::string progress_line(const ProgressState& state);
std::string byte_text(std::uint64_t bytes);  // "12.3 MiB"

class Progress {
 public:
  explicit Progress(bool visible);
  ~Progress();  // leaves the line clean
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void expect(std::uint64_t bytes, std::size_t files);
  void keep(std::uint64_t bytes);  // was there already
  void advance(std::uint64_t bytes);
  void file_done();
  const ProgressState& state() const { return state_; }

 private:
  void draw();

  bool visible_;
  Monotonic started_;
  Monotonic drawn_;
  ProgressState state_;
};

}  // namespace space::cli
