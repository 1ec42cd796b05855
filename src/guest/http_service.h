// The daemon's public HTTP API, port 49983 (api/envd.md): access token, routes, one connection's loop.
#pragma once

#include "guest/files.h"
#include "guest/filesystem_service.h"
#include "guest/metrics.h"
#include "guest/process_service.h"

namespace space::guest {

class HttpService {
 public:
  HttpService(GuestState& state, ProcessTable& table)
      : state_(state), processes_(state, table), files_(state), filesystem_(state) {}

  // Serves requests until the peer closes. The service outlives the loop's coroutines.
  Task<void> serve(StreamPtr stream);

 private:
  Task<void> route(Exchange exchange);
  Task<void> files(Exchange exchange);
  Task<void> metrics(Exchange exchange);
  Task<void> preflight(Exchange exchange);
  bool token_matches(const http::RequestHead& head) const;

  GuestState& state_;
  ProcessService processes_;
  FileService files_;
  FilesystemService filesystem_;
  Metrics metrics_;
};

}  // namespace space::guest
