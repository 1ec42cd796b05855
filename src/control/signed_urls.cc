#include "control/signed_urls.h"

namespace space::control {
namespace {

constexpr std::size_t found_max = 4096;
constexpr unsigned comparisons_before_yield = 256;
constexpr double comparisons_min = 20;  // of a search, however few sandboxes there are

std::unexpected<ApiError> refuse(int status, std::string message) {
  return std::unexpected(ApiError{status, std::move(message), "", ""});
}

}  // namespace

SignedFileRequest signed_file_request(const http::RequestHead& head) {
  std::string_view method = head.method;
  if (method == "OPTIONS") method = head.fields.get("Access-Control-Request-Method").value_or("GET");
  const auto value = [&](std::string_view name) {
    return http::query_value(head.query(), name).value_or("");
  };
  return {.operation = method == "POST" ? FileOperation::write : FileOperation::read,
          .path = value("path"),
          .username = value("username"),
          .signature = value("signature"),
          .expiration = value("signature_expiration")};
}

bool SignedUrls::remembered(const std::string& id, const FileSignature& signature) const {
  const store::Sandbox* row = sandboxes_.live_row(id);
  return row && signature.made_with(row->access_token);
}

void SignedUrls::remember(std::string signature, std::string id) {
  if (found_.size() >= found_max) found_.clear();
  found_.insert_or_assign(std::move(signature), std::move(id));
}

Task<ApiResult<std::string>> SignedUrls::sandbox_of(http::RequestHead head, bool from_loopback) {
  if (!from_loopback)
    co_return refuse(
        403,
        "A URL that names no sandbox is served to this machine only. Use the sandbox's own host name, "
        "or send E2b-Sandbox-Id and E2b-Sandbox-Port");
  const SignedFileRequest request = signed_file_request(head);
  if (request.signature.empty())
    co_return refuse(
        401,
        "missing signature query parameter. Sign the URL, or send E2b-Sandbox-Id, E2b-Sandbox-Port "
        "and X-Access-Token");
  const FileSignature signature(request);
  if (!signature.well_formed()) co_return refuse(401, "invalid signature");
  if (const auto found = found_.find(request.signature); found != found_.end()) {
    if (remembered(found->second, signature)) co_return found->second;
    found_.erase(found);
  }
  const double cost = std::max(static_cast<double>(sandboxes_.live_count()), comparisons_min);
  if (!comparisons_.take(cost, clock_.monotonic()))
    co_return refuse(429, "Too many signed URLs were looked up. Try again in a second");
  std::string id;
  unsigned compared = 0;
  for (auto row = sandboxes_.live_row_after(id); row; row = sandboxes_.live_row_after(id)) {
    id = row->id;
    if (signature.made_with(row->access_token)) {
      remember(request.signature, id);
      co_return id;
    }
    if (++compared % comparisons_before_yield == 0) co_await boost::asio::post(boost::asio::use_awaitable);
  }
  co_return refuse(401, "invalid signature: no running sandbox made it");
}

}  // namespace space::control
