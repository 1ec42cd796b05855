#include "tests/jail/probe.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace space::jail {

Given given;

long call(long number, long a, long b, long c, long d, long e, long f) {
  long answer = number;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "+a"(answer)
               : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return answer;
}

long call_that_forks(long number, long a, long b, long c, long d, long e) {
  long answer = number;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  // The child may share this stack: it must not return from here.
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "mov %[leave], %%eax\n\t"
      "xor %%edi, %%edi\n\t"
      "syscall\n"
      "1:"
      : "+a"(answer)
      : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), [leave] "i"(SYS_exit)
      : "rcx", "r11", "memory");
  return answer;
}

const char* outcome(long answer) {
  if (answer >= 0) return "ok";
  const char* name = ::strerrorname_np(static_cast<int>(-answer));
  return name != nullptr ? name : "unknown-errno";
}

const char* text_with(const char* text, long number) {
  static char kept[160];
  std::snprintf(kept, sizeof kept, "%s%ld", text, number);
  return kept;
}

namespace {

template <typename Visit>
void for_each_row(Visit visit) {
  for (const auto rows : {process_rows(), identity_rows(), kernel_rows(), socket_rows(), device_rows(),
                          file_rows(), program_rows(), limit_rows()})
    for (const Row& row : rows) visit(row);
}

}  // namespace

void say(const char* first, const char* second) {
  char line[256];
  const int size = std::snprintf(line, sizeof line, "%s %s\n", first, second);
  (void)!::write(1, line, static_cast<std::size_t>(size));
}

bool take_setting(const char* word) {
  const struct {
    const char* name;
    int* number;
  } numbers[] = {{"qmp=", &given.qmp},      {"tap=", &given.tap},         {"disk=", &given.disk},
                 {"kvm=", &given.kvm},      {"program=", &given.program}, {"end=", &given.end},
                 {"leaked=", &given.leaked}};
  for (const auto& [name, number] : numbers)
    if (std::strncmp(word, name, std::strlen(name)) == 0)
      return *number = std::atoi(word + std::strlen(name)), true;
  const struct {
    const char* name;
    long* number;
  } limits[] = {{"outside=", &given.outside},
                {"uid=", &given.uid},
                {"memory_mib=", &given.memory_mib},
                {"threads=", &given.threads}};
  for (const auto& [name, number] : limits)
    if (std::strncmp(word, name, std::strlen(name)) == 0)
      return *number = std::atol(word + std::strlen(name)), true;
  return false;
}

const Row* find_row(const char* name) {
  const Row* found = nullptr;
  for_each_row([&](const Row& row) {
    if (std::strcmp(row.name, name) == 0) found = &row;
  });
  return found;
}

void list_rows() {
  for_each_row([](const Row& row) { say("row", row.name); });
}

}  // namespace space::jail
