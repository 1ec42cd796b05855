#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "guest/multipart.h"

namespace {

using Reader = space::guest::MultipartReader;

// All that a body says, in one text that does not depend on where its content was cut.
std::string read_all(std::span<const std::byte> body, std::size_t step) {
  Reader reader("B");
  std::string said;
  const std::size_t size = body.size();
  std::size_t content = 0;
  for (;;) {
    const auto event = reader.next();
    if (!event) return said + "[malformed]";
    if (!*event) {
      if (body.empty()) return said + "[cut]";
      const std::size_t count = std::min(step, body.size());
      reader.feed(body.first(count));
      body = body.subspan(count);
      continue;
    }
    content += (*event)->data.size();
    if (content > size) std::abort();
    switch ((*event)->kind) {
      case Reader::Kind::part:
        said += "[part " + (*event)->name + "," + (*event)->filename + "]";
        break;
      case Reader::Kind::data:
        said += (*event)->data;
        break;
      case Reader::Kind::part_end:
        said += "[end of part]";
        break;
      case Reader::Kind::end:
        return said + "[end]";
    }
  }
}

// Of a body that is cut short, how much content was certain depends on the pieces; of every other, nothing
// does.
bool complete(const std::string& said) {
  return said.ends_with("[end]");
}

}  // namespace

// The first byte chooses the size of the pieces the body arrives in; content never exceeds what was fed.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t step = data[0] % 64 + 1;
  const std::span<const std::byte> body(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const std::string whole = read_all(body, size);
  const std::string pieces = read_all(body, step);
  if (complete(whole) != complete(pieces) || (complete(whole) && whole != pieces)) std::abort();
  (void)space::guest::multipart_boundary(space::as_text(body));
  return 0;
}
