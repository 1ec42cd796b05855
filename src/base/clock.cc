#include "base/clock.h"

#include <fmt/core.h>

namespace space {

namespace {
class SystemClock final : public Clock {
 public:
  Monotonic monotonic() const override { return std::chrono::steady_clock::now(); }
  Wall wall() const override {
    return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  }
};
}  // namespace

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

std::string to_rfc3339(Wall time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time_of_day(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time_of_day.hours().count(), time_of_day.minutes().count(),
                     time_of_day.seconds().count(), time_of_day.subseconds().count());
}

namespace {

// Reads a text from left to right; one failure makes all later reads fail.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  int digits(std::size_t count) {
    int value = 0;
    if (text_.size() < count) ok_ = false;
    for (std::size_t i = 0; ok_ && i < count; ++i) {
      const char c = text_[i];
      ok_ = c >= '0' && c <= '9';
      value = value * 10 + (c - '0');
    }
    if (ok_) text_.remove_prefix(count);
    return value;
  }
  bool take(std::string_view any_of) {
    if (!ok_ || text_.empty() || !any_of.contains(text_.front())) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(std::string_view any_of) { ok_ = take(any_of); }
  char peek() const { return text_.empty() ? '\0' : text_.front(); }
  bool at_digit() const { return peek() >= '0' && peek() <= '9'; }
  bool done() const { return ok_ && text_.empty(); }

 private:
  std::string_view text_;
  bool ok_ = true;
};

int read_milliseconds(Reader& reader) {
  int value = 0;
  int scale = 100;
  do {
    value += scale * reader.digits(1);
    scale /= 10;
  } while (reader.at_digit());
  return value;
}

std::chrono::minutes read_offset(Reader& reader) {
  if (reader.take("Zz")) return {};
  const int sign = reader.peek() == '-' ? -1 : 1;
  reader.expect("+-");
  const int hours = reader.digits(2);
  reader.expect(":");
  return std::chrono::minutes(sign * (hours * 60 + reader.digits(2)));
}

}  // namespace

std::optional<Wall> parse_rfc3339(std::string_view text) {
  Reader reader(text);
  const int year = reader.digits(4);
  reader.expect("-");
  const int month = reader.digits(2);
  reader.expect("-");
  const int day = reader.digits(2);
  reader.expect("Tt ");
  const int hour = reader.digits(2);
  reader.expect(":");
  const int minute = reader.digits(2);
  reader.expect(":");
  const int second = reader.digits(2);
  const int ms = reader.take(".") ? read_milliseconds(reader) : 0;
  const std::chrono::minutes offset = read_offset(reader);
  const std::chrono::year_month_day date(std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  if (!reader.done() || !date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second) + Millis(ms) - offset;
}

}  // namespace space
