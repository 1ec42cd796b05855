// Leases: by which a program of the sandbox says that the sandbox is in use although nothing shows. Held in
// memory; each ends by itself. Pure; bounded, for any program may ask.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace space::guest {

class Leases {
 public:
  static constexpr std::size_t count_max = 64;
  static constexpr std::size_t name_bytes_max = 64;
  static constexpr std::chrono::seconds time_max{86'400};

  // Takes the lease, or moves its end. invalid_argument: the name is not 1 to 64 of [A-Za-z0-9._-], or the
  // time is not 1 s to a day; exhausted: count_max others are held.
  Result<void> put(std::string_view name, std::chrono::seconds time, Monotonic now);
  // As another daemon held it; what is no lease is dropped.
  void take_over(std::string_view name, Monotonic end);
  // Also one that is not held.
  void remove(std::string_view name);
  // Those held now, with their ends.
  const std::map<std::string, Monotonic, std::less<>>& held(Monotonic now);

 private:
  std::map<std::string, Monotonic, std::less<>> ends_;
};

}  // namespace space::guest
