// Signed URLs of files, form v1 (api/envd.md): what a signature says and who may have made it. The daemon
// decides by it; the control plane only finds the sandbox whose token made it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/sha256.h"

namespace space {

enum class FileOperation : unsigned char { read, write };

// The parts of `/files?path=&username=&signature=&signature_expiration=` that are signed, as decoded text.
struct SignedFileRequest {
  FileOperation operation = FileOperation::read;
  std::string path;
  std::string username;
  std::string signature;   // "v1_" + base64 without padding
  std::string expiration;  // seconds since 1970; "" = none
};

std::string sign(const SignedFileRequest& request, std::string_view token);

// Compares one signature with many tokens; a comparison costs the same however long the path is, and takes
// the same time whether it fits or not.
class FileSignature {
 public:
  explicit FileSignature(const SignedFileRequest& request);
  bool well_formed() const { return wanted_.has_value(); }
  bool made_with(std::string_view token) const;

 private:
  Sha256 beginning_;  // of the signed text, up to the token
  std::string end_;   // after it
  std::optional<std::string> wanted_;
};

// Whether the second it names is over. What is no number of seconds is.
bool has_expired(const SignedFileRequest& request, std::int64_t now_seconds);

}  // namespace space
