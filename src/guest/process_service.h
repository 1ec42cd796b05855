// process.Process of the daemon's protocol (api/envd.md): from HTTP exchanges to the process table.
#pragma once

#include "guest/exchange.h"
#include "guest/guest_state.h"
#include "guest/process_table.h"

namespace space::guest {

class ProcessService {
 public:
  ProcessService(GuestState& state, ProcessTable& table) : state_(state), table_(table) {}

  // `method` is what follows "/process.Process/". Unknown: unimplemented.
  Task<void> handle(Exchange exchange, std::string method);

 private:
  Task<void> start(Exchange exchange);
  Task<RpcResult<std::shared_ptr<Process>>> start_process(Exchange exchange);
  Task<void> connect(Exchange exchange);
  Task<RpcResult<std::shared_ptr<Process>>> find_process(Exchange exchange);
  Task<RpcResult<std::string>> unary(Exchange exchange, std::string method);
  Task<RpcResult<std::string>> send_input(JsonObject message);
  Task<RpcResult<std::string>> stream_input(Exchange exchange);
  RpcResult<std::string> list() const;
  RpcResult<std::string> send_signal(const JsonObject& message);
  RpcResult<std::string> close_stdin(const JsonObject& message);
  RpcResult<std::string> update(const JsonObject& message);
  RpcResult<std::shared_ptr<Process>> select(const JsonObject& message) const;

  GuestState& state_;
  ProcessTable& table_;
};

}  // namespace space::guest
