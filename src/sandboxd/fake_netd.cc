#include "sandboxd/fake_netd.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/json.h"

namespace space {

struct FakeNetd::Listening {
  std::unique_ptr<Listener> listener;
  std::vector<std::shared_ptr<H2Session>> sessions;
  bool stopped = false;
};

FakeNetd::FakeNetd(Executor executor, std::string socket_path)
    : executor_(std::move(executor)), socket_path_(std::move(socket_path)) {
  start();
}

FakeNetd::~FakeNetd() {
  stop();
}

void FakeNetd::start() {
  ::unlink(socket_path_.c_str());
  auto listener = listen_unix(executor_, socket_path_, 0600);
  if (!listener) std::abort();
  listening_ = std::make_shared<Listening>();
  listening_->listener = *std::move(listener);
  spawn(executor_, "fake netd", listen(*this, listening_));
}

void FakeNetd::stop() {
  if (!listening_) return;
  listening_->stopped = true;
  listening_->listener->close();
  for (const auto& session : listening_->sessions) session->close("killed");
  listening_.reset();
  ::unlink(socket_path_.c_str());
  for (auto& [id, gate] : gates) gate.attached = false;
}

std::size_t FakeNetd::attached() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(gates, [](const auto& gate) { return gate.second.attached; }));
}

Task<void> FakeNetd::listen(FakeNetd& self, std::shared_ptr<Listening> listening) {
  while (!listening->stopped) {
    auto stream = co_await listening->listener->accept();
    if (!stream || listening->stopped) co_return;
    H2Handlers handlers;
    handlers.call = [&self, listening](CallRequest request) -> Task<CallResponse> {
      if (listening->stopped) co_return CallResponse{503, "{}"};
      co_return self.answer(request);
    };
    listening->sessions.push_back(H2Session::server(*std::move(stream), std::move(handlers)));
    spawn(self.executor_, "fake netd session", drive(listening->sessions.back()));
  }
}

Task<void> FakeNetd::drive(std::shared_ptr<H2Session> session) {
  (void)co_await session->run();
}

CallResponse FakeNetd::answer(const CallRequest& request) {
  const std::string call = request.path.substr(request.path.rfind('/') + 1);
  calls.push_back(call);
  Result<JsonObject> result = fail(Code::internal, "refused");
  if (const auto refused = refuse(call)) {
    result = std::unexpected(*refused);
  } else {
    const auto body = parse_json_object(request.body, "body");
    result = body ? carry_out(call, *body) : std::unexpected(body.error());
  }
  if (result) return {200, to_text(*result)};
  const int status = result.error().code == Code::unavailable ? 503 : http_status_of(result.error().code);
  return {status,
          to_text(JsonObject{{"code", to_string(result.error().code)}, {"message", result.error().message}})};
}

Result<JsonObject> FakeNetd::carry_out(const std::string& call, const JsonObject& body) {
  if (call == "list") {
    JsonArray sandboxes;
    for (const auto& [id, gate] : gates)
      sandboxes.push_back(
          JsonObject{{"id", id}, {"generation", gate.generation}, {"attached", gate.attached}, {"flows", 0}});
    return JsonObject{{"sandboxes", std::move(sandboxes)}};
  }
  SPACE_TRY(const std::string id, require_text(body, "id"));
  if (call == "detach" || call == "forget") {
    if (gates.contains(id)) gates[id].attached = false;
    if (call == "forget") gates.erase(id);
    return JsonObject();
  }
  if (call != "attach" && !gates.contains(id)) return fail(Code::not_found, "never attached");
  if (call != "attach" && call != "policy") return JsonObject{{"call", call}, {"asked", body}};
  if (call == "attach" && !has_slot(id)) return fail(Code::not_found, "no such slot");
  SPACE_TRY(const std::int64_t generation, require_int(body, "generation", 0, std::int64_t{1} << 53));
  SPACE_TRY(const JsonObject* policy, object_member(body, "policy"));
  if (policy == nullptr) return fail(Code::invalid_argument, "no policy");
  SPACE_TRY(const std::string mode, require_text(*policy, "mode"));
  Gate& gate = gates[id];
  if (call == "policy" && generation < gate.generation) return fail(Code::conflict, "an older generation");
  gate.generation = generation;
  gate.mode = mode;
  gate.attached = gate.attached || call == "attach";
  if (const auto pins = text_member(body, "pins_of"); call == "attach" && pins && *pins)
    gate.pins_of = **pins;
  if (call == "attach") return JsonObject{{"generation", generation}};
  return JsonObject{{"generation", generation}, {"cut", cut}};
}

}  // namespace space
