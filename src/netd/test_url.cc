#include "netd/test_url.h"

#include "net/http_text.h"

namespace space::netd {
namespace {

constexpr std::uint16_t http_port = 80;
constexpr std::uint16_t https_port = 443;

Result<TestQuestion> question_of(HostPort where, std::uint16_t default_port, EgressProtocol protocol) {
  TestQuestion question{std::move(where.host), where.port.value_or(default_port), protocol, {}};
  return question;
}

Result<TestQuestion> of_url(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) {
    SPACE_TRY(HostPort where, parse_authority(url));
    return question_of(std::move(where), https_port, EgressProtocol::any);
  }
  const std::string_view name = url.substr(0, scheme);
  const std::string_view rest = url.substr(scheme + 3);
  const std::size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  SPACE_TRY(HostPort where, parse_authority(rest.substr(0, end)));
  if (http::equal_without_case(name, "https") || http::equal_without_case(name, "wss"))
    return question_of(std::move(where), https_port, EgressProtocol::tls);
  if (!http::equal_without_case(name, "http") && !http::equal_without_case(name, "ws"))
    return fail(Code::invalid_argument, "url: {} is not http or https", quoted(name));
  SPACE_TRY(TestQuestion question, question_of(std::move(where), http_port, EgressProtocol::http));
  const std::string_view path = rest.substr(end, rest.substr(end).find_first_of("?#"));
  question.path = path.starts_with('/') ? std::string(path) : "/";
  return question;
}

}  // namespace

Result<TestQuestion> test_question_in(const JsonObject& body) {
  SPACE_TRY(const auto url, text_member(body, "url"));
  if (url) return of_url(*url);
  SPACE_TRY(const std::string host, require_text(body, "host"));
  SPACE_TRY(const std::int64_t port, require_int(body, "port", 1, 65535));
  SPACE_TRY(Host parsed, parse_host(host));
  return TestQuestion{std::move(parsed), static_cast<std::uint16_t>(port), EgressProtocol::any, {}};
}

}  // namespace space::netd
