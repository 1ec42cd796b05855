// What QEMU says on its QMP socket, one JSON object a line. Pure and fuzzed: a QEMU that a guest has taken
// over is as hostile as the guest.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/json.h"
#include "base/result.h"

namespace space::vmm {

inline constexpr std::size_t qmp_line_limit_bytes = 1024 * 1024;

struct QmpGreeting {
  std::string version;  // "10.0.2"
};

// The answer to the command of that id.
struct QmpReply {
  std::uint64_t id = 0;
  Result<Json> value;
};

// The events somebody acts on; `other` is every event else.
enum class QmpEvent : std::uint8_t {
  stop,
  resume,
  shutdown,
  guest_reset,  // a shutdown because the guest reset its machine: its kernel panicked, or it rebooted
  reset,
  guest_panicked,
  block_io_error,  // the disk refused a request; the VM stands still if there was no space
  other
};

using QmpMessage = std::variant<QmpGreeting, QmpReply, QmpEvent>;

// Anything but these three is an error, after which the connection is of no use.
Result<QmpMessage> parse_qmp(std::string_view line);

// Cuts a byte stream into messages. Holds at most one line of qmp_line_limit_bytes beyond what was fed last.
class QmpReader {
 public:
  void feed(std::span<const std::byte> bytes);
  // nullopt: feed more. After an error only errors follow.
  Result<std::optional<QmpMessage>> next();

 private:
  std::string buffer_;
  std::size_t start_ = 0;    // of the line being cut
  std::size_t scanned_ = 0;  // no newline in [start_, scanned_)
};

// {"execute":NAME,"arguments":{…},"id":N} and a newline.
std::string qmp_command(std::string_view name, JsonObject arguments, std::uint64_t id);

}  // namespace space::vmm
