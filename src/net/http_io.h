// What both ends of an HTTP/1.1 connection share: buffered reading, the body being read, the body being
// written. Internal to net.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "net/http_chunks.h"
#include "net/http_parser.h"

namespace space::http {

// The bytes of a stream in order, those read ahead first. A second reader (peer_gone beside a body) waits for
// the first one's read instead of starting its own.
class Input {
 public:
  static constexpr std::size_t capacity_max = head_limit_bytes;

  explicit Input(Stream& stream) : stream_(stream) {}

  std::string_view pending() const { return {buffer_.get() + begin_, end_ - begin_}; }
  bool full() const { return end_ - begin_ == capacity_max; }
  bool over() const { return ended_ || failure_; }  // nothing more comes
  bool failed() const { return failure_.has_value(); }
  void consume(std::size_t n);
  Bytes take_pending();

  // More into pending(): how much, 0 at the end of the stream. Full: Code::exhausted.
  Task<Result<std::size_t>> fill();
  // Pending bytes, else straight from the stream; 0 at its end.
  Task<Result<std::size_t>> read(std::span<std::byte> into);
  // The place of the next head in pending(); nullopt when the stream is over before it began.
  Task<Result<std::optional<HeadScanner::Span>>> find_head();
  // Reads ahead until the stream is over.
  Task<void> wait_until_over();

 private:
  class Turn;
  Task<void> changed();
  void notify();
  void make_room();
  Task<Result<std::size_t>> read_stream(std::span<std::byte> into);

  Stream& stream_;
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool reading_ = false;
  bool filled_ = false;  // the last read took all the room: make more
  bool ended_ = false;
  std::optional<Error> failure_;
  std::optional<Event> changed_;  // made when somebody waits
};

// The body of the message being received.
class BodyReader final : public Body {
 public:
  explicit BodyReader(Input& input) : input_(input) {}
  void start(Framing framing, std::uint64_t length);
  // Read to its end: the next message follows.
  bool done() const override { return done_; }
  bool at_hand() const override { return !done_ && !input_.pending().empty(); }
  Task<Result<std::size_t>> read(std::span<std::byte> into) override;

 private:
  Task<Result<std::size_t>> read_chunked(std::span<std::byte> into);

  Input& input_;
  Framing framing_ = Framing::none;
  std::uint64_t left_ = 0;
  bool done_ = true;
  std::optional<ChunkDecoder> chunks_;
};

// The message being sent. Small pieces leave in one write together with what waits before them.
class MessageWriter {
 public:
  explicit MessageWriter(Stream& stream) : stream_(stream) {}

  // Where the head is composed; sent by flush, or with the first piece of the body.
  std::string& head() { return waiting_; }
  void start(Framing framing, std::uint64_t length);
  bool under_way() const { return under_way_; }

  Task<Result<void>> flush();
  Task<Result<void>> write(std::span<const std::byte> bytes);
  Task<Result<void>> end(std::span<const std::byte> last = {});  // a short `last` goes in the same write

 private:
  Task<Result<void>> write_plain(std::span<const std::byte> bytes);
  Task<Result<void>> write_chunks(std::span<const std::byte> bytes);

  Stream& stream_;
  std::string waiting_;
  Framing framing_ = Framing::none;
  std::uint64_t left_ = 0;
  bool under_way_ = false;
};

// `stream` with `bytes` in front of what is read from it.
StreamPtr with_prefix(StreamPtr stream, Bytes bytes);

}  // namespace space::http
