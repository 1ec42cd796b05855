// Resumable reader of multipart/form-data (RFC 7578). Pure; fuzzed. Holds at most one part's header block
// (8 KiB) plus what was fed and not taken.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace space::guest {

class MultipartReader {
 public:
  enum class Kind : unsigned char { part, data, part_end, end };
  struct Event {
    Kind kind = Kind::end;
    std::string name;      // of a part: form field name
    std::string filename;  // of a part: as sent, slashes kept; empty if absent
    std::string data;      // some of the part's content
  };

  explicit MultipartReader(std::string_view boundary);
  void feed(std::span<const std::byte> bytes);
  // nullopt: needs more bytes. After `end` whatever follows is ignored.
  Result<std::optional<Event>> next();

 private:
  enum class State : unsigned char { preamble, delimiter_tail, headers, content, part_end, done };
  std::optional<Event> take_content();
  Result<std::optional<Event>> take_headers();

  State state_ = State::preamble;
  std::string delimiter_;  // "\r\n--boundary"
  std::string buffer_;
};

// The boundary parameter of a Content-Type field; nullopt if it is not multipart/form-data with a valid one.
std::optional<std::string> multipart_boundary(std::string_view content_type);
// The value of a parameter of a field such as `form-data; name="file"; filename="/a b"`.
std::optional<std::string> field_parameter(std::string_view field, std::string_view name);

}  // namespace space::guest
