#include "bench/api.h"

#include <charconv>
#include <cstdlib>

#include "base/bytes.h"
#include "base/json.h"

namespace space::bench {
namespace {

constexpr std::string_view scheme = "http://127.0.0.1:";
constexpr std::size_t answer_limit_bytes = 1024 * 1024;

Result<std::uint16_t> api_port() {
  const char* url = std::getenv("SPACE_API_URL");
  const std::string_view text = url == nullptr ? "" : url;
  if (!text.starts_with(scheme)) return fail(Code::invalid_argument, "SPACE_API_URL must be {}PORT", scheme);
  std::uint16_t port = 0;
  const auto digits = text.substr(scheme.size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return fail(Code::invalid_argument, "SPACE_API_URL must end with a port");
  }
  return port;
}

}  // namespace

void address(http::RequestHead& head, const ApiSandbox& sandbox) {
  head.fields.add("E2b-Sandbox-Id", sandbox.id);
  head.fields.add("E2b-Sandbox-Port", "49983");
  head.fields.add("X-Access-Token", sandbox.access_token);
}

Task<Result<std::unique_ptr<Api>>> Api::connect(Deadline deadline) {
  SPACE_CO_TRY(const auto port, api_port());
  const char* key = std::getenv("SPACE_API_KEY");
  if (key == nullptr) co_return fail(Code::invalid_argument, "SPACE_API_KEY is not set");
  SPACE_CO_TRY(auto stream, co_await connect_tcp("127.0.0.1", port, deadline));
  co_return std::unique_ptr<Api>(new Api(std::move(stream), key));
}

Task<Result<std::string>> Api::call(std::string method, std::string target, std::string body, int wanted,
                                    Deadline deadline) {
  http::RequestHead head;
  head.method = std::move(method);
  head.target = std::move(target);
  head.fields.add("Host", "127.0.0.1");
  head.fields.add("X-API-Key", key_);
  head.fields.add("Content-Type", "application/json");
  head.content_length = body.size();
  SPACE_CO_CHECK(co_await connection_.write_request(head));
  if (!body.empty()) SPACE_CO_CHECK(co_await connection_.write_body(as_bytes(body)));
  SPACE_CO_CHECK(co_await connection_.end_request());
  SPACE_CO_TRY(const auto response, co_await connection_.read_response(deadline));
  SPACE_CO_TRY(std::string text, co_await http::read_all(connection_.body(), answer_limit_bytes));
  if (response.head.status != wanted)
    co_return fail(Code::internal, "HTTP {}: {}", response.head.status, text);
  co_return text;
}

Task<Result<ApiSandbox>> Api::create(Deadline deadline) {
  SPACE_CO_TRY(const std::string text,
               co_await call("POST", "/v2/sandboxes", R"({"templateID":"base","timeout":600,"secure":true})",
                             201, deadline));
  SPACE_CO_TRY(const JsonObject sandbox, parse_json_object(text, "sandbox"));
  SPACE_CO_TRY(std::string id, require_text(sandbox, "sandboxID"));
  SPACE_CO_TRY(std::string token, require_text(sandbox, "envdAccessToken"));
  co_return ApiSandbox{std::move(id), std::move(token)};
}

Task<Result<void>> Api::kill(std::string sandbox_id, Deadline deadline) {
  SPACE_CO_CHECK(co_await call("DELETE", "/sandboxes/" + sandbox_id, "", 204, deadline));
  co_return Result<void>();
}

Task<Result<GuestOutput>> Api::exec(ApiSandbox sandbox, std::vector<std::string> argv, Deadline deadline) {
  std::string body = start_request_body(argv);
  http::RequestHead head = start_request_head(body.size());
  address(head, sandbox);
  co_return co_await run_process(connection_, std::move(head), std::move(body), deadline);
}

}  // namespace space::bench
