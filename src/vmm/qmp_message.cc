#include "vmm/qmp_message.h"

#include <array>
#include <limits>
#include <utility>

#include "base/bytes.h"

namespace space::vmm {
namespace {

constexpr std::size_t error_text_limit_bytes = 256;

Result<QmpMessage> parse_greeting(const JsonObject& qmp) {
  SPACE_TRY(const JsonObject* version, object_member(qmp, "version"));
  if (version == nullptr) return fail(Code::invalid_argument, "greeting without a version");
  SPACE_TRY(const JsonObject* qemu, object_member(*version, "qemu"));
  if (qemu == nullptr) return fail(Code::invalid_argument, "greeting without a version of QEMU");
  constexpr std::int64_t highest = 1000;
  SPACE_TRY(const auto major, require_int(*qemu, "major", 0, highest));
  SPACE_TRY(const auto minor, require_int(*qemu, "minor", 0, highest));
  SPACE_TRY(const auto micro, require_int(*qemu, "micro", 0, highest));
  return QmpGreeting{fmt::format("{}.{}.{}", major, minor, micro)};
}

// QEMU's error classes; all but the odd one are "GenericError".
Code code_of_class(std::string_view name) {
  if (name == "CommandNotFound" || name == "DeviceNotFound") return Code::not_found;
  if (name == "DeviceNotActive") return Code::conflict;
  return Code::internal;
}

Result<QmpMessage> parse_failure(std::uint64_t id, const JsonObject& error) {
  SPACE_TRY(const std::string name, require_text(error, "class"));
  SPACE_TRY(std::string text, require_text(error, "desc"));
  if (text.size() > error_text_limit_bytes) text.resize(error_text_limit_bytes);
  return QmpReply{id, std::unexpected(Error{code_of_class(name), std::move(text)})};
}

QmpEvent event_of(std::string_view name) {
  static constexpr auto known = std::to_array<std::pair<std::string_view, QmpEvent>>({
      {"STOP", QmpEvent::stop},
      {"RESUME", QmpEvent::resume},
      {"SHUTDOWN", QmpEvent::shutdown},
      {"RESET", QmpEvent::reset},
      {"GUEST_PANICKED", QmpEvent::guest_panicked},
      {"BLOCK_IO_ERROR", QmpEvent::block_io_error},
  });
  for (const auto& [text, event] : known) {
    if (text == name) return event;
  }
  return QmpEvent::other;
}

}  // namespace

Result<QmpMessage> parse_qmp(std::string_view line) {
  SPACE_TRY(JsonObject message, parse_json_object(line, "QMP message"));
  if (message.contains("event")) {
    SPACE_TRY(const std::string name, require_text(message, "event"));
    const QmpEvent event = event_of(name);
    if (event != QmpEvent::shutdown) return event;
    SPACE_TRY(const JsonObject* data, object_member(message, "data"));
    if (data == nullptr) return event;
    SPACE_TRY(const auto reason, text_member(*data, "reason"));
    return reason == "guest-reset" ? QmpEvent::guest_reset : event;
  }
  SPACE_TRY(const JsonObject* greeting, object_member(message, "QMP"));
  if (greeting != nullptr) return parse_greeting(*greeting);

  SPACE_TRY(const auto id, require_int(message, "id", 0, std::numeric_limits<std::int64_t>::max()));
  SPACE_TRY(const JsonObject* error, object_member(message, "error"));
  if (error != nullptr) return parse_failure(static_cast<std::uint64_t>(id), *error);
  Json* value = message.if_contains("return");
  if (value == nullptr) return fail(Code::invalid_argument, "QMP message of no known kind");
  return QmpReply{static_cast<std::uint64_t>(id), std::move(*value)};
}

void QmpReader::feed(std::span<const std::byte> bytes) {
  buffer_.erase(0, start_);
  scanned_ -= start_;
  start_ = 0;
  buffer_.append(as_text(bytes));
}

Result<std::optional<QmpMessage>> QmpReader::next() {
  const auto end = buffer_.find('\n', scanned_);
  const auto length = (end == std::string::npos ? buffer_.size() : end) - start_;
  if (length > qmp_line_limit_bytes) {
    return fail(Code::exhausted, "QMP line longer than {} bytes", qmp_line_limit_bytes);
  }
  scanned_ = end == std::string::npos ? buffer_.size() : scanned_;
  if (end == std::string::npos) return std::nullopt;

  auto message = parse_qmp(std::string_view(buffer_).substr(start_, length));
  if (!message) return std::unexpected(std::move(message).error());  // not consumed: it fails again
  start_ = scanned_ = end + 1;
  return *std::move(message);
}

std::string qmp_command(std::string_view name, JsonObject arguments, std::uint64_t id) {
  JsonObject command;
  command["execute"] = name;
  if (!arguments.empty()) command["arguments"] = std::move(arguments);
  command["id"] = id;
  return to_text(command) + "\n";
}

}  // namespace space::vmm
