#include "confine/seccomp.h"

#include <seccomp.h>

#include <cerrno>
#include <utility>
#include <vector>

namespace space::confine {

Result<SyscallFilter> SyscallFilter::make(Otherwise otherwise) {
  void* context =
      ::seccomp_init(otherwise == Otherwise::kill ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_ERRNO(EPERM));
  if (context == nullptr) return fail(Code::internal, "seccomp: no memory for a filter");
  SyscallFilter filter(context);
  // The caller sets no_new_privs as a layer of its own.
  if (::seccomp_attr_set(context, SCMP_FLTATR_CTL_NNP, 0) != 0 ||
      ::seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) != 0 ||
      ::seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2) != 0)  // a binary tree of calls
    return fail(Code::internal, "seccomp: the filter takes no options");
  return filter;
}

SyscallFilter::SyscallFilter(SyscallFilter&& other) noexcept
    : context_(std::exchange(other.context_, nullptr)) {}

SyscallFilter::~SyscallFilter() {
  if (context_ != nullptr) ::seccomp_release(context_);
}

Result<void> SyscallFilter::add(std::uint32_t action, int call, std::span<const ArgumentIs> when) {
  std::vector<scmp_arg_cmp> conditions;
  for (const ArgumentIs& argument : when)
    conditions.push_back({argument.index, SCMP_CMP_MASKED_EQ, argument.mask, argument.value});
  const int status = ::seccomp_rule_add_array(context_, action, call,
                                              static_cast<unsigned>(conditions.size()), conditions.data());
  if (status != 0) return fail_errno(-status, fmt::format("seccomp: rule for system call {}", call));
  return {};
}

Result<void> SyscallFilter::allow(std::span<const int> calls) {
  for (const int call : calls) SPACE_CHECK(add(SCMP_ACT_ALLOW, call, {}));
  return {};
}

Result<void> SyscallFilter::allow(int call, std::initializer_list<ArgumentIs> when) {
  return add(SCMP_ACT_ALLOW, call, when);
}

Result<void> SyscallFilter::refuse(std::span<const int> calls, int error_number) {
  for (const int call : calls)
    SPACE_CHECK(add(SCMP_ACT_ERRNO(static_cast<std::uint32_t>(error_number)), call, {}));
  return {};
}

Result<void> SyscallFilter::refuse(int call, int error_number, std::initializer_list<ArgumentIs> when) {
  return add(SCMP_ACT_ERRNO(static_cast<std::uint32_t>(error_number)), call, when);
}

Result<void> SyscallFilter::load() {
  if (const int status = ::seccomp_load(context_); status != 0)
    return fail_errno(-status, "load the seccomp filter");
  return {};
}

}  // namespace space::confine
