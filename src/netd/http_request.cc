#include "netd/http_request.h"

#include <algorithm>
#include <array>

#include "net/http_text.h"

namespace space::netd {
namespace {

constexpr std::size_t fields_max = 100;

std::unexpected<Error> malformed(std::string_view what) {
  return fail(Code::invalid_argument, "malformed request: {}", what);
}

struct RawField {
  std::string_view name;
  std::string_view value;  // with the blanks around it
};

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

bool named(const RawField& field, std::string_view name) {
  return http::equal_without_case(field.name, name);
}

// Blanks before the value are one space or none: of all others, some parser thinks differently.
Result<std::string_view> exact_value(const RawField& field) {
  std::string_view value = field.value;
  if (value.starts_with(' ')) value.remove_prefix(1);
  const bool blank = value.find_first_of(" \t") != std::string_view::npos;
  if (value.empty() || blank) return malformed("blanks in a field that frames or routes it");
  return value;
}

Result<void> check_request_line(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || line.find(' ', first + 1) != last)
    return malformed("its first line");
  const std::string_view version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return malformed("its version");
  return {};
}

Result<RawField> split_field(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !http::is_method(line.substr(0, colon)))
    return malformed("the name of a field");
  const RawField field{line.substr(0, colon), line.substr(colon + 1)};
  if (std::ranges::any_of(field.value, [](char c) { return is_control(c) && c != '\t'; }))
    return malformed("a control character in a field");
  return field;
}

// The fields that say where a request goes and where it ends, each at most once.
struct Routing {
  std::string_view host, length, coding;
  std::size_t fields = 0;

  Result<void> take(const RawField& field) {
    if (++fields > fields_max) return malformed("too many fields");
    std::string_view* slot = named(field, "Host")                ? &host
                             : named(field, "Content-Length")    ? &length
                             : named(field, "Transfer-Encoding") ? &coding
                                                                 : nullptr;
    if (slot == nullptr) return {};
    if (!slot->empty()) return malformed("a field twice that frames or routes it");
    SPACE_TRY(*slot, exact_value(field));
    return {};
  }
};

Result<Routing> read_lines(std::string_view head) {
  Routing routing;
  bool first = true;
  while (true) {
    const std::size_t end = head.find("\r\n");
    if (end == std::string_view::npos) return malformed("a line without an end");
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    if (line.empty()) break;
    if (std::exchange(first, false)) {
      SPACE_CHECK(check_request_line(line));
      continue;
    }
    SPACE_TRY(const RawField field, split_field(line));
    SPACE_CHECK(routing.take(field));
  }
  if (first || !head.empty()) return malformed("bytes behind its head");
  if (routing.host.empty()) return malformed("no Host");
  const bool digits = std::ranges::all_of(routing.length, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || routing.length.size() > 18) return malformed("its length");
  return routing;
}

// The authority of a target in absolute form; "" for the other forms.
Result<std::string_view> authority_of(std::string_view target) {
  if (target.starts_with('/') || target == "*") return std::string_view();
  constexpr std::string_view scheme = "http://";
  if (!http::equal_without_case(target.substr(0, scheme.size()), scheme)) return malformed("its target");
  target.remove_prefix(scheme.size());
  return target.substr(0, target.find_first_of("/?#"));
}

Result<void> check_same_host(std::string_view target, const HostPort& host) {
  SPACE_TRY(const std::string_view authority, authority_of(target));
  if (authority.empty()) return {};
  SPACE_TRY(const HostPort named_by_target, parse_authority(authority));
  constexpr std::uint16_t http_port = 80;
  const bool same = named_by_target.host.text() == host.host.text() &&
                    named_by_target.port.value_or(http_port) == host.port.value_or(http_port);
  if (!same) return malformed("its target names another host than its Host");
  return {};
}

std::string_view target_of(std::string_view head) {
  const std::size_t begin = head.find(' ') + 1;
  return head.substr(begin, head.find(' ', begin) - begin);
}

// "." and ".." also as "%2e": a rule for paths must be about the path that the server sees.
bool has_dot_segment(std::string_view path) {
  std::string plain;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool dot = http::equal_without_case(path.substr(i, 3), "%2e");
    plain.push_back(dot ? '.' : path[i] == '\\' ? '/' : path[i]);
    if (dot) i += 2;
  }
  plain.push_back('/');
  return plain.find("/./") != std::string::npos || plain.find("/../") != std::string::npos;
}

bool of_the_connection(std::string_view name) {
  constexpr std::array names = std::to_array<std::string_view>(
      {"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Content-Length", "Upgrade", "TE",
       "HTTP2-Settings", "Expect", "Host", "Trailer"});
  return std::ranges::any_of(names, [&](auto known) { return http::equal_without_case(known, name); });
}

}  // namespace

Result<GuestRequest> read_guest_request(std::string_view head) {
  SPACE_TRY(const Routing routing, read_lines(head));
  GuestRequest request;
  SPACE_TRY(request.host, parse_authority(routing.host));
  const std::string_view target = target_of(head);
  if (target.find('#') != std::string_view::npos) return malformed("its target");
  const bool connect = head.starts_with("CONNECT ");
  if (!connect) SPACE_CHECK(check_same_host(target, request.host));
  SPACE_TRY(request.parsed, http::parse_request_head(head));
  http::RequestHead& parsed = request.parsed.head;
  request.path = std::string(parsed.path());
  if (has_dot_segment(request.path)) return malformed("\".\" or \"..\" in its path");
  request.websocket = parsed.wants_upgrade() && parsed.fields.has_token("Upgrade", "websocket") &&
                      parsed.method == "GET" && !parsed.has_body() && request.parsed.http_1_1;
  request.http2 = parsed.fields.has_token("Upgrade", "h2c");
  return request;
}

http::RequestHead head_for_upstream(const GuestRequest& request) {
  const http::RequestHead& from = request.parsed.head;
  http::RequestHead head{.method = from.method,
                         .target = from.target,
                         .fields = {},
                         .content_length = from.content_length,
                         .chunked = from.chunked};
  const std::string name = request.host.host.text();
  head.fields.add("Host", request.host.port ? fmt::format("{}:{}", name, *request.host.port) : name);
  for (const auto& [field, value] : from.fields.all())
    if (!of_the_connection(field)) head.fields.add(field, value);
  if (request.websocket) {
    head.fields.add("Connection", "Upgrade");
    head.fields.add("Upgrade", "websocket");
  }
  return head;
}

http::Fields fields_for_guest(const http::Fields& fields, bool switching) {
  http::Fields kept;
  for (const auto& [field, value] : fields.all())
    if (!of_the_connection(field)) kept.add(field, value);
  if (switching) {
    kept.add("Connection", "Upgrade");
    kept.add("Upgrade", "websocket");
  }
  return kept;
}

}  // namespace space::netd
