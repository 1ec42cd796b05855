// A whole number in a request's query, within bounds. Pure.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace space::control {

// invalid_argument names the parameter and its bounds.
inline Result<std::int64_t> query_number(std::string_view name, std::string_view text, std::int64_t min,
                                         std::int64_t max) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max)
    return fail(Code::invalid_argument, "'{}' must be between {} and {}", name, min, max);
  return value;
}

}  // namespace space::control
