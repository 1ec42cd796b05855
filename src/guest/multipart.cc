#include "guest/multipart.h"

#include <algorithm>
#include <cctype>

namespace space::guest {

namespace {

constexpr std::size_t headers_limit_bytes = 8 * 1024;

bool same_without_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The value after '=', quoted or a token; `rest` is left after it.
std::string take_value(std::string_view& rest) {
  std::string value;
  if (!rest.starts_with('"')) {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    value = trimmed(rest.substr(0, end));
    rest.remove_prefix(end);
    return value;
  }
  rest.remove_prefix(1);
  while (!rest.empty() && rest.front() != '"') {
    const bool escaped = rest.size() > 1 && rest[0] == '\\' && (rest[1] == '"' || rest[1] == '\\');
    value += rest[escaped ? 1 : 0];
    rest.remove_prefix(escaped ? 2 : 1);
  }
  rest.remove_prefix(std::min(rest.find(';'), rest.size()));
  return value;
}

}  // namespace

std::optional<std::string> field_parameter(std::string_view field, std::string_view name) {
  std::string_view rest = field.substr(std::min(field.find(';'), field.size()));
  while (!rest.empty()) {
    rest.remove_prefix(1);  // ';'
    const std::size_t equals = rest.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view key = trimmed(rest.substr(0, equals));
    rest.remove_prefix(equals + 1);
    std::string value = take_value(rest);
    if (same_without_case(key, name)) return value;
  }
  return std::nullopt;
}

std::optional<std::string> multipart_boundary(std::string_view content_type) {
  const std::string_view type =
      trimmed(content_type.substr(0, std::min(content_type.find(';'), content_type.size())));
  if (!same_without_case(type, "multipart/form-data")) return std::nullopt;
  auto boundary = field_parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > 70) return std::nullopt;
  return boundary;
}

// The first delimiter has no line end before it: giving the buffer one makes all of them alike.
MultipartReader::MultipartReader(std::string_view boundary)
    : delimiter_("\r\n--" + std::string(boundary)), buffer_("\r\n") {}

void MultipartReader::feed(std::span<const std::byte> bytes) {
  buffer_ += as_text(bytes);
}

Result<std::optional<MultipartReader::Event>> MultipartReader::next() {
  for (;;) {
    switch (state_) {
      case State::preamble: {
        if (take_content()) continue;  // dropped
        if (state_ == State::preamble) return std::optional<Event>();
        continue;
      }
      case State::delimiter_tail: {
        if (buffer_.size() < 2) return std::optional<Event>();
        const std::string_view tail = std::string_view(buffer_).substr(0, 2);
        if (tail != "--" && tail != "\r\n")
          return fail(Code::invalid_argument, "malformed multipart boundary");
        state_ = tail == "--" ? State::done : State::headers;
        // The line end stays: an empty header block is just it and one more.
        if (state_ == State::done) return std::optional(Event{.kind = Kind::end});
        continue;
      }
      case State::headers:
        return take_headers();
      case State::content: {
        auto data = take_content();
        if (data) return data;
        if (state_ == State::content) return std::optional<Event>();
        continue;
      }
      case State::part_end:
        state_ = State::delimiter_tail;
        return std::optional(Event{.kind = Kind::part_end});
      case State::done:
        buffer_.clear();
        return std::optional<Event>();
    }
  }
}

// Takes content up to the delimiter, or all that cannot be the start of one. At the delimiter: the next
// state.
std::optional<MultipartReader::Event> MultipartReader::take_content() {
  const std::size_t found = buffer_.find(delimiter_);
  if (found == 0) {
    buffer_.erase(0, delimiter_.size());
    state_ = state_ == State::preamble ? State::delimiter_tail : State::part_end;
    return std::nullopt;
  }
  const std::size_t certain = found != std::string::npos            ? found
                              : buffer_.size() >= delimiter_.size() ? buffer_.size() - delimiter_.size() + 1
                                                                    : 0;
  if (certain == 0) return std::nullopt;
  Event event{.kind = Kind::data, .data = buffer_.substr(0, certain)};
  buffer_.erase(0, certain);
  return event;
}

Result<std::optional<MultipartReader::Event>> MultipartReader::take_headers() {
  const std::size_t end = buffer_.find("\r\n\r\n");
  if (std::min(end, buffer_.size()) > headers_limit_bytes)
    return fail(Code::invalid_argument, "the header of a multipart part is too long");
  if (end == std::string::npos) return std::optional<Event>();
  Event event{.kind = Kind::part};
  std::string_view lines = std::string_view(buffer_).substr(0, end);
  while (!lines.empty()) {
    const std::size_t line_end = std::min(lines.find("\r\n"), lines.size());
    const std::string_view line = lines.substr(0, line_end);
    lines.remove_prefix(std::min(line_end + 2, lines.size()));
    const std::size_t colon = std::min(line.find(':'), line.size());
    if (!same_without_case(line.substr(0, colon), "content-disposition")) continue;
    const std::string_view value = line.substr(std::min(colon + 1, line.size()));
    event.name = field_parameter(value, "name").value_or("");
    event.filename = field_parameter(value, "filename").value_or("");
  }
  buffer_.erase(0, end + 4);
  state_ = State::content;
  return std::optional(std::move(event));
}

}  // namespace space::guest
