// The daemon's public HTTP API, port 49983 (api/envd.md): access token and routes.
#pragma once

#include "guest/files.h"
#include "guest/filesystem_service.h"
#include "guest/metrics.h"
#include "guest/process_service.h"
#include "net/web_server.h"

namespace space::guest {

class HttpService {
 public:
  HttpService(GuestState& state, ProcessTable& table);

  // Serves requests until the peer closes. The service outlives the loop's coroutines.
  Task<void> serve(StreamPtr stream) { return server_.serve(std::move(stream)); }

 private:
  Task<void> answer(http::ServerExchange& client, http::RequestHead head);
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
  http::WebServer server_;
};

}  // namespace space::guest
