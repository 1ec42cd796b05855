#include "guest/gzip.h"

#include <zlib.h>

#include <cstdlib>

namespace space::guest {

namespace {

constexpr int gzip_window = 15 + 16;  // the largest, in gzip's frame
constexpr int fastest = 1;
constexpr int default_memory = 8;

Bytef* mutable_bytes(const std::byte* bytes) {
  return const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes));  // zlib only reads what comes in
}

}  // namespace

struct Compressor::Stream {
  Stream() {
    if (::deflateInit2(&z, fastest, Z_DEFLATED, gzip_window, default_memory, Z_DEFAULT_STRATEGY) != Z_OK)
      std::abort();  // out of memory
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { ::deflateEnd(&z); }
  z_stream z{};
};

Compressor::Compressor() : stream_(std::make_unique<Stream>()) {}
Compressor::~Compressor() = default;

Bytes Compressor::compress(std::span<const std::byte> bytes, bool last) {
  constexpr std::size_t step = 64 * 1024;
  z_stream& z = stream_->z;
  z.next_in = mutable_bytes(bytes.data());
  z.avail_in = static_cast<uInt>(bytes.size());
  Bytes out;
  do {
    const std::size_t size = out.size();
    out.resize(size + step);
    z.next_out = reinterpret_cast<Bytef*>(out.data() + size);
    z.avail_out = step;
    (void)::deflate(&z, last ? Z_FINISH : Z_NO_FLUSH);
    out.resize(out.size() - z.avail_out);
  } while (z.avail_out == 0);
  return out;
}

struct Decompressor::Stream {
  Stream() {
    if (::inflateInit2(&z, gzip_window) != Z_OK) std::abort();  // out of memory
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { ::inflateEnd(&z); }
  z_stream z{};
};

Decompressor::Decompressor() : stream_(std::make_unique<Stream>()) {}
Decompressor::~Decompressor() = default;

Result<Decompressor::Progress> Decompressor::decompress(std::span<const std::byte> in,
                                                        std::span<std::byte> out) {
  z_stream& z = stream_->z;
  z.next_in = mutable_bytes(in.data());
  z.avail_in = static_cast<uInt>(in.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  while (z.avail_out > 0) {
    if (complete_ && z.avail_in == 0) break;
    if (complete_ && ::inflateReset(&z) != Z_OK) return fail(Code::internal, "gzip: cannot start over");
    const int status = ::inflate(&z, Z_NO_FLUSH);
    complete_ = status == Z_STREAM_END;
    if (status == Z_BUF_ERROR) break;  // all of `in` is taken
    if (status != Z_OK && status != Z_STREAM_END)
      return fail(Code::invalid_argument, "the body is not valid gzip");
  }
  return Progress{in.size() - z.avail_in, out.size() - z.avail_out};
}

}  // namespace space::guest
