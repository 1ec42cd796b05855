#include "control/create_request.h"

#include <limits>

#include "base/json.h"
#include "control/lifetime.h"
#include "control/network_options.h"
#include "control/snapshot_requests.h"

namespace space::control {
namespace {

constexpr std::size_t template_name_length_max = 256;
constexpr std::size_t metadata_bytes_max = 64 * 1024;
constexpr std::size_t env_bytes_max = 256 * 1024;

std::int64_t default_timeout_s(ApiVersion version) {
  return version == ApiVersion::v1 ? 15 : 300;
}

constexpr std::int64_t pause_seconds_max = 366LL * 24 * 3600;

Result<std::optional<std::int64_t>> read_timeout(const JsonObject& body) {
  constexpr auto any = std::numeric_limits<std::int64_t>::max();
  if (const auto text = text_member(body, "timeout"); text && *text == "never") return never_s;
  SPACE_TRY(const auto timeout, int_member(body, "timeout", -any, any));
  if (timeout && *timeout <= 0) return fail(Code::invalid_argument, "Timeout must be greater than 0");
  return timeout;
}

Result<std::int64_t> read_timeout(const JsonObject& body, ApiVersion version, std::int64_t max_s) {
  SPACE_TRY(const auto timeout, read_timeout(body));
  if (timeout && *timeout > max_s && max_s < never_s) {
    if (max_s % 3600 == 0)
      return fail(Code::invalid_argument, "Timeout cannot be greater than {} hours", max_s / 3600);
    return fail(Code::invalid_argument, "Timeout cannot be greater than {} seconds", max_s);
  }
  return std::min(timeout.value_or(default_timeout_s(version)), max_s);
}

// An object whose values are all text, at most `bytes_max` of it.
Result<std::map<std::string, std::string>> read_pairs(const JsonObject& body, std::string_view key,
                                                      std::size_t bytes_max) {
  SPACE_TRY(const JsonObject* object, object_member(body, key));
  std::map<std::string, std::string> pairs;
  if (object == nullptr) return pairs;
  std::size_t bytes = 0;
  for (const auto& [name, value] : *object) {
    if (!value.is_string())
      return fail(Code::invalid_argument, "'{}.{}' must be a string", key, std::string_view(name));
    bytes += name.size() + value.get_string().size();
    if (bytes > bytes_max)
      return fail(Code::invalid_argument, "'{}' is larger than {} KiB", key, bytes_max / 1024);
    pairs.emplace(std::string_view(name), std::string_view(value.get_string()));
  }
  return pairs;
}

Result<std::map<std::string, SecretText>> read_env(const JsonObject& body) {
  SPACE_TRY(auto pairs, read_pairs(body, "envVars", env_bytes_max));
  std::map<std::string, SecretText> env;
  for (auto& [name, value] : pairs) {
    if (name.empty() || name.contains('=') || name.contains('\0') || value.contains('\0'))
      return fail(Code::invalid_argument,
                  "'envVars' has a name that is empty or contains '=', or a NUL byte in a name or value");
    env.emplace(name, SecretText(std::move(value)));
  }
  return env;
}

// E2B's three members of create.
Result<store::Lifecycle> read_auto_pause(const JsonObject& body) {
  store::Lifecycle lifecycle;
  SPACE_TRY(const auto pause, bool_member(body, "autoPause"));
  SPACE_TRY(const auto keep_memory, bool_member(body, "autoPauseMemory"));
  SPACE_TRY(const JsonObject* resume, object_member(body, "autoResume"));
  if (resume != nullptr) {
    SPACE_TRY(const auto enabled, bool_member(*resume, "enabled"));
    lifecycle.auto_resume = enabled.value_or(false);
  }
  lifecycle.pause_on_timeout = pause.value_or(false);
  lifecycle.pause_keeps_memory = keep_memory.value_or(true);
  return lifecycle;
}

// The form in which GET shows them, and the SDKs take them from their users. It agrees with the other form
// where both are given.
Result<void> apply_lifecycle(const JsonObject& body, store::Lifecycle& lifecycle) {
  SPACE_TRY(const JsonObject* given, object_member(body, "lifecycle"));
  if (given == nullptr) return {};
  SPACE_TRY(const auto on_timeout, text_member(*given, "onTimeout"));
  SPACE_TRY(const auto resume, bool_member(*given, "autoResume"));
  if (on_timeout && *on_timeout != "kill" && *on_timeout != "pause")
    return fail(Code::invalid_argument, "'lifecycle.onTimeout' must be kill or pause");
  const auto says = [&body](std::string_view key) { return body.contains(key) && !body.at(key).is_null(); };
  const bool disagree =
      (on_timeout && says("autoPause") && lifecycle.pause_on_timeout != (*on_timeout == "pause")) ||
      (resume && says("autoResume") && lifecycle.auto_resume != *resume);
  if (disagree)
    return fail(Code::invalid_argument,
                "'lifecycle' says something else than 'autoPause' and 'autoResume'. Give one of the two");
  if (on_timeout) lifecycle.pause_on_timeout = *on_timeout == "pause";
  if (resume) lifecycle.auto_resume = *resume;
  return {};
}

Result<store::Lifecycle> read_lifecycle(const JsonObject& body) {
  SPACE_TRY(store::Lifecycle lifecycle, read_auto_pause(body));
  SPACE_CHECK(apply_lifecycle(body, lifecycle));
  if (!lifecycle.pause_keeps_memory && !lifecycle.pause_on_timeout)
    return fail(Code::invalid_argument, "'autoPauseMemory' needs 'autoPause'");
  if (!lifecycle.pause_keeps_memory && lifecycle.auto_resume)
    return fail(Code::invalid_argument,
                "'autoPauseMemory: false' cannot go with 'autoResume': a request cannot wait for a boot");
  return lifecycle;
}

Result<void> read_seconds(const JsonObject& body, std::string_view key, std::int64_t min,
                          std::optional<std::int64_t>& seconds) {
  if (!body.contains(key)) return {};
  SPACE_TRY(seconds, int_member(body, key, min, pause_seconds_max));  // null: none
  return {};
}

Result<store::PausePolicy> read_policy(const JsonObject& body, store::PausePolicy policy) {
  SPACE_CHECK(read_seconds(body, "idlePauseSeconds", 1, policy.idle_pause_s));
  SPACE_CHECK(read_seconds(body, "hotKeepSeconds", 0, policy.hot_keep_s));
  return policy;
}

Result<void> read_keeping(const JsonObject& body, CreateRequest& request) {
  if (const Json* schedule = body.if_contains("schedule")) {
    SPACE_TRY(request.schedule, read_schedule(*schedule));
  }
  SPACE_TRY(const auto recovery, text_member(body, "recovery"));
  if (recovery) {
    SPACE_TRY(request.recovery, read_recovery_policy(*recovery));
  }
  return {};
}

Result<void> refuse_unsupported(const JsonObject& body) {
  SPACE_TRY(const JsonArray* volumes, array_member(body, "volumeMounts"));
  if (volumes != nullptr && !volumes->empty())
    return fail(Code::invalid_argument,
                "'volumeMounts' is not supported by this version. Create the sandbox without it");
  SPACE_TRY(const JsonObject* iam, object_member(body, "iam"));
  if (iam != nullptr && !iam->empty())
    return fail(Code::invalid_argument,
                "'iam' is not supported by this version. Create the sandbox without it");
  return {};
}

// E2B's members or ours, not both.
Result<EgressWish> read_wish(const JsonObject& body, store::SandboxOptions& options, EgressRights rights) {
  SPACE_TRY(EgressWish wish, read_network(body, options));
  SPACE_TRY(auto policy, read_egress(body, rights));
  if (!policy) return wish;
  if (wish.policy)
    return fail(Code::invalid_argument,
                "'egress' and 'network.allowOut', 'network.denyOut' or 'allow_internet_access' both say what "
                "may be reached. Give one of the two");
  return EgressWish{.policy = *std::move(policy)};
}

Result<JsonObject> parse_optional_body(std::string_view body) {
  if (body.empty()) return JsonObject();
  return parse_json_object(body, "the request body");
}

}  // namespace

Result<CreateRequest> parse_create_request(std::string_view text, ApiVersion version,
                                           std::int64_t timeout_max_s, EgressRights rights) {
  SPACE_TRY(const JsonObject body, parse_json_object(text, "the request body"));
  CreateRequest request;
  SPACE_TRY(request.template_name, require_text(body, "templateID"));
  if (request.template_name.empty() || request.template_name.size() > template_name_length_max)
    return fail(Code::invalid_argument, "'templateID' must be 1 to {} characters", template_name_length_max);
  SPACE_TRY(request.timeout_s, read_timeout(body, version, timeout_max_s));
  SPACE_TRY(request.options.metadata, read_pairs(body, "metadata", metadata_bytes_max));
  SPACE_TRY(request.egress, read_wish(body, request.options, rights));
  SPACE_TRY(request.env, read_env(body));
  SPACE_TRY(request.lifecycle, read_lifecycle(body));
  SPACE_TRY(const JsonObject* policy, object_member(body, "pausePolicy"));
  if (policy != nullptr) {
    SPACE_TRY(request.policy, read_policy(*policy, {}));
  }
  SPACE_CHECK(read_keeping(body, request));
  SPACE_CHECK(refuse_unsupported(body));
  SPACE_TRY(const auto secure, bool_member(body, "secure"));
  request.secure = version == ApiVersion::v2 || secure.value_or(false);
  if (!request.secure && !request.options.allow_public_traffic)
    return fail(Code::invalid_argument,
                "'network.allowPublicTraffic: false' needs a secured sandbox. Set 'secure' to true");
  return request;
}

Result<ConnectRequest> parse_connect_request(std::string_view text, ApiVersion version,
                                             std::int64_t timeout_max_s) {
  SPACE_TRY(const JsonObject body, parse_optional_body(text));
  ConnectRequest request;
  SPACE_TRY(request.timeout_s, read_timeout(body, version, timeout_max_s));
  SPACE_TRY(const auto memory, bool_member(body, "memory"));
  SPACE_TRY(const auto pause, bool_member(body, "autoPause"));
  request.boot = !memory.value_or(true);
  request.pause_on_timeout = pause.value_or(false);
  return request;
}

Result<bool> parse_pause_request(std::string_view text) {
  SPACE_TRY(const JsonObject body, parse_optional_body(text));
  SPACE_TRY(const auto memory, bool_member(body, "memory"));
  return memory.value_or(true);
}

Result<store::PausePolicy> parse_pause_policy(std::string_view text, store::PausePolicy policy) {
  SPACE_TRY(const JsonObject body, parse_json_object(text, "the request body"));
  return read_policy(body, policy);
}

Result<std::int64_t> parse_timeout_request(std::string_view text) {
  SPACE_TRY(const JsonObject body, parse_json_object(text, "the request body"));
  SPACE_TRY(const auto timeout, read_timeout(body));
  if (!timeout) return fail(Code::invalid_argument, "'timeout' is missing: give the new lifetime in seconds");
  return *timeout;
}

}  // namespace space::control
