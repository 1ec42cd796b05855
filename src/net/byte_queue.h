// ByteQueue: bytes put in at the end and taken out at the front, in one block of memory.
#pragma once

#include <cstring>

#include "base/bytes.h"

namespace space {

class ByteQueue {
 public:
  bool empty() const { return head_ == bytes_.size(); }
  std::size_t size() const { return bytes_.size() - head_; }
  std::span<const std::byte> front() const { return std::span(bytes_).subspan(head_); }

  void append(std::span<const std::byte> more) {
    // Moving the rest to the front only when it is the smaller part keeps the cost of a byte constant.
    if (head_ >= bytes_.size() - head_) {
      bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    bytes_.insert(bytes_.end(), more.begin(), more.end());
  }
  // Copies at most `into.size()` bytes out; how many.
  std::size_t take(std::span<std::byte> into) {
    const std::size_t n = std::min(into.size(), size());
    if (n > 0) std::memcpy(into.data(), bytes_.data() + head_, n);
    head_ += n;
    return n;
  }
  void clear() {
    bytes_ = {};
    head_ = 0;
  }

 private:
  Bytes bytes_;
  std::size_t head_ = 0;
};

}  // namespace space
