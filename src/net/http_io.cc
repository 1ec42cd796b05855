#include "net/http_io.h"

#include <algorithm>
#include <cstring>

#include "net/http_text.h"

namespace space::http {
namespace {

constexpr std::size_t capacity_first = 8 * 1024;
constexpr std::size_t one_write_bytes = 64 * 1024;  // up to here copying is cheaper than a second system call

class PrefixedStream final : public Stream {
 public:
  PrefixedStream(StreamPtr stream, Bytes prefix) : stream_(std::move(stream)), prefix_(std::move(prefix)) {}

  Task<Result<std::size_t>> read(std::span<std::byte> into) override {
    if (offset_ == prefix_.size()) return stream_->read(into);
    return read_prefix(into);
  }
  Task<Result<void>> write(std::span<const std::byte> bytes) override { return stream_->write(bytes); }
  Task<Result<void>> finish() override { return stream_->finish(); }
  void reset() noexcept override {
    offset_ = prefix_.size();
    stream_->reset();
  }
  bool peer_is_loopback() const override { return stream_->peer_is_loopback(); }

 private:
  Task<Result<std::size_t>> read_prefix(std::span<std::byte> into) {
    const std::size_t n = std::min(into.size(), prefix_.size() - offset_);
    std::memcpy(into.data(), prefix_.data() + offset_, n);
    offset_ += n;
    co_return n;
  }

  StreamPtr stream_;
  Bytes prefix_;
  std::size_t offset_ = 0;
};

std::unexpected<Error> cut_short() {
  return fail(Code::unavailable, "the body ended before its end");
}

}  // namespace

StreamPtr with_prefix(StreamPtr stream, Bytes bytes) {
  if (bytes.empty()) return stream;
  return std::make_unique<PrefixedStream>(std::move(stream), std::move(bytes));
}

// The one read under way; given back also when its coroutine is cancelled.
class Input::Turn {
 public:
  explicit Turn(Input& input) : input_(input) { input_.reading_ = true; }
  ~Turn() {
    input_.reading_ = false;
    input_.notify();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Input& input_;
};

void Input::notify() {
  if (changed_) changed_->notify_all();
}

Task<void> Input::changed() {
  if (!changed_) changed_.emplace(co_await boost::asio::this_coro::executor);
  co_await changed_->wait();
}

void Input::consume(std::size_t n) {
  begin_ += n;
  if (begin_ == end_ && !reading_) begin_ = end_ = 0;
  notify();
}

Bytes Input::take_pending() {
  const auto bytes = as_bytes(pending());
  Bytes taken(bytes.begin(), bytes.end());
  begin_ = end_;
  return taken;
}

void Input::make_room() {
  const bool grow = capacity_ < capacity_max && begin_ == 0 && end_ == capacity_;
  if (grow || (begin_ == end_ && filled_ && capacity_ < capacity_max)) {
    const std::size_t larger = std::min(std::max(capacity_ * 2, capacity_first), capacity_max);
    auto grown = std::make_unique_for_overwrite<char[]>(larger);
    std::ranges::copy(pending(), grown.get());
    buffer_ = std::move(grown);
    capacity_ = larger;
  } else if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  }
  end_ -= begin_;
  begin_ = 0;
}

Task<Result<std::size_t>> Input::read_stream(std::span<std::byte> into) {
  auto n = co_await stream_.read(into);
  if (n && *n == 0) ended_ = true;
  if (!n) {
    // A read that was only cancelled says nothing about the stream.
    const auto state = co_await boost::asio::this_coro::cancellation_state;
    if (state.cancelled() == boost::asio::cancellation_type::none) failure_ = n.error();
  }
  co_return n;
}

Task<Result<std::size_t>> Input::fill() {
  const std::size_t before = end_ - begin_;
  while (reading_) {
    co_await changed();
    if (end_ - begin_ > before) co_return end_ - begin_ - before;
  }
  if (failure_) co_return std::unexpected(*failure_);
  if (ended_) co_return 0;
  if (full()) co_return fail(Code::exhausted, "more than {} bytes were sent ahead", capacity_max);
  const Turn turn(*this);
  make_room();
  const std::size_t room = capacity_ - end_;
  auto n = co_await read_stream(std::as_writable_bytes(std::span(buffer_.get() + end_, room)));
  filled_ = n && *n == room;
  if (n) end_ += *n;
  co_return n;
}

Task<Result<std::optional<HeadScanner::Span>>> Input::find_head() {
  HeadScanner scanner;
  while (true) {
    SPACE_CO_TRY(const auto span, scanner.scan(pending()));
    if (span) co_return span;
    const auto n = co_await fill();
    if (n && *n > 0) continue;
    if (scanner.blank(pending()) && over()) co_return std::nullopt;
    if (!n) co_return std::unexpected(n.error());
    co_return fail(Code::unavailable, "the connection ended within a head");
  }
}

Task<Result<std::size_t>> Input::read(std::span<std::byte> into) {
  while (reading_ && begin_ == end_) co_await changed();
  if (begin_ < end_) {
    const std::size_t n = std::min(into.size(), end_ - begin_);
    std::memcpy(into.data(), buffer_.get() + begin_, n);
    consume(n);
    co_return n;
  }
  if (failure_) co_return std::unexpected(*failure_);
  if (ended_) co_return 0;
  const Turn turn(*this);
  co_return co_await read_stream(into);
}

Task<void> Input::wait_until_over() {
  while (!over()) {
    if (full() || reading_) {
      co_await changed();
    } else {
      co_await fill();
    }
  }
}

void BodyReader::start(Framing framing, std::uint64_t length) {
  framing_ = framing;
  left_ = length;
  done_ = framing == Framing::none || (framing == Framing::length && length == 0);
  chunks_.reset();
  if (framing == Framing::chunked) chunks_.emplace();
}

Task<Result<std::size_t>> BodyReader::read(std::span<std::byte> into) {
  if (done_ || into.empty()) co_return 0;
  if (framing_ == Framing::chunked) co_return co_await read_chunked(into);
  if (framing_ == Framing::length) into = into.first(std::min<std::uint64_t>(into.size(), left_));
  SPACE_CO_TRY(const std::size_t n, co_await input_.read(into));
  if (framing_ == Framing::until_close) {
    done_ = n == 0;
  } else {
    if (n == 0) co_return cut_short();
    left_ -= n;
    done_ = left_ == 0;
  }
  co_return n;
}

Task<Result<std::size_t>> BodyReader::read_chunked(std::span<std::byte> into) {
  while (true) {
    SPACE_CO_TRY(const auto progress, chunks_->decode(input_.pending(), into));
    input_.consume(progress.consumed);
    done_ = chunks_->done();
    if (progress.produced > 0 || done_) co_return progress.produced;
    SPACE_CO_TRY(const std::size_t n, co_await input_.fill());
    if (n == 0) co_return cut_short();
  }
}

void MessageWriter::start(Framing framing, std::uint64_t length) {
  framing_ = framing;
  left_ = length;
  under_way_ = true;
}

Task<Result<void>> MessageWriter::flush() {
  if (waiting_.empty()) co_return Result<void>{};
  auto sent = co_await stream_.write(as_bytes(waiting_));
  waiting_.clear();
  co_return sent;
}

Task<Result<void>> MessageWriter::write(std::span<const std::byte> bytes) {
  if (!under_way_) co_return fail(Code::internal, "body without a head");
  if (framing_ == Framing::chunked) co_return co_await write_chunks(bytes);
  if (framing_ == Framing::none) bytes = {};
  if (framing_ == Framing::length) {
    if (bytes.size() > left_) co_return fail(Code::internal, "body is longer than announced");
    left_ -= bytes.size();
  }
  co_return co_await write_plain(bytes);
}

Task<Result<void>> MessageWriter::write_plain(std::span<const std::byte> bytes) {
  if (!waiting_.empty() && bytes.size() <= one_write_bytes) {
    waiting_.append(as_text(bytes));
    co_return co_await flush();
  }
  SPACE_CO_CHECK(co_await flush());
  if (bytes.empty()) co_return Result<void>{};
  co_return co_await stream_.write(bytes);
}

Task<Result<void>> MessageWriter::write_chunks(std::span<const std::byte> bytes) {
  if (bytes.empty()) co_return co_await flush();  // a chunk of no bytes would end the body
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), one_write_bytes));
    bytes = bytes.subspan(piece.size());
    append_chunk_size(waiting_, piece.size());
    waiting_.append(as_text(piece)).append("\r\n");
    SPACE_CO_CHECK(co_await flush());
  }
  co_return Result<void>{};
}

