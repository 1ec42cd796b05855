#include "tests/jail/hostile/wire.h"

#include <poll.h>
#include <unistd.h>

namespace space::hostile {

std::string Wire::read(int limit_ms) {
  pollfd state{.fd = port_.get(), .events = POLLIN, .revents = 0};
  if (::poll(&state, 1, limit_ms) <= 0) return {};
  if ((state.revents & POLLHUP) != 0) ::usleep(1'000);  // no host: the port polls as readable for ever
  std::string bytes(65'536, '\0');
  const ssize_t count = ::read(port_.get(), bytes.data(), bytes.size());
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return bytes;
}

bool Wire::write(std::string_view bytes, Until until, bool reads) {
  while (!bytes.empty()) {
    if (std::chrono::steady_clock::now() >= until || !host_is_there()) return false;
    if (reads) read(0);
    const ssize_t count = ::write(port_.get(), bytes.data(), bytes.size());
    if (count > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
      written_ += static_cast<unsigned long long>(count);
      continue;
    }
    pollfd state{
        .fd = port_.get(), .events = static_cast<short>(POLLOUT | (reads ? POLLIN : 0)), .revents = 0};
    ::poll(&state, 1, 50);
  }
  return true;
}

bool Wire::host_is_there() const {
  pollfd state{.fd = port_.get(), .events = POLLOUT, .revents = 0};
  return ::poll(&state, 1, 0) >= 0 && (state.revents & POLLHUP) == 0;
}

}  // namespace space::hostile
