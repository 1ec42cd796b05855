// Uids for sandboxes: each is one disk's owner and one VM's identity. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <concepts>
#include <optional>
#include <set>

namespace space::priv {

class UidRange {
 public:
  // `next` is the first one tried; it should differ from start to start, so that a uid just given back
  // is not the next one handed out.
  UidRange(uid_t first, uid_t last, uid_t next) : first_(first), last_(last), next_(next) {}

  void hold(uid_t uid) { held_.insert(uid); }
  void release(uid_t uid) { held_.erase(uid); }

  // The next one that nobody holds and of which `in_use` (has it a process?) is false; held from now on.
  // nullopt when there is none.
  std::optional<uid_t> take(std::predicate<uid_t> auto in_use) {
    for (uid_t tried = first_; tried <= last_; ++tried) {
      const uid_t uid = next_;
      next_ = uid == last_ ? first_ : uid + 1;
      if (held_.contains(uid) || in_use(uid)) continue;
      hold(uid);
      return uid;
    }
    return std::nullopt;
  }

 private:
  uid_t first_, last_, next_;
  std::set<uid_t> held_;
};

}  // namespace space::priv
