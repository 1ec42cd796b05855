// The host's control messages, the settings of the guest's own disk and a handover: whatever the bytes, a
// message or a refusal, and what is taken can be written and read again.
#include <cstdlib>

#include "guest/control_messages.h"
#include "guest/handover.h"
#include "guest/settings_file.h"

namespace {

using namespace space;
using namespace space::guest;

void require(bool condition) {
  if (!condition) std::abort();
}

void read_handover_back(std::string_view text) {
  const auto handover = parse_handover(text);
  if (!handover) return;
  const std::string once = handover_text(*handover);
  const auto again = parse_handover(once);
  require(again && handover_text(*again) == once);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)parse_settings(text);
  read_handover_back(text);
  const auto message = parse_json_object(text, "the message");
  if (!message) return 0;
  if (const auto wake = parse_wake(*message); wake && wake->entropy)
    require(!wake->entropy->empty() && wake->entropy->size() <= entropy_bytes_max);
  if (const auto piece = parse_upgrade(*message))
    require(piece->size <= program_bytes_max && piece->offset + piece->data.size() <= piece->size);
  (void)parse_init(*message);
  (void)parse_identity(*message);
  return 0;
}
