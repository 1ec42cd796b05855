// A seccomp filter as a list of what may be called; what is not on it ends the process or is refused.
// Filters are inherited and only ever get stricter. Needs no_new_privs or CAP_SYS_ADMIN.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "base/result.h"

namespace space::confine {

// What happens at a system call that no rule names. Calls of another architecture (i386, x32) always kill.
enum class Otherwise { kill, refuse /* EPERM */ };

// True when (argument & mask) == value. Bits above 32 of an int argument are whatever the caller left there:
// mask them out.
struct ArgumentIs {
  unsigned index;
  std::uint64_t mask;
  std::uint64_t value;
};

class SyscallFilter {
 public:
  static Result<SyscallFilter> make(Otherwise otherwise);
  SyscallFilter(SyscallFilter&& other) noexcept;
  SyscallFilter& operator=(SyscallFilter&& other) = delete;
  ~SyscallFilter();

  // Numbers as SCMP_SYS gives them. Rules add up; one for the same call without arguments swallows the
  // others.
  Result<void> allow(std::span<const int> calls);
  Result<void> allow(int call, std::initializer_list<ArgumentIs> when);  // all of them at once
  // Fails with `error_number` instead, where a program is known to go on without.
  Result<void> refuse(std::span<const int> calls, int error_number);
  Result<void> refuse(int call, int error_number, std::initializer_list<ArgumentIs> when);

  // For the calling thread and all it will start, for good.
  Result<void> load();

 private:
  explicit SyscallFilter(void* context) : context_(context) {}
  Result<void> add(std::uint32_t action, int call, std::span<const ArgumentIs> when);

  void* context_;  // scmp_filter_ctx
};

}  // namespace space::confine
