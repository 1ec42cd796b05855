#include "guest/leases.h"

#include <algorithm>

namespace space::guest {

namespace {

bool is_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= Leases::name_bytes_max && std::ranges::all_of(name, allowed);
}

}  // namespace

Result<void> Leases::put(std::string_view name, std::chrono::seconds time, Monotonic now) {
  if (!is_name(name))
    return fail(Code::invalid_argument, "a lease's name is 1 to {} of A-Z a-z 0-9 . _ -", name_bytes_max);
  if (time < std::chrono::seconds(1) || time > time_max)
    return fail(Code::invalid_argument, "a lease lasts 1 to {} seconds; renew it to hold it for longer",
                time_max.count());
  held(now);
  const auto found = ends_.find(name);
  if (found == ends_.end() && ends_.size() == count_max)
    return fail(Code::exhausted, "{} leases are held. Delete one, or renew one of them", count_max);
  ends_.insert_or_assign(std::string(name), now + time);
  return {};
}

void Leases::take_over(std::string_view name, Monotonic end) {
  if (is_name(name) && ends_.size() < count_max) ends_.insert_or_assign(std::string(name), end);
}

void Leases::remove(std::string_view name) {
  if (const auto found = ends_.find(name); found != ends_.end()) ends_.erase(found);
}

const std::map<std::string, Monotonic, std::less<>>& Leases::held(Monotonic now) {
  std::erase_if(ends_, [now](const auto& lease) { return lease.second <= now; });
  return ends_;
}

}  // namespace space::guest
