#include "guest/left_outputs.h"

#include <unistd.h>

#include <array>
#include <boost/asio/redirect_error.hpp>
#include <cerrno>

namespace space::guest {

namespace {

constexpr std::size_t chunk_bytes = 32 * 1024;
// Between two reads of output that is dropped: one who writes without end costs little.
constexpr Millis drop_pause{10};

}  // namespace

void LeftOutputs::take(Descriptor source) {
  sources_.push_back(std::move(source));
  spawn(executor_, "dropped output", drop(std::prev(sources_.end())));
}

void LeftOutputs::take(Fd source) {
  Descriptor descriptor(executor_);
  descriptor.assign(source.release());
  boost::system::error_code ignored;
  descriptor.native_non_blocking(true, ignored);
  take(std::move(descriptor));
}

std::vector<int> LeftOutputs::descriptors() {
  std::vector<int> result;
  for (Descriptor& source : sources_) result.push_back(source.native_handle());
  return result;
}

Task<void> LeftOutputs::drop(std::list<Descriptor>::iterator source) {
  static std::array<std::byte, chunk_bytes> dropped;
  for (;;) {
    boost::system::error_code error;
    co_await source->async_wait(Descriptor::wait_read,
                                boost::asio::redirect_error(boost::asio::use_awaitable, error));
    if (error) break;
    const ssize_t count = ::read(source->native_handle(), dropped.data(), dropped.size());
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) break;
    co_await sleep_for(drop_pause);
  }
  sources_.erase(source);
}

}  // namespace space::guest
