#include "control/egress_json.h"

#include <algorithm>
#include <array>

namespace space::control {
namespace {

constexpr std::size_t text_bytes_max = 2'048;
constexpr std::size_t word_bytes_max = 32;
constexpr std::size_t entries_max = 1'000;
constexpr std::size_t addresses_max = 256;
constexpr std::size_t reasons_max = 64;

template <class T>
Result<T> of_node(Result<T> value) {
  if (!value) return fail(Code::internal, "the node's answer: {}", value.error().message);
  return value;
}

Result<void> copy_count(JsonObject& to, const JsonObject& from, std::string_view key) {
  SPACE_TRY(to[key], of_node(require_int(from, key, 0, INT64_MAX)));
  return {};
}

Result<void> copy_count_if(JsonObject& to, const JsonObject& from, std::string_view key) {
  SPACE_TRY(const auto count, of_node(int_member(from, key, 0, INT64_MAX)));
  if (count) to[key] = *count;
  return {};
}

Result<void> copy_text(JsonObject& to, const JsonObject& from, std::string_view key) {
  SPACE_TRY(const auto text, of_node(text_member(from, key)));
  if (text && text->size() > text_bytes_max)
    return fail(Code::internal, "the node's answer: '{}' is longer than {} bytes", key, text_bytes_max);
  to[key] = text.value_or("");
  return {};
}

Result<void> copy_text_if(JsonObject& to, const JsonObject& from, std::string_view key) {
  return from.contains(key) ? copy_text(to, from, key) : Result<void>();
}

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= word_bytes_max &&
         std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

Result<void> copy_word(JsonObject& to, const JsonObject& from, std::string_view key) {
  SPACE_TRY(const std::string word, of_node(require_text(from, key)));
  if (!is_word(word)) return fail(Code::internal, "the node's answer: '{}' is no word", key);
  to[key] = word;
  return {};
}

Result<void> copy_allowed(JsonObject& to, const JsonObject& from) {
  SPACE_TRY(const auto allowed, of_node(bool_member(from, "allowed")));
  to["allowed"] = allowed.value_or(false);
  return {};
}

Result<JsonObject> counters_json(const JsonObject& stats) {
  JsonObject counters;
  for (const char* key :
       {"flows", "flows_total", "denied_total", "bytes_in", "bytes_out", "dns_queries", "dns_refused"})
    SPACE_CHECK(copy_count(counters, stats, key));
  JsonObject by_reason;
  SPACE_TRY(const JsonObject* given, of_node(object_member(stats, "by_reason")));
  if (given != nullptr)
    for (const auto& member : *given) {
      if (!is_word(std::string_view(member.key())) || by_reason.size() >= reasons_max)
        return fail(Code::internal, "the node's answer: 'by_reason' has what is no reason");
      SPACE_CHECK(copy_count(by_reason, *given, member.key()));
    }
  counters["by_reason"] = std::move(by_reason);
  return counters;
}

Result<Json> network_json(const JsonObject& object) {
  SPACE_TRY(const JsonObject* network, of_node(object_member(object, "network")));
  if (network == nullptr) return Json(nullptr);
  JsonObject shown;
  SPACE_CHECK(copy_word(shown, *network, "state"));
  SPACE_CHECK(copy_text(shown, *network, "reason"));
  return Json(std::move(shown));
}

Result<JsonObject> entry_json(const JsonObject& from) {
  JsonObject entry;
  SPACE_CHECK(copy_count(entry, from, "sequence"));
  SPACE_CHECK(copy_text(entry, from, "at"));
  SPACE_CHECK(copy_word(entry, from, "kind"));
  SPACE_CHECK(copy_text(entry, from, "host"));
  SPACE_CHECK(copy_text(entry, from, "address"));
  SPACE_CHECK(copy_count_if(entry, from, "port"));
  SPACE_CHECK(copy_text_if(entry, from, "method"));
  SPACE_CHECK(copy_text_if(entry, from, "path"));
  SPACE_CHECK(copy_allowed(entry, from));
  SPACE_CHECK(copy_word(entry, from, "reason"));
  SPACE_CHECK(copy_text(entry, from, "rule"));
  for (const char* key : {"bytes_in", "bytes_out", "count"}) SPACE_CHECK(copy_count_if(entry, from, key));
  SPACE_CHECK(copy_count(entry, from, "generation"));
  return entry;
}

}  // namespace

Result<JsonObject> egress_json(const store::Egress& egress, const JsonObject& object,
                               const JsonObject& stats) {
  SPACE_TRY(JsonObject policy, parse_json_object(egress.policy, "the stored policy"));
  JsonObject shown{{"policy", std::move(policy)}, {"generation", egress.generation}};
  SPACE_TRY(shown["network"], network_json(object));
  if (stats.empty()) {
    shown["counters"] = nullptr;
  } else {
    SPACE_TRY(shown["counters"], counters_json(stats));
  }
  return shown;
}

Result<JsonObject> egress_test_json(const JsonObject& answer) {
  JsonObject shown;
  SPACE_CHECK(copy_allowed(shown, answer));
  SPACE_CHECK(copy_word(shown, answer, "reason"));
  for (const char* key : {"rule", "explanation", "host"}) SPACE_CHECK(copy_text(shown, answer, key));
  SPACE_CHECK(copy_count(shown, answer, "port"));
  SPACE_TRY(const JsonArray* given, of_node(array_member(answer, "addresses")));
  JsonArray addresses;
  for (const Json& value : given != nullptr ? *given : JsonArray()) {
    if (!value.is_string() || value.get_string().size() > text_bytes_max || addresses.size() >= addresses_max)
      return fail(Code::internal, "the node's answer: 'addresses' has what is none");
    addresses.push_back(value);
  }
  shown["addresses"] = std::move(addresses);
  SPACE_CHECK(copy_count(shown, answer, "generation"));
  return shown;
}

Result<JsonObject> egress_log_json(const JsonObject& answer) {
  SPACE_TRY(const JsonArray* given, of_node(array_member(answer, "entries")));
  JsonArray entries;
  for (const Json& value : given != nullptr ? *given : JsonArray()) {
    if (!value.is_object() || entries.size() >= entries_max)
      return fail(Code::internal, "the node's answer: 'entries' has what is none, or too many");
    SPACE_TRY(JsonObject entry, entry_json(value.get_object()));
    entries.push_back(std::move(entry));
  }
  JsonObject shown{{"entries", std::move(entries)}};
  SPACE_CHECK(copy_count(shown, answer, "next"));
  SPACE_TRY(const auto gap, of_node(bool_member(answer, "gap")));
  shown["gap"] = gap.value_or(false);
  return shown;
}

}  // namespace space::control
