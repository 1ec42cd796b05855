#include "guest/filesystem_messages.h"

#include <algorithm>
#include <charconv>

namespace space::guest {

namespace {

Result<std::string> required_text(const JsonObject& message, std::string_view key) {
  SPACE_TRY(auto text, require_text(message, key));
  if (text.empty()) return fail(Code::invalid_argument, "'{}' is empty", key);
  return text;
}

// The name this message has it under, or `camel`.
std::string_view spelling(const JsonObject& message, std::string_view camel, std::string_view snake) {
  return message.contains(snake) && !message.contains(camel) ? snake : camel;
}

Result<bool> flag(const JsonObject& message, std::string_view camel, std::string_view snake) {
  SPACE_TRY(const auto value, bool_member(message, spelling(message, camel, snake)));
  return value.value_or(false);
}

Result<std::uint32_t> number(const JsonObject& message, std::string_view key) {
  const Json* value = message.if_contains(key);
  if (value == nullptr || !value->is_string()) {
    SPACE_TRY(const auto parsed, int_member(message, key, 0, UINT32_MAX));
    return static_cast<std::uint32_t>(parsed.value_or(0));
  }
  const std::string_view text = value->get_string();
  std::uint32_t parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size())
    return fail(Code::invalid_argument, "'{}' must be an integer", key);
  return parsed;
}

}  // namespace

Result<std::string> parse_path(const JsonObject& message) {
  SPACE_TRY(auto path, text_member(message, "path"));
  return std::move(path).value_or("");
}

Result<std::string> parse_required_path(const JsonObject& message) {
  return required_text(message, "path");
}

Result<MoveRequest> parse_move(const JsonObject& message) {
  MoveRequest request;
  SPACE_TRY(request.source, required_text(message, "source"));
  SPACE_TRY(request.destination, required_text(message, "destination"));
  return request;
}

Result<ListRequest> parse_list(const JsonObject& message) {
  ListRequest request;
  SPACE_TRY(request.path, parse_path(message));
  SPACE_TRY(const std::uint32_t depth, number(message, "depth"));
  request.depth = std::max(depth, 1U);
  return request;
}

Result<WatchRequest> parse_watch(const JsonObject& message) {
  WatchRequest request;
  SPACE_TRY(request.path, parse_path(message));
  SPACE_TRY(request.recursive, flag(message, "recursive", "recursive"));
  SPACE_TRY(request.include_entry, flag(message, "includeEntry", "include_entry"));
  SPACE_TRY(request.allow_network_mounts, flag(message, "allowNetworkMounts", "allow_network_mounts"));
  return request;
}

Result<std::string> parse_watcher_id(const JsonObject& message) {
  return required_text(message, spelling(message, "watcherId", "watcher_id"));
}

}  // namespace space::guest