Task<Result<void>> MessageWriter::end(std::span<const std::byte> last) {
  if (!under_way_) co_return fail(Code::internal, "end without a head");
  if (framing_ == Framing::chunked && !last.empty() && last.size() <= one_write_bytes) {
    append_chunk_size(waiting_, last.size());
    waiting_.append(as_text(last)).append("\r\n");
  } else if (!last.empty()) {
    SPACE_CO_CHECK(co_await write(last));
  }
  if (framing_ == Framing::length && left_ > 0)
    co_return fail(Code::internal, "body is shorter than announced");
  if (framing_ == Framing::chunked) waiting_.append("0\r\n\r\n");
  under_way_ = false;
  co_return co_await flush();
}

Task<Result<std::string>> read_all(Body& body, std::size_t limit_bytes) {
  constexpr std::size_t step_min = 4 * 1024;
  std::string text;
  while (true) {
    const std::size_t size = text.size();
    const std::size_t step = std::max(step_min, size);
    text.resize(size + (limit_bytes - size < step ? limit_bytes - size + 1 : step));
    SPACE_CO_TRY(
        const std::size_t n,
        co_await body.read(std::as_writable_bytes(std::span(text.data() + size, text.size() - size))));
    text.resize(size + n);
    if (n == 0) co_return text;
    if (text.size() > limit_bytes)
      co_return fail(Code::exhausted, "body is larger than {} bytes", limit_bytes);
  }
}

}  // namespace space::http
