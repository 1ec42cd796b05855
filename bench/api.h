// The API as a client of the platform sees it, as little as a benchmark needs. HTTP/1.1 on one kept
// connection, as the SDKs do. Server and key from SPACE_API_URL (http://127.0.0.1:PORT) and SPACE_API_KEY.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/http.h"
#include "tests/integration/guest_exec.h"

namespace space::bench {

struct ApiSandbox {
  std::string id;
  std::string access_token;
};

// What the data plane wants beside the request itself.
void address(http::RequestHead& head, const ApiSandbox& sandbox);

class Api {
 public:
  static Task<Result<std::unique_ptr<Api>>> connect(Deadline deadline);

  Task<Result<ApiSandbox>> create(Deadline deadline);
  Task<Result<void>> kill(std::string sandbox_id, Deadline deadline);
  Task<Result<GuestOutput>> exec(ApiSandbox sandbox, std::vector<std::string> argv, Deadline deadline);
  http::ClientConnection& connection() { return connection_; }

 private:
  Api(StreamPtr stream, std::string key) : connection_(std::move(stream)), key_(std::move(key)) {}
  Task<Result<std::string>> call(std::string method, std::string target, std::string body, int wanted,
                                 Deadline deadline);

  http::ClientConnection connection_;
  std::string key_;
};

}  // namespace space::bench
