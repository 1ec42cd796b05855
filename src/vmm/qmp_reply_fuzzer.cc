// Whatever a QEMU sends, in pieces: the reader neither crashes nor loses track of a line.
#include <algorithm>
#include <cstdlib>

#include "vmm/qmp_message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] % 64 + 1u;
  const auto input = std::as_bytes(std::span(data + 1, size - 1));

  space::vmm::QmpReader whole;
  space::vmm::QmpReader pieces;
  whole.feed(input);
  std::size_t fed = 0;
  while (true) {
    const auto expected = whole.next();
    auto got = pieces.next();
    while (got && !*got && fed < input.size()) {
      const auto next = input.subspan(fed, std::min(piece, input.size() - fed));
      pieces.feed(next);
      fed += next.size();
      got = pieces.next();
    }
    if (expected.has_value() != got.has_value()) std::abort();
    if (!expected || !*expected) break;
    if ((*expected)->index() != (*got)->index()) std::abort();
  }
  return 0;
}
