// The probe: a program that takes the VMM's place inside the jail and tries one forbidden thing at a time.
// Each thing is a row; what came of it is the row's outcome, a word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace space::jail {

// What its parent gave it, by number. -1: it has none.
struct Given {
  int qmp = -1;  // a listening unix socket
  int tap = -1;
  int disk = -1;  // its own, writable
  int kvm = -1;
  int program = -1;                  // number from which it was exec'd
  int end = 0;                       // descriptors below it are its own
  int leaked = -1;                   // number of one that must not have come along
  long outside = 0;                  // pid of a process outside, of the same uid
  long uid = -1;                     // that it should have
  long memory_mib = 0, threads = 0;  // its limits
};
extern Given given;

struct Row {
  const char* name;
  const char* (*attempt)();
};
const Row* find_row(const char* name);  // nullptr: there is none
void list_rows();                       // on standard output, "row NAME" each
// False when the word is not one of the NAME=NUMBER that `given` is made of.
bool take_setting(const char* word);
void say(const char* first, const char* second);  // a line on standard output

std::span<const Row> process_rows();
std::span<const Row> identity_rows();
std::span<const Row> kernel_rows();
std::span<const Row> socket_rows();
std::span<const Row> device_rows();
std::span<const Row> file_rows();
std::span<const Row> program_rows();
std::span<const Row> limit_rows();

// A system call as the kernel gets it; the answer is negative errno. No library between that could do it
// otherwise.
long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0);
// The same for one that makes a process: the child ends at once with status 0.
long call_that_forks(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0);
inline long address_of(const volatile void* thing) {
  return static_cast<long>(reinterpret_cast<std::uintptr_t>(thing));
}

// "ok" or the name of the errno.
const char* outcome(long answer);
// A text kept until the end of the process, for outcomes that hold a number.
const char* text_with(const char* text, long number);

}  // namespace space::jail
