// Envelopes read the same however the bytes are split, and read back as they were written.
#include <algorithm>
#include <cstdlib>

#include "net/connect.h"

namespace {

using namespace space;
using namespace space::connect;

// Everything read, re-encoded; `failed` when the stream was refused.
Bytes read_all(std::span<const std::byte> bytes, std::size_t step, bool& failed) {
  EnvelopeReader reader(64);
  Bytes out;
  while (true) {
    auto next = reader.next();
    if (!next) {
      failed = true;
      return out;
    }
    if (*next) {
      const Bytes again = envelope((*next)->flags, (*next)->payload);
      out.insert(out.end(), again.begin(), again.end());
      continue;
    }
    if (bytes.empty()) return out;
    const auto piece = bytes.first(std::min(step, bytes.size()));
    reader.feed(piece);
    bytes = bytes.subspan(piece.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  bool whole_failed = false;
  bool pieces_failed = false;
  const Bytes whole = read_all(bytes, size + 1, whole_failed);
  const Bytes pieces = read_all(bytes, 1, pieces_failed);
  if (whole != pieces || whole_failed != pieces_failed) std::abort();
  if (whole.size() > size || !std::ranges::equal(whole, bytes.first(whole.size()))) std::abort();
  return 0;
}
