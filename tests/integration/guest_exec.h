// Runs a program in a guest through the daemon's own HTTP API on a tunnel, as the node would.
#pragma once

#include <string>
#include <vector>

#include "net/h2_session.h"
#include "net/http.h"

namespace space {

struct GuestOutput {
  int exit_code = -1;
  std::string output;  // stdout
};

// The request of process.Process/Start, and what its answer's envelopes say. The API edge speaks the same.
http::RequestHead start_request_head(std::size_t body_bytes);
std::string start_request_body(const std::vector<std::string>& argv);
// Sends both and reads the answer to its end; `connection` stays usable and outlives the task.
Task<Result<GuestOutput>> run_process(http::ClientConnection& connection, http::RequestHead head,
                                      std::string body, Deadline deadline);

Task<Result<GuestOutput>> run_in_guest(std::shared_ptr<H2Session> session, std::vector<std::string> argv,
                                       Deadline deadline);

}  // namespace space
