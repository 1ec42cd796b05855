// Which accelerator a node's virtual machines run under. That /dev/kvm exists says little: inside some
// virtual machines it opens and then hangs every guest. So a node boots one small guest under KVM with a
// deadline, once per boot of the host, and remembers what came of it. Deciding is pure; booting is the
// caller's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "vmm/command_line.h"

namespace space::vmm {

// What a probe found, kept in a file of the node manager's.
struct ProbeRecord {
  std::string boot_id;  // of the host boot it holds for
  bool kvm_works = false;
  std::string reason;  // one sentence, for people

  bool operator==(const ProbeRecord&) const = default;
};
std::string format_probe_record(const ProbeRecord& record);
std::optional<ProbeRecord> parse_probe_record(std::string_view text);  // nullopt: as if there were none

struct AcceleratorFacts {
  bool kvm_device = false;  // /dev/kvm is there
  std::string boot_id;      // of now: /proc/sys/kernel/random/boot_id
  std::optional<ProbeRecord> remembered;
};

struct AcceleratorChoice {
  Accelerator accelerator = Accelerator::tcg;
  bool needs_probe = false;  // boot a guest under KVM and decide again with the record; until then TCG
  std::string reason;        // one sentence, for `space doctor` and the log
};
AcceleratorChoice decide(const AcceleratorFacts& facts);

// Longer than any sound guest takes to its first byte under KVM on a loaded host.
inline constexpr Millis kvm_probe_limit{8000};

Result<AcceleratorFacts> read_accelerator_facts(const std::string& record_path);

// The frequency of this machine's time stamp counter, measured against the monotonic clock. Blocks for 20 ms.
Result<std::uint32_t> host_tsc_khz();

}  // namespace space::vmm
