#include "sandboxd/guest_sample.h"

#include <algorithm>

namespace space {
namespace {

constexpr std::int64_t count_max = std::int64_t{1} << 53;  // exact in every JSON reader
constexpr std::int64_t cpus_max = 1024;
constexpr std::size_t leases_max = 64;
constexpr std::size_t name_bytes_max = 64;
constexpr std::int64_t lease_ms_max = 86'400'000;

// Absent: 0.
Result<std::uint64_t> count_of(const JsonObject& object, std::string_view key, std::int64_t max = count_max) {
  SPACE_TRY(const auto value, int_member(object, key, 0, max));
  return static_cast<std::uint64_t>(value.value_or(0));
}

bool is_lease_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= name_bytes_max && std::ranges::all_of(name, allowed);
}

Result<GuestLease> parse_lease(const Json& value) {
  if (!value.is_object()) return fail(Code::invalid_argument, "a lease is no object");
  GuestLease lease;
  SPACE_TRY(lease.name, require_text(value.get_object(), "name"));
  if (!is_lease_name(lease.name)) return fail(Code::invalid_argument, "a lease has no valid name");
  SPACE_TRY(const std::int64_t ms, require_int(value.get_object(), "expires_in_ms", 0, lease_ms_max));
  lease.expires_in = Millis(ms);
  return lease;
}

}  // namespace

Result<GuestActivity> parse_guest_activity(const JsonObject& answer) {
  GuestActivity activity;
  SPACE_TRY(activity.cpu_used_us, count_of(answer, "cpu_used_us"));
  SPACE_TRY(const auto wake_at_us, int_member(answer, "wake_at_us", 0, count_max));
  if (wake_at_us) activity.wake_at = Wall(Millis(*wake_at_us / 1000));
  SPACE_TRY(const JsonArray* leases, array_member(answer, "leases"));
  if (leases == nullptr) return activity;
  if (leases->size() > leases_max) return fail(Code::invalid_argument, "more than {} leases", leases_max);
  for (const Json& value : *leases) {
    SPACE_TRY(GuestLease lease, parse_lease(value));
    activity.leases.push_back(std::move(lease));
  }
  return activity;
}

Result<GuestStats> parse_guest_stats(const JsonObject& answer) {
  GuestStats stats;
  SPACE_TRY(stats.cpu_count, count_of(answer, "cpu_count", cpus_max));
  SPACE_TRY(stats.cpu_used_us, count_of(answer, "cpu_used_us"));
  SPACE_TRY(stats.memory_total, count_of(answer, "mem_total"));
  SPACE_TRY(stats.memory_used, count_of(answer, "mem_used"));
  SPACE_TRY(stats.memory_cache, count_of(answer, "mem_cache"));
  SPACE_TRY(stats.disk_total, count_of(answer, "disk_total"));
  SPACE_TRY(stats.disk_used, count_of(answer, "disk_used"));
  SPACE_TRY(stats.processes, count_of(answer, "processes"));
  SPACE_TRY(stats.tasks, count_of(answer, "tasks"));
  return stats;
}

}  // namespace space
