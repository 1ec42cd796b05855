// Secret<T>: a value that must not reach a log, an error or a format string by accident.
// It cannot be formatted, streamed, compared or copied; `reveal` is the one, greppable way to it.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

namespace space {

template <class T>
class Secret {
 public:
  Secret() = default;
  explicit Secret(T value) : value_(std::move(value)) {}
  Secret(Secret&&) noexcept = default;
  Secret& operator=(Secret&&) noexcept = default;
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  ~Secret() { wipe(); }

  const T& reveal() const { return value_; }
  Secret clone() const { return Secret(T(value_)); }

 private:
  void wipe() {
    if constexpr (requires {
                    value_.data();
                    value_.size();
                  }) {
      volatile auto* p = value_.data();
      for (std::size_t i = 0; i < value_.size(); ++i) p[i] = {};
    }
  }
  T value_{};
};

using SecretText = Secret<std::string>;

}  // namespace space

template <class T>
struct fmt::formatter<space::Secret<T>> {
  formatter() = delete;  // formatting a secret does not compile
};
