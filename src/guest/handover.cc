#include "guest/handover.h"

#include <set>

namespace space::guest {

namespace {

constexpr std::int64_t fd_max = 1 << 20;

JsonObject request_json(const StartRequest& request) {
  JsonArray arguments;
  for (const std::string& argument : request.process.arguments) arguments.emplace_back(argument);
  JsonObject variables;
  for (const auto& [name, value] : request.process.environment) variables[name] = value;
  JsonObject process{
      {"cmd", request.process.command}, {"args", std::move(arguments)}, {"envs", std::move(variables)}};
  if (request.process.working_folder) process["cwd"] = *request.process.working_folder;
  JsonObject result{{"process", std::move(process)}, {"stdin", request.stdin_open}};
  if (request.tag) result["tag"] = *request.tag;
  if (request.terminal)
    result["pty"] = JsonObject{
        {"size", JsonObject{{"cols", request.terminal->columns}, {"rows", request.terminal->rows}}}};
  return result;
}

JsonObject exit_json(const ExitStatus& exit) {
  return {{"code", exit.code}, {"exited", exit.exited}, {"status", exit.status}};
}

JsonArray base64_list(std::span<const Bytes> list) {
  JsonArray result;
  for (const Bytes& bytes : list) result.emplace_back(to_base64(bytes));
  return result;
}

JsonObject running_json(const ProcessRecord& record) {
  JsonObject result{
      {"pid", record.pid},
      {"request", request_json(record.request)},
      {"fds", JsonArray{record.stdin_fd, record.stdout_fd, record.stderr_fd, record.terminal_fd}},
      {"timed_out", record.timed_out},
      {"signalled", record.signalled},
      {"kept", base64_list(record.kept)},
      {"tails", base64_list(record.tails)}};
  if (record.kill_at_ms) result["kill_at_ms"] = *record.kill_at_ms;
  if (record.exit) result["exit"] = exit_json(*record.exit);
  return result;
}

JsonObject ended_json(const EndedRecord& record) {
  return {{"pid", record.pid},
          {"request", request_json(record.request)},
          {"exit", exit_json(record.exit)},
          {"timed_out", record.timed_out},
          {"until_ms", record.until_ms}};
}

Result<const JsonObject*> require_object(const JsonObject& message, std::string_view key) {
  SPACE_TRY(const JsonObject* object, object_member(message, key));
  if (object == nullptr) return fail(Code::invalid_argument, "'{}' is missing", key);
  return object;
}

Result<std::int64_t> number_of(const Json& value, std::int64_t min, std::int64_t max) {
  if (!value.is_int64() || value.get_int64() < min || value.get_int64() > max)
    return fail(Code::invalid_argument, "a number of the handover is out of its range");
  return value.get_int64();
}

Result<bool> require_bool(const JsonObject& object, std::string_view key) {
  SPACE_TRY(const auto value, bool_member(object, key));
  if (!value) return fail(Code::invalid_argument, "'{}' is missing", key);
  return *value;
}

Result<ExitStatus> parse_exit(const JsonObject& object) {
  ExitStatus exit;
  SPACE_TRY(const std::int64_t code, require_int(object, "code", -1, 255));
  exit.code = static_cast<int>(code);
  SPACE_TRY(exit.exited, require_bool(object, "exited"));
  SPACE_TRY(exit.status, require_text(object, "status"));
  return exit;
}

Result<std::vector<Bytes>> parse_base64_list(const JsonObject& object, std::string_view key) {
  std::vector<Bytes> result;
  SPACE_TRY(const JsonArray* list, array_member(object, key));
  if (list == nullptr) return result;
  for (const Json& item : *list) {
    auto bytes = item.is_string() ? from_base64(std::string_view(item.get_string())) : std::nullopt;
    if (!bytes) return fail(Code::invalid_argument, "'{}' holds no base64", key);
    result.push_back(*std::move(bytes));
  }
  return result;
}

// Checks that no two users get the same descriptor: one would close the other's.
class Descriptors {
 public:
  Result<int> take(const Json& value) {
    SPACE_TRY(const std::int64_t fd, number_of(value, -1, fd_max));
    if (fd >= 0 && (fd < 3 || !taken_.insert(fd).second))
      return fail(Code::invalid_argument, "descriptor {} cannot be handed over", fd);
    return static_cast<int>(fd);
  }

