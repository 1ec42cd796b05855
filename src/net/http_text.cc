#include "net/http_text.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace space::http {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

bool is_token_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").contains(c);
}
bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_token_char);
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}
bool is_value(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return is_control(c) && c != '\t'; });
}

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

void append_number(std::string& out, std::uint64_t value, int base = 10) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, base).ptr;
  out.append(digits.data(), end);
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

void append_fields(std::string& out, const Fields& fields, bool with_connection) {
  for (const auto& [name, value] : fields.all()) {
    if (equal_without_case(name, "Content-Length") || equal_without_case(name, "Transfer-Encoding")) continue;
    if (!with_connection && equal_without_case(name, "Connection")) continue;
    append_field(out, name, value);
  }
}

void append_framing(std::string& out, std::optional<std::uint64_t> content_length, bool chunked) {
  if (chunked) {
    out.append("Transfer-Encoding: chunked\r\n");
  } else if (content_length) {
    out.append("Content-Length: ");
    append_number(out, *content_length);
    out.append("\r\n");
  }
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char l = lower(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

}  // namespace

bool is_method(std::string_view text) {
  return is_token(text);
}
bool is_target(std::string_view text) {
  return !text.empty() && std::ranges::none_of(text, [](char c) { return is_control(c) || c == ' '; });
}

bool is_connection_field(std::string_view name) {
  constexpr std::array names = std::to_array<std::string_view>(
      {"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"});
  return std::ranges::any_of(names, [&](auto known) { return equal_without_case(known, name); });
}

Result<void> check_fields(const Fields& fields) {
  for (const auto& [name, value] : fields.all()) {
    if (!is_token(name) || !is_value(value)) {
      return fail(Code::invalid_argument, "header field with characters that are not allowed");
    }
  }
  return {};
}

bool equal_without_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

Result<void> append_request_head(std::string& out, const RequestHead& head) {
  if (!is_method(head.method) || !is_target(head.target)) {
    return fail(Code::invalid_argument, "method or target with characters that are not allowed");
  }
  if (head.chunked && head.content_length) {
    return fail(Code::invalid_argument, "both Content-Length and chunked");
  }
  SPACE_CHECK(check_fields(head.fields));
  out.append(head.method).append(" ").append(head.target).append(" HTTP/1.1\r\n");
  append_fields(out, head.fields, true);
  append_framing(out, head.content_length, head.chunked);
  out.append("\r\n");
  return {};
}

Result<void> append_response_head(std::string& out, const ResponseHead& head, ResponseFraming framing) {
  if (head.status < 100 || head.status > 999) return fail(Code::invalid_argument, "status {}", head.status);
  SPACE_CHECK(check_fields(head.fields));
  out.append("HTTP/1.1 ");
  append_number(out, static_cast<std::uint64_t>(head.status));
  out.append(" ").append(reason_phrase(head.status)).append("\r\n");
  append_fields(out, head.fields, !framing.close);
  append_framing(out, framing.content_length, framing.chunked);
  if (framing.close) append_field(out, "Connection", "close");
  out.append("\r\n");
  return {};
}

void append_chunk_size(std::string& out, std::size_t size) {
  append_number(out, size, 16);
  out.append("\r\n");
}

void Fields::add(std::string_view name, std::string_view value) {
  fields_.emplace_back(name, value);
}

void Fields::set(std::string_view name, std::string_view value) {
  remove(name);
  add(name, value);
}

void Fields::remove(std::string_view name) {
  std::erase_if(fields_, [&](const auto& field) { return equal_without_case(field.first, name); });
}

std::optional<std::string_view> Fields::get(std::string_view name) const {
  for (const auto& [field, value] : fields_) {
    if (equal_without_case(field, name)) return value;
  }
  return std::nullopt;
}

std::size_t Fields::count(std::string_view name) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      fields_, [&](const auto& field) { return equal_without_case(field.first, name); }));
}

bool Fields::has_token(std::string_view name, std::string_view token) const {
  for (const auto& [field, value] : fields_) {
    if (!equal_without_case(field, name)) continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      if (equal_without_case(trim(rest.substr(0, comma)), token)) return true;
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return false;
}

std::string_view RequestHead::path() const {
  return std::string_view(target).substr(0, target.find('?'));
}

std::string_view RequestHead::query() const {
  const std::size_t mark = target.find('?');
  return mark == std::string::npos ? std::string_view() : std::string_view(target).substr(mark + 1);
}

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(plus_is_space && text[i] == '+' ? ' ' : text[i]);
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    const int high = hex_value(text[i + 1]);
    const int low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

std::string percent_encode(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const bool unreserved = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                            c == '-' || c == '.' || c == '_' || c == '~';
    if (unreserved) {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out.push_back('%');
    out.push_back(digits[byte >> 4]);
    out.push_back(digits[byte & 15]);
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> parse_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (pair.empty()) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    auto name = percent_decode(pair.substr(0, equals), true);
    auto value = percent_decode(pair.substr(std::min(equals + 1, pair.size())), true);
    if (name && value) pairs.emplace_back(*std::move(name), *std::move(value));
  }
  return pairs;
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  for (auto& [key, value] : parse_query(query)) {
    if (key == name) return std::move(value);
  }
  return std::nullopt;
}

namespace {

struct Reason {
  int status;
  std::string_view phrase;
};
constexpr Reason reasons[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {507, "Insufficient Storage"},
};

}  // namespace

std::string_view reason_phrase(int status) {
  for (const Reason& reason : reasons) {
    if (reason.status == status) return reason.phrase;
  }
  return "";
}

}  // namespace space::http
