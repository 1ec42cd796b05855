// POST of /files: one raw body or the parts of a form, compressed or not, into files. A piece is held at a
// time.
#pragma once

#include <optional>
#include <string>

#include "guest/exchange.h"
#include "guest/file_entry.h"
#include "guest/users.h"

namespace space::guest {

struct UploadOptions {
  User user;
  std::string default_workdir;
  std::string path;                     // as asked for; "" = each part has its own
  std::optional<std::string> boundary;  // of a form
  bool gzip = false;
  Metadata metadata;  // of each file
};
// What the head of the request says. invalid_argument; not supported: conflict, to be answered 415.
Result<UploadOptions> read_upload_options(const http::RequestHead& head);

// The answer: JSON list of what was written. An error leaves what had arrived until then in place.
Task<Result<std::string>> receive_files(http::Body& body, UploadOptions options);

// {"path":…,"name":…,"type":"file","metadata"?:…} of an absolute path.
JsonObject written_file_json(std::string_view path, const Metadata& metadata);

}  // namespace space::guest
