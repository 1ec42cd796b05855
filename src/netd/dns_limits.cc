#include "netd/dns_limits.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/sha256.h"

namespace space::netd {

bool TokenBucket::take() {
  fill();
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

void TokenBucket::set_rate(double per_second, double burst) {
  if (per_second == per_second_ && burst == burst_) return;
  fill();
  tokens_ = std::clamp(tokens_ + burst - burst_, 0.0, burst);  // what was used stays used
  per_second_ = per_second;
  burst_ = burst;
}

void TokenBucket::fill() {
  const Monotonic now = clock_.monotonic();
  tokens_ = std::min(burst_, tokens_ + std::chrono::duration<double>(now - filled_).count() * per_second_);
  filled_ = now;
}

bool UniqueNames::admit(std::string_view rule, std::string_view name) {
  const std::string_view target = rule.substr(std::min(rule.find(' ') + 1, rule.size()));
  if (!target.starts_with("*.") && !target.starts_with("+.")) return true;
  const Monotonic now = clock_.monotonic();
  auto hour = rules_.find(rule);
  if (hour == rules_.end() || now - hour->second.began >= std::chrono::hours(1)) {
    std::erase_if(rules_, [&](const auto& old) { return now - old.second.began >= std::chrono::hours(1); });
    const std::string key(rules_.size() < max_rules ? rule : std::string_view());
    hour = rules_.try_emplace(key, Hour{.began = now, .names = {}}).first;
  }
  // Not std::hash: names of one hash are easily made for it, and would count once.
  const Sha256::Digest digest = Sha256().update(name).finish();
  std::uint64_t hash = 0;
  std::memcpy(&hash, digest.data(), sizeof hash);
  if (hour->second.names.contains(hash)) return true;
  if (hour->second.names.size() >= names_an_hour) return false;
  hour->second.names.insert(hash);
  return true;
}

}  // namespace space::netd
