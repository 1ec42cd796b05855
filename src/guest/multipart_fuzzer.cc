#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "guest/multipart.h"

// The first byte chooses the size of the pieces the body arrives in; content never exceeds what was fed.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t step = data[0] % 64 + 1;
  std::span<const std::byte> body(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  space::guest::MultipartReader reader("B");
  std::size_t content = 0;
  for (;;) {
    const auto event = reader.next();
    if (!event) return 0;
    if (*event) {
      content += (*event)->data.size();
      if (content > size) std::abort();
      if ((*event)->kind == space::guest::MultipartReader::Kind::end) return 0;
      continue;
    }
    if (body.empty()) return 0;
    const std::size_t count = std::min(step, body.size());
    reader.feed(body.first(count));
    body = body.subspan(count);
  }
}
