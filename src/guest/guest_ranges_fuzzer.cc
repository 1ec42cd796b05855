#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "guest/file_selection.h"
#include "guest/http_date.h"

// Lines of the input are the fields a client may ask with; the first byte is the size of the file. Whatever
// they say, a part lies within the file, and a date that was understood is written and read back alike.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr std::string_view names[] = {
      "Range",           "If-Range",          "If-Match",           "If-None-Match",
      "Accept-Encoding", "If-Modified-Since", "If-Unmodified-Since"};
  const std::uint64_t file_size = data[0];
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  space::http::RequestHead head{.method = "GET"};
  for (const std::string_view name : names) {
    const std::string_view value = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(value.size() + 1, rest.size()));
    if (!value.empty()) head.fields.add(name, value);
    const auto date = space::guest::parse_http_date(value);
    if (date && space::guest::parse_http_date(space::guest::to_http_date(*date)) != date) std::abort();
  }
  const space::guest::FileVersion file{.size = file_size, .etag = "\"x\"", .modified = 1'000'000'000};
  const auto selection = space::guest::select(head, file);
  const bool inside =
      selection.length > 0 && selection.first < file_size && selection.length <= file_size - selection.first;
  if (selection.status == 206 && (!inside || selection.gzip)) std::abort();
  return 0;
}
