// Bytes of either side of the channel before HTTP/2, in pieces of every size. Nothing but a message that
// encodes back to itself may come out, and nothing may pile up. The same bytes as frames of a session.
#include <cstdlib>

#include "net/channel.h"
#include "net/frame_scan.h"

namespace {

using namespace space;

template <class Message>
void scan(std::span<const std::byte> bytes, std::size_t piece) {
  constexpr std::size_t stale_limit = 4096;
  channel::Scanner<Message> scanner(stale_limit);
  while (!bytes.empty()) {
    const auto now = bytes.first(std::min(piece, bytes.size()));
    bytes = bytes.subspan(now.size());
    auto found = scanner.feed(now);
    for (; found && *found; found = scanner.feed({})) {
      channel::Scanner<Message> again;
      const auto same = again.feed(encode(**found));
      if (!same || *same != *found) std::abort();
    }
    if (!found) return;
  }
  if (scanner.take_rest().size() >= encode(Message{}).size()) std::abort();
}

// Where a session ends does not depend on how its bytes are cut.
void scan_frames(std::span<const std::byte> bytes, std::size_t piece) {
  FrameScan whole, pieces;
  const std::size_t taken = whole.take(bytes);
  std::size_t in_pieces = 0;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(piece, bytes.size())))
    in_pieces += pieces.take(bytes.first(std::min(piece, bytes.size())));
  if (in_pieces != taken || pieces.ended() != whole.ended()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const std::size_t piece = data[0] + std::size_t{1};
  scan<channel::Sync>(bytes, piece);
  scan<channel::SyncAck>(bytes, piece);
  scan_frames(bytes, piece);
  return 0;
}
