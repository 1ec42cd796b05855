// Who it is, and becoming someone else.
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>

#include "tests/jail/probe.h"

namespace space::jail {
namespace {

template <long number, long... arguments>
const char* plain() {
  return outcome(call(number, arguments...));
}
template <long option, long... arguments>
const char* number_of() {
  const long answer = call(SYS_prctl, option, arguments...);
  return answer < 0 ? outcome(answer) : text_with("", answer);
}

template <long number>
const char* id() {
  const long found = call(number);
  return found == given.uid ? "own" : text_with("", found);
}

const char* groups() {
  const long count = call(SYS_getgroups, 0, 0);
  return count < 0 ? outcome(count) : text_with("", count);
}
const char* become_root() {
  const long answer = call(SYS_setresuid, 0, 0, 0);
  return outcome(answer);
}
const char* set_groups() {
  const gid_t root = 0;
  return outcome(call(SYS_setgroups, 1, address_of(&root)));
}
// In a user namespace that does not know root, its files belong to nobody.
const char* owner_of_root_folder() {
  struct stat status{};
  if (const long answer = call(SYS_newfstatat, AT_FDCWD, address_of("/"), address_of(&status), 0); answer < 0)
    return outcome(answer);
  return text_with("", status.st_uid);
}

const char* effective_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2]{};
  if (const long answer = call(SYS_capget, address_of(&header), address_of(sets)); answer < 0)
    return outcome(answer);
  const auto any = sets[0].effective | sets[1].effective | sets[0].permitted | sets[1].permitted |
                   sets[0].inheritable | sets[1].inheritable;
  return any == 0 ? "none" : "some";
}
const char* take_capability() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2]{};
  sets[0].effective = sets[0].permitted = 1U << CAP_SYS_CHROOT;
  return outcome(call(SYS_capset, address_of(&header), address_of(sets)));
}
// What a program with file capabilities could get.
const char* bounding_set() {
  long found = 0;
  for (int capability = 0; capability <= CAP_LAST_CAP; ++capability) {
    const long answer = call(SYS_prctl, PR_CAPBSET_READ, capability);
    if (answer < 0) return outcome(answer);
    found += answer;
  }
  return found == 0 ? "none" : "some";
}

constexpr Row rows[] = {
    {"uid", id<SYS_getuid>},
    {"euid", id<SYS_geteuid>},
    {"gid", id<SYS_getgid>},
    {"groups", groups},
    {"owner_of_root_folder", owner_of_root_folder},
    {"setuid_root", plain<SYS_setuid, 0>},
    {"setgid_root", plain<SYS_setgid, 0>},
    {"setresuid_root", become_root},
    {"setreuid_root", plain<SYS_setreuid, 0, 0>},
    {"setfsuid_root", plain<SYS_setfsuid, 0>},
    {"setgroups", set_groups},
    {"capget", effective_capabilities},
    {"capset", take_capability},
    {"bounding_set", bounding_set},
    {"raise_ambient", plain<SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0>},
    {"set_securebits", plain<SYS_prctl, PR_SET_SECUREBITS, SECBIT_KEEP_CAPS>},
    {"no_new_privs", number_of<PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0>},
    {"drop_no_new_privs", plain<SYS_prctl, PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0>},
    {"dumpable", number_of<PR_GET_DUMPABLE>},
    {"become_dumpable", plain<SYS_prctl, PR_SET_DUMPABLE, 1>},
    {"allow_any_tracer", plain<SYS_prctl, PR_SET_PTRACER, -1>},
    {"seccomp_mode", number_of<PR_GET_SECCOMP>},
    {"parent_death_signal_off", plain<SYS_prctl, PR_SET_PDEATHSIG, 0>},
    {"become_subreaper", plain<SYS_prctl, PR_SET_CHILD_SUBREAPER, 1>},
    {"replace_memory_map", plain<SYS_prctl, PR_SET_MM, PR_SET_MM_BRK, 4096, 0, 0>},
    {"core_scheduling", plain<SYS_prctl, 62, 1, 0, 0, 0>},
    {"personality", plain<SYS_personality, 0x0400000 /* READ_IMPLIES_EXEC */>},
};

}  // namespace

std::span<const Row> identity_rows() {
  return rows;
}

}  // namespace space::jail
