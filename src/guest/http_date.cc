#include "guest/http_date.h"

#include <fmt/core.h>

#include <array>
#include <ctime>

namespace space::guest {

std::string to_http_date(std::int64_t seconds) {
  struct tm parts{};
  const time_t moment = seconds;
  ::gmtime_r(&moment, &parts);
  static constexpr std::array<std::string_view, 7> days = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array<std::string_view, 12> months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                              "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
                     days[static_cast<std::size_t>(parts.tm_wday)], parts.tm_mday,
                     months[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900, parts.tm_hour,
                     parts.tm_min, parts.tm_sec);
}

std::optional<std::int64_t> parse_http_date(std::string_view text) {
  constexpr std::size_t longest = 40;
  if (text.size() > longest) return std::nullopt;
  const std::string copy(text);
  for (const char* form :
       {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"}) {
    struct tm parts{};
    const char* end = ::strptime(copy.c_str(), form, &parts);
    if (end == copy.c_str() + copy.size()) return ::timegm(&parts);
  }
  return std::nullopt;
}

}  // namespace space::guest
