#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>

#include "net/stream.h"

namespace space {
namespace {

// One direction: a ring of bytes between a writer and a reader.
struct Pipe {
  Pipe(const Executor& executor, std::size_t capacity)
      : bytes(std::make_unique_for_overwrite<std::byte[]>(capacity)), size(capacity), changed(executor) {}

  // The longest contiguous piece; call again for what wraps around.
  std::size_t put(std::span<const std::byte> from) {
    const std::size_t at = (begin + used) % size;
    const std::size_t n = std::min({from.size(), size - used, size - at});
    std::memcpy(bytes.get() + at, from.data(), n);
    used += n;
    return n;
  }
  std::size_t take(std::span<std::byte> into) {
    const std::size_t n = std::min({into.size(), used, size - begin});
    std::memcpy(into.data(), bytes.get() + begin, n);
    begin = (begin + n) % size;
    used -= n;
    return n;
  }

  std::unique_ptr<std::byte[]> bytes;
  std::size_t size;
  std::size_t begin = 0;
  std::size_t used = 0;
  std::deque<Fd> descriptors;  // not taken yet
  bool finished = false;
  Event changed;
};

struct Shared {
  Shared(const Executor& executor, std::size_t capacity)
      : pipes{Pipe(executor, capacity), Pipe(executor, capacity)} {}

  void reset() {
    aborted = true;
    for (Pipe& pipe : pipes) pipe.changed.notify_all();
  }

  Pipe pipes[2];
  bool aborted = false;
};

class PairEnd final : public Stream {
 public:
  PairEnd(std::shared_ptr<Shared> shared, int in, int out)
      : shared_(std::move(shared)), in_(shared_->pipes[in]), out_(shared_->pipes[out]) {}
  ~PairEnd() override {
    if (!out_.finished || !ended_) reset();
  }

  Task<Result<std::size_t>> read(std::span<std::byte> into) override {
    const auto keep = shared_;
    while (!keep->aborted && in_.used == 0 && !in_.finished) co_await in_.changed.wait();
    if (keep->aborted) co_return aborted();
    if (in_.used == 0) {
      ended_ = true;
      co_return 0;
    }
    const std::size_t n = in_.take(into);
    in_.changed.notify_all();
    co_return n;
  }

  Task<Result<void>> write(std::span<const std::byte> bytes) override {
    const auto keep = shared_;
    while (!bytes.empty()) {
      while (!keep->aborted && out_.used == out_.size) co_await out_.changed.wait();
      if (keep->aborted || out_.finished) co_return aborted();
      bytes = bytes.subspan(out_.put(bytes));
      out_.changed.notify_all();
    }
    co_return Result<void>{};
  }

  Task<Result<void>> write_with(std::span<const std::byte> bytes, int descriptor) override {
    Fd copy(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    if (!copy) co_return fail_errno(errno, "pass a descriptor");
    out_.descriptors.push_back(std::move(copy));
    co_return co_await write(bytes);
  }
  Fd take_descriptor() override {
    if (in_.descriptors.empty()) return {};
    Fd oldest = std::move(in_.descriptors.front());
    in_.descriptors.pop_front();
    return oldest;
  }

  Task<Result<void>> finish() override {
    if (shared_->aborted) co_return aborted();
    out_.finished = true;
    out_.changed.notify_all();
    co_return Result<void>{};
  }

  void reset() noexcept override { shared_->reset(); }

 private:
  static std::unexpected<Error> aborted() { return fail(Code::unavailable, "stream was reset"); }

  std::shared_ptr<Shared> shared_;
  Pipe& in_;
  Pipe& out_;
  bool ended_ = false;  // the peer's end was read
};

}  // namespace

std::pair<StreamPtr, StreamPtr> make_stream_pair(const Executor& executor, std::size_t buffer_bytes) {
  auto shared = std::make_shared<Shared>(executor, buffer_bytes);
  return {std::make_unique<PairEnd>(shared, 0, 1), std::make_unique<PairEnd>(shared, 1, 0)};
}

}  // namespace space
