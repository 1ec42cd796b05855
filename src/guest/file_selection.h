// What of a file a GET is answered with: all of it or a range, plain or compressed, or only that it has not
// changed (RFC 9110 sections 8.8, 12.5.3, 13 and 14). Pure; fuzzed.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/http.h"

namespace space::guest {

struct FileVersion {
  std::optional<std::uint64_t> size;     // bytes; nullopt: known once it was read to its end
  std::string etag;                      // with its quotes; "" = none
  std::optional<std::int64_t> modified;  // seconds since 1970
};

struct Selection {
  int status = 200;  // 200, 206, 304, 406, 412 or 416
  bool gzip = false;
  std::uint64_t first = 0;   // of 206
  std::uint64_t length = 0;  // of 206
};

// Of GET and HEAD. A range or a condition is answered from the plain file unless the client refuses that.
// Several ranges that could be served are answered with the whole file.
Selection select(const http::RequestHead& head, const FileVersion& file);

// From the moment of its last change, its size and number; weak while a further change could get the same
// moment.
std::string etag_of(const struct stat& status, timespec now);

enum class Coding : unsigned char { identity, gzip, gzip_only, none };
// `field`: Accept-Encoding. A client that lists what it can decode is not asking for it: compressing is far
// slower than the way to the client. gzip is chosen when it is weighed above identity, or named alone;
// gzip_only when the plain file is refused, none when both are.
Coding choose_coding(std::optional<std::string_view> field);

// The one part of the file that `field` (Range) asks for. `nothing`: no part of it exists; `whole`: the field
// is to be ignored.
struct RangeChoice {
  enum class Kind : unsigned char { whole, part, nothing } kind = Kind::whole;
  std::uint64_t first = 0;
  std::uint64_t length = 0;
};
RangeChoice choose_range(std::string_view field, std::uint64_t size);

}  // namespace space::guest
