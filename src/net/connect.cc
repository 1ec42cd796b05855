#include "net/connect.h"

#include <array>

#include "base/json_text.h"

namespace space::connect {
namespace {

constexpr std::size_t header_bytes = 5;  // flags, big-endian length

struct CodeRow {
  std::string_view name;
  int http_status;
};
constexpr std::array<CodeRow, 16> codes{{
    {"canceled", 499},
    {"unknown", 500},
    {"invalid_argument", 400},
    {"deadline_exceeded", 504},
    {"not_found", 404},
    {"already_exists", 409},
    {"permission_denied", 403},
    {"resource_exhausted", 429},
    {"failed_precondition", 400},
    {"aborted", 409},
    {"out_of_range", 400},
    {"unimplemented", 501},
    {"internal", 500},
    {"unavailable", 503},
    {"data_loss", 500},
    {"unauthenticated", 401},
}};
static_assert(codes[static_cast<std::size_t>(RpcCode::unauthenticated)].name == "unauthenticated");

const CodeRow& row(RpcCode code) {
  return codes.at(static_cast<std::size_t>(code));
}

}  // namespace

std::string_view to_string(RpcCode code) {
  return row(code).name;
}
int http_status(RpcCode code) {
  return row(code).http_status;
}

RpcCode rpc_code(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return RpcCode::invalid_argument;
    case Code::unauthenticated:
      return RpcCode::unauthenticated;
    case Code::permission_denied:
      return RpcCode::permission_denied;
    case Code::not_found:
      return RpcCode::not_found;
    case Code::conflict:
      return RpcCode::already_exists;
    case Code::exhausted:
      return RpcCode::resource_exhausted;
    case Code::unavailable:
      return RpcCode::unavailable;
    case Code::deadline:
      return RpcCode::deadline_exceeded;
    case Code::internal:
      return RpcCode::internal;
  }
  return RpcCode::unknown;
}

std::string unary_error_body(const RpcError& error) {
  std::string body = R"({"code":)";
  append_json_string(body, to_string(error.code));
  body += R"(,"message":)";
  append_json_string(body, error.message);
  body += '}';
  return body;
}

Bytes envelope(std::uint8_t flags, std::string_view payload) {
  Bytes bytes;
  bytes.reserve(header_bytes + payload.size());
  bytes.push_back(std::byte{flags});
  append_be32(bytes, static_cast<std::uint32_t>(payload.size()));
  const auto content = as_bytes(payload);
  bytes.insert(bytes.end(), content.begin(), content.end());
  return bytes;
}

Bytes end_of_stream() {
  return envelope(flag_end_of_stream, "{}");
}

Bytes end_of_stream(const RpcError& error) {
  return envelope(flag_end_of_stream, R"({"error":)" + unary_error_body(error) + '}');
}

void EnvelopeReader::feed(std::span<const std::byte> bytes) {
  // What was taken out is dropped here, once for all envelopes taken since, instead of at every one.
  buffer_.erase(0, offset_);
  offset_ = 0;
  buffer_.append(as_text(bytes));
}

Result<std::optional<Envelope>> EnvelopeReader::next() {
  const std::string_view pending = std::string_view(buffer_).substr(offset_);
  if (pending.empty()) return std::nullopt;
  const auto flags = static_cast<std::uint8_t>(pending[0]);
  if ((flags & flag_compressed) != 0)
    return fail(Code::invalid_argument, "compressed messages are not supported");
  if ((flags & ~flag_end_of_stream) != 0)
    return fail(Code::invalid_argument, "unknown envelope flags {:#x}", flags);
  if (pending.size() < header_bytes) return std::nullopt;
  const std::size_t length = read_be32(as_bytes(pending).subspan<1, 4>());
  if (length > limit_) {
    return fail(Code::exhausted, "message of {} bytes is larger than the limit of {}", length, limit_);
  }
  if (pending.size() - header_bytes < length) return std::nullopt;
  offset_ += header_bytes + length;
  return Envelope{flags, std::string(pending.substr(header_bytes, length))};
}

}  // namespace space::connect
