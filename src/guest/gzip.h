// gzip (RFC 1952) of streams in pieces of bounded size, over zlib. May be used from any one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "base/result.h"

namespace space::guest {

class Compressor {
 public:
  Compressor();
  ~Compressor();
  // The output so far for `bytes`, possibly none; with `last` all the rest.
  Bytes compress(std::span<const std::byte> bytes, bool last);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

// Of one or several members one after the other.
class Decompressor {
 public:
  Decompressor();
  ~Decompressor();

  struct Progress {
    std::size_t consumed = 0;
    std::size_t produced = 0;
  };
  // Takes all of `in`, or fills `out`, which bounds what a small input can grow to; then there may be more,
  // even with nothing left of `in`. invalid_argument: not gzip.
  Result<Progress> decompress(std::span<const std::byte> in, std::span<std::byte> out);
  // Between two members: a good place for the input to end.
  bool complete() const { return complete_; }

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
  bool complete_ = false;
};

}  // namespace space::guest