 private:
  std::set<std::int64_t> taken_;
};

Result<std::int32_t> parse_pid(const JsonObject& object) {
  SPACE_TRY(const std::int64_t pid, require_int(object, "pid", 2, INT32_MAX));
  return static_cast<std::int32_t>(pid);
}

Result<ProcessRecord> parse_running(const JsonObject& object, Descriptors& descriptors) {
  ProcessRecord record;
  SPACE_TRY(record.pid, parse_pid(object));
  SPACE_TRY(const JsonObject* request, require_object(object, "request"));
  SPACE_TRY(record.request, parse_start(*request));
  SPACE_TRY(const JsonArray* fds, array_member(object, "fds"));
  const std::array targets{&record.stdin_fd, &record.stdout_fd, &record.stderr_fd, &record.terminal_fd};
  if (fds == nullptr || fds->size() != targets.size())
    return fail(Code::invalid_argument, "'fds' holds {} numbers", targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    SPACE_TRY(*targets[i], descriptors.take((*fds)[i]));
  }
  SPACE_TRY(record.kill_at_ms, int_member(object, "kill_at_ms", 0, INT64_MAX / 1'000'000));
  SPACE_TRY(const JsonObject* exit, object_member(object, "exit"));
  if (exit != nullptr) {
    SPACE_TRY(record.exit, parse_exit(*exit));
  }
  SPACE_TRY(record.timed_out, require_bool(object, "timed_out"));
  SPACE_TRY(record.signalled, require_bool(object, "signalled"));
  SPACE_TRY(record.kept, parse_base64_list(object, "kept"));
  SPACE_TRY(const auto tails, parse_base64_list(object, "tails"));
  if (tails.size() != record.tails.size()) return fail(Code::invalid_argument, "'tails' is incomplete");
  std::ranges::copy(tails, record.tails.begin());
  return record;
}

Result<EndedRecord> parse_ended(const JsonObject& object) {
  EndedRecord record;
  SPACE_TRY(record.pid, parse_pid(object));
  SPACE_TRY(const JsonObject* request, require_object(object, "request"));
  SPACE_TRY(record.request, parse_start(*request));
  SPACE_TRY(const JsonObject* exit, require_object(object, "exit"));
  SPACE_TRY(record.exit, parse_exit(*exit));
  SPACE_TRY(record.timed_out, require_bool(object, "timed_out"));
  SPACE_TRY(record.until_ms, require_int(object, "until_ms", 0, INT64_MAX / 1'000'000));
  return record;
}

Result<void> parse_processes(const JsonObject& object, Handover& handover) {
  Descriptors descriptors;
  SPACE_TRY(const JsonArray* running, array_member(object, "running"));
  SPACE_TRY(const JsonArray* ended, array_member(object, "ended"));
  SPACE_TRY(const JsonArray* left, array_member(object, "left_outputs"));
  if (running == nullptr || ended == nullptr || left == nullptr)
    return fail(Code::invalid_argument, "the handover is incomplete");
  std::set<std::int32_t> pids;
  for (const Json& item : *running) {
    if (!item.is_object()) return fail(Code::invalid_argument, "'running' must hold objects");
    SPACE_TRY(auto record, parse_running(item.get_object(), descriptors));
    if (!pids.insert(record.pid).second)
      return fail(Code::invalid_argument, "program {} is there twice", record.pid);
    handover.running.push_back(std::move(record));
  }
  for (const Json& item : *ended) {
    if (!item.is_object()) return fail(Code::invalid_argument, "'ended' must hold objects");
    SPACE_TRY(auto record, parse_ended(item.get_object()));
    handover.ended.push_back(std::move(record));
  }
  for (const Json& item : *left) {
    SPACE_TRY(const int fd, descriptors.take(item));
    if (fd >= 0) handover.left_outputs.push_back(fd);
  }
  return {};
}

Result<void> parse_state(const JsonObject& object, Handover& handover) {
  SPACE_TRY(std::string token, require_text(object, "access_token"));
  handover.access_token = SecretText(std::move(token));
  SPACE_TRY(const JsonObject* variables, require_object(object, "env"));
  for (const auto& [name, value] : *variables) {
    if (!value.is_string()) return fail(Code::invalid_argument, "'env' must hold strings");
    handover.environment.insert_or_assign(std::string(name), std::string(value.get_string()));
  }
  SPACE_TRY(handover.default_user, require_text(object, "default_user"));
  SPACE_TRY(handover.default_workdir, require_text(object, "default_workdir"));
  SPACE_TRY(handover.path, require_text(object, "path"));
  SPACE_TRY(handover.frozen, require_bool(object, "frozen"));
  SPACE_TRY(const JsonObject* leases, require_object(object, "lease_ends_ms"));
  for (const auto& [name, value] : *leases) {
    SPACE_TRY(const std::int64_t end, number_of(value, 0, INT64_MAX / 1'000'000));
    handover.lease_ends_ms.insert_or_assign(std::string(name), end);
  }
  SPACE_TRY(handover.wake_at_ms, int_member(object, "wake_at_ms", 0, INT64_MAX / 1'000'000));
  return {};
}

}  // namespace

std::string handover_text(const Handover& handover) {
  JsonObject variables, leases;
  for (const auto& [name, value] : handover.environment) variables[name] = value;
  for (const auto& [name, end] : handover.lease_ends_ms) leases[name] = end;
  JsonArray running, ended, left;
  for (const ProcessRecord& record : handover.running) running.push_back(running_json(record));
  for (const EndedRecord& record : handover.ended) ended.push_back(ended_json(record));
  for (const int fd : handover.left_outputs) left.emplace_back(fd);
  JsonObject result{{"version", handover_version},
                    {"access_token", handover.access_token.reveal()},
                    {"env", std::move(variables)},
                    {"default_user", handover.default_user},
                    {"default_workdir", handover.default_workdir},
                    {"path", handover.path},
                    {"frozen", handover.frozen},
                    {"lease_ends_ms", std::move(leases)},
                    {"running", std::move(running)},
                    {"ended", std::move(ended)},
                    {"left_outputs", std::move(left)}};
  if (handover.wake_at_ms) result["wake_at_ms"] = *handover.wake_at_ms;
  return to_text(result);
}

Result<Handover> parse_handover(std::string_view text) {
  SPACE_TRY(const JsonObject object, parse_json_object(text, "the handover"));
  SPACE_TRY(const std::int64_t version, require_int(object, "version", 0, INT64_MAX));
  if (version != handover_version)
    return fail(Code::invalid_argument, "the handover has version {}, not {}", version, handover_version);
  Handover handover;
  SPACE_CHECK(parse_state(object, handover));
  SPACE_CHECK(parse_processes(object, handover));
  return handover;
}

}  // namespace space::guest
