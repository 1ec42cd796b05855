// SignedUrls: which sandbox a signed URL of a file belongs to.
//
// Where one address serves every sandbox, such a URL names none: its signature is compared with the access
// tokens of all that live. Each comparison costs the same whatever was sent, a search yields to other
// requests, and all searches together have a bound on what they take of the loop. What was found is
// remembered, so that a URL used again costs one comparison. The daemon checks the signature itself: this
// only finds the way. Belongs to the loop.
#pragma once

#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "control/sandbox_service.h"
#include "core/allowance.h"
#include "core/file_signature.h"
#include "net/http.h"

namespace space::control {

class SignedUrls {
 public:
  SignedUrls(const SandboxService& sandboxes, const Clock& clock) : sandboxes_(sandboxes), clock_(clock) {}

  // The id. 401: signed by none; 403: not from this machine; 429: too many searches. `from_loopback`: the
  // client is on this machine.
  Task<ApiResult<std::string>> sandbox_of(http::RequestHead head, bool from_loopback);

 private:
  bool remembered(const std::string& id, const FileSignature& signature) const;
  void remember(std::string signature, std::string id);

  const SandboxService& sandboxes_;
  const Clock& clock_;
  std::unordered_map<std::string, std::string> found_;  // signature -> id; a hint, checked when used
  Allowance comparisons_{100'000, 200'000};             // about a tenth of a core's time
};

// What is signed of a request to /files. OPTIONS speaks of the request it asks permission for. Pure.
SignedFileRequest signed_file_request(const http::RequestHead& head);

}  // namespace space::control
