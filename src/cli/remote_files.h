// RemoteFiles: the daemon's file calls for one sandbox and user (api/envd.md), one method each. What it
// answers is checked before it is believed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/api_client.h"
#include "cli/tree.h"

namespace space::cli {

struct RemoteEntry {
  Entry entry;
  std::string path;    // absolute
  std::string target;  // of a link, absolute
};

class RemoteFiles {
 public:
  // `user` "" is the template's.
  RemoteFiles(const ApiClient& api, std::shared_ptr<const Target> target, std::string user)
      : api_(api), target_(std::move(target)), user_(std::move(user)) {}

  const ApiClient& api() const { return api_; }
  const Target& target() const { return *target_; }
  const std::string& user() const { return user_; }

  Task<Result<std::optional<RemoteEntry>>> stat(std::string path) const;  // nothing: it does not exist
  Task<Result<std::vector<RemoteEntry>>> list(std::string path) const;
  Task<Result<bool>> make_directory(std::string path) const;  // false: it was there
  Task<Result<void>> move(std::string from, std::string to) const;
  // Concatenates `parts` into `path` and removes them.
  Task<Result<void>> compose(std::vector<std::string> parts, std::string path) const;

  // GET /files from `offset` on: the connection, whose body is the file. `length`: of what comes, if known.
  struct Download {
    std::unique_ptr<http::ClientConnection> connection;
    std::optional<std::uint64_t> length;
  };
  Task<Result<Download>> download(std::string path, std::uint64_t offset) const;
  // POST /files: the body is for the caller to write, then `finish_upload`. `size`: of the body, if known.
  Task<Result<std::unique_ptr<http::ClientConnection>>> upload(std::string path,
                                                               std::optional<std::uint64_t> size) const;
  static Task<Result<void>> finish_upload(http::ClientConnection& connection);

 private:
  Task<Result<JsonObject>> call(std::string method, JsonObject request) const;
  std::string files_target(std::string_view path) const;

  const ApiClient& api_;
  std::shared_ptr<const Target> target_;
  std::string user_;
};

}  // namespace space::cli
