// Log: JSON lines on standard error, one object a line:
//   {"ts":"2026-…Z","level":"info","process":"space-sandboxd","event":"sandbox
//   started","sandbox":"i…","ms":12}
// `event` is a fixed phrase that can be searched for; what varies goes into fields. Control characters
// of hostile text are escaped by the JSON encoding. Safe from any thread; never fails.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"

namespace space::log {

enum class Level : unsigned char { debug, info, warn, error };

class Field {
 public:
  Field(std::string_view key, std::string_view value) : key_(key), value_(value) {}
  Field(std::string_view key, const char* value) : key_(key), value_(std::string_view(value)) {}
  Field(std::string_view key, const std::string& value) : key_(key), value_(std::string_view(value)) {}
  Field(std::string_view key, bool value) : key_(key), value_(value) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Field(std::string_view key, T value) : key_(key), value_(static_cast<std::int64_t>(value)) {}
  Field(std::string_view key, double value) : key_(key), value_(value) {}
  // Points into `error`, which outlives the call.
  explicit Field(const Error& error) : key_("error"), value_(std::string_view(error.message)) {}

  std::string_view key() const { return key_; }
  const auto& value() const { return value_; }

 private:
  std::string_view key_;
  std::variant<std::string_view, std::int64_t, double, bool> value_;
};

// Once, at the start of main. `process` must outlive the process (a literal). SPACE_LOG=debug lowers the
// level.
void init(std::string_view process);
void write(Level level, std::string_view event, std::initializer_list<Field> fields = {});

inline void debug(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::debug, event, fields);
}
inline void info(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::info, event, fields);
}
inline void warn(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::warn, event, fields);
}
inline void error(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::error, event, fields);
}

}  // namespace space::log
