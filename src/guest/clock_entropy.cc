#include "guest/clock_entropy.h"

#include <fcntl.h>
#include <linux/random.h>
#include <sys/ioctl.h>
#include <sys/timex.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/fd.h"

namespace space::guest {

Result<std::int64_t> set_wall_clock(std::int64_t wall_clock_us) {
  if (wall_clock_us < 0) return fail(Code::invalid_argument, "the wall clock cannot be before 1970");
  timespec before{};
  ::clock_gettime(CLOCK_REALTIME, &before);
  const timespec wanted{.tv_sec = wall_clock_us / 1'000'000, .tv_nsec = wall_clock_us % 1'000'000 * 1000};
  if (::clock_settime(CLOCK_REALTIME, &wanted) != 0) return fail_errno(errno, "set the clock");
  return wall_clock_us - (before.tv_sec * 1'000'000 + before.tv_nsec / 1000);
}

Result<void> add_entropy(std::span<const std::byte> entropy) {
  constexpr std::size_t limit = 512;
  if (entropy.empty() || entropy.size() > limit)
    return fail(Code::invalid_argument, "between 1 and 512 bytes of entropy");
  // Nothing but zeros means none: a test's host shows with it what a restore without entropy would be.
  if (std::ranges::all_of(entropy, [](std::byte byte) { return byte == std::byte{0}; })) return {};
  SPACE_TRY(const Fd random, open_fd("/dev/urandom", O_RDWR | O_CLOEXEC));
  alignas(rand_pool_info) std::array<std::byte, sizeof(rand_pool_info) + limit> storage{};
  auto* const pool = reinterpret_cast<rand_pool_info*>(storage.data());
  pool->entropy_count = static_cast<int>(entropy.size() * 8);
  pool->buf_size = static_cast<int>(entropy.size());
  std::memcpy(storage.data() + sizeof(rand_pool_info), entropy.data(), entropy.size());
  if (::ioctl(random.get(), RNDADDENTROPY, pool) != 0) return fail_errno(errno, "add entropy");
  if (::ioctl(random.get(), RNDRESEEDCRNG) != 0) return fail_errno(errno, "reseed the kernel's generator");
  return {};
}

}  // namespace space::guest
