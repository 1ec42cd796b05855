#include "core/file_signature.h"

#include <charconv>

#include "base/bytes.h"

namespace space {

namespace {

constexpr std::string_view version = "v1_";
constexpr std::size_t signature_length = version.size() + 43;  // base64 of 32 bytes, less its one '='
constexpr std::size_t expiration_length_max = 20;

std::string text_of(const Sha256::Digest& digest) {
  std::string text = to_base64(digest);
  text.pop_back();  // the padding
  return std::string(version) + text;
}

Sha256 beginning_of(const SignedFileRequest& request) {
  const std::string_view operation = request.operation == FileOperation::read ? "read" : "write";
  Sha256 hash;
  hash.update(request.path).update(":").update(operation).update(":").update(request.username).update(":");
  return hash;
}

std::string end_of(const SignedFileRequest& request) {
  return request.expiration.empty() ? "" : ":" + request.expiration;
}

}  // namespace

std::string sign(const SignedFileRequest& request, std::string_view token) {
  return text_of(beginning_of(request).update(token).update(end_of(request)).finish());
}

FileSignature::FileSignature(const SignedFileRequest& request)
    : beginning_(beginning_of(request)), end_(end_of(request)) {
  const bool plausible = request.signature.size() == signature_length &&
                         request.signature.starts_with(version) &&
                         request.expiration.size() <= expiration_length_max;
  if (plausible) wanted_ = request.signature;
}

bool FileSignature::made_with(std::string_view token) const {
  if (!wanted_ || token.empty()) return false;
  Sha256 hash = beginning_;
  return equal_in_constant_time(text_of(hash.update(token).update(end_).finish()), *wanted_);
}

bool has_expired(const SignedFileRequest& request, std::int64_t now_seconds) {
  if (request.expiration.empty()) return false;
  std::int64_t moment = 0;
  const char* end = request.expiration.data() + request.expiration.size();
  const auto [stopped, error] = std::from_chars(request.expiration.data(), end, moment);
  return error != std::errc() || stopped != end || moment < now_seconds;
}

}  // namespace space
