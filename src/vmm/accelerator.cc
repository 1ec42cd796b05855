#include "vmm/accelerator.h"

#include <unistd.h>
#include <x86intrin.h>

#include <ctime>
#include <utility>

#include "base/fd.h"
#include "base/json.h"

namespace space::vmm {
namespace {

constexpr std::size_t record_limit_bytes = 4096;
constexpr std::size_t boot_id_limit_bytes = 64;

// One instant on both clocks.
struct Instant {
  std::uint64_t ticks = 0;
  std::int64_t nanoseconds = 0;
};

std::int64_t raw_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// Of several readings the one least torn apart by an interrupt or a preemption.
Instant read_both_clocks() {
  Instant best;
  std::uint64_t smallest_gap = UINT64_MAX;
  for (int i = 0; i < 32; ++i) {
    const std::uint64_t before = __rdtsc();
    const std::int64_t now = raw_nanoseconds();
    const std::uint64_t gap = __rdtsc() - before;
    if (gap < smallest_gap) {
      smallest_gap = gap;
      best = {before + gap / 2, now};
    }
  }
  return best;
}

}  // namespace

std::string format_probe_record(const ProbeRecord& record) {
  JsonObject object;
  object["boot_id"] = record.boot_id;
  object["kvm_works"] = record.kvm_works;
  object["reason"] = record.reason;
  return to_text(object) + "\n";
}

std::optional<ProbeRecord> parse_probe_record(std::string_view text) {
  const auto object = parse_json_object(text, "probe record");
  if (!object) return std::nullopt;
  auto boot_id = require_text(*object, "boot_id");
  const auto works = bool_member(*object, "kvm_works");
  auto reason = require_text(*object, "reason");
  if (!boot_id || !works || !*works || !reason) return std::nullopt;
  return ProbeRecord{*std::move(boot_id), **works, *std::move(reason)};
}

AcceleratorChoice decide(const AcceleratorFacts& facts) {
  if (!facts.kvm_device) return {Accelerator::tcg, false, "this machine has no /dev/kvm"};
  const bool known = facts.remembered && facts.remembered->boot_id == facts.boot_id;
  if (!known) return {Accelerator::tcg, true, "KVM was not tried since this machine booted"};
  return {facts.remembered->kvm_works ? Accelerator::kvm : Accelerator::tcg, false, facts.remembered->reason};
}

Result<AcceleratorFacts> read_accelerator_facts(const std::string& record_path) {
  AcceleratorFacts facts;
  facts.kvm_device = access("/dev/kvm", F_OK) == 0;
  SPACE_TRY(facts.boot_id, read_file("/proc/sys/kernel/random/boot_id", boot_id_limit_bytes));
  facts.boot_id.erase(facts.boot_id.find_last_not_of('\n') + 1);
  // Unreadable is as good as absent: the probe writes it anew.
  if (const auto text = read_file(record_path, record_limit_bytes))
    facts.remembered = parse_probe_record(*text);
  return facts;
}

Result<std::uint32_t> host_tsc_khz() {
  constexpr timespec pause{.tv_sec = 0, .tv_nsec = 20'000'000};
  const Instant start = read_both_clocks();
  clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
  const Instant end = read_both_clocks();
  const auto nanoseconds = end.nanoseconds - start.nanoseconds;
  if (nanoseconds <= 0) return fail(Code::internal, "the monotonic clock stands still");

  const double khz = static_cast<double>(end.ticks - start.ticks) * 1e6 / static_cast<double>(nanoseconds);
  constexpr double lowest = 100e3;
  constexpr double highest = 20e6;
  if (khz < lowest || khz > highest) return fail(Code::internal, "a time stamp counter of {:.0f} kHz", khz);
  return static_cast<std::uint32_t>(khz + 0.5);
}

}  // namespace space::vmm
