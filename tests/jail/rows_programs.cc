// Running anything but the code it came with.
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "tests/jail/probe.h"

namespace space::jail {
namespace {

// The smallest program there is: it ends with the status `smallest_status`.
struct [[gnu::packed]] Smallest {
  Elf64_Ehdr header;
  Elf64_Phdr segment;
  unsigned char code[12];
};
Smallest smallest_program() {
  constexpr std::uint64_t base = 0x400000;
  Smallest program{};
  std::memcpy(program.header.e_ident, ELFMAG, SELFMAG);
  program.header.e_ident[EI_CLASS] = ELFCLASS64;
  program.header.e_ident[EI_DATA] = ELFDATA2LSB;
  program.header.e_ident[EI_VERSION] = EV_CURRENT;
  program.header.e_type = ET_EXEC;
  program.header.e_machine = EM_X86_64;
  program.header.e_version = EV_CURRENT;
  program.header.e_entry = base + offsetof(Smallest, code);
  program.header.e_phoff = offsetof(Smallest, segment);
  program.header.e_ehsize = sizeof program.header;
  program.header.e_phentsize = sizeof program.segment;
  program.header.e_phnum = 1;
  program.segment = {.p_type = PT_LOAD,
                     .p_flags = PF_R | PF_X,
                     .p_offset = 0,
                     .p_vaddr = base,
                     .p_paddr = base,
                     .p_filesz = sizeof program,
                     .p_memsz = sizeof program,
                     .p_align = 4096};
  // mov eax, 60; mov edi, 77; syscall
  constexpr unsigned char code[] = {0xb8, 60, 0, 0, 0, 0xbf, 77, 0, 0, 0, 0x0f, 0x05};
  std::memcpy(program.code, code, sizeof code);
  return program;
}

const char* run(long fd, const char* path, long flags) {
  const char* words[] = {"probe", "--reborn", nullptr};
  const char* environment[] = {nullptr};
  return outcome(call(SYS_execveat, fd, address_of(path), address_of(words), address_of(environment), flags));
}
const char* run_path(const char* path) {
  const char* words[] = {"probe", "--reborn", nullptr};
  return outcome(call(SYS_execve, address_of(path), address_of(words), 0));
}
const char* run_memory_file() {
  const long fd = call(SYS_memfd_create, address_of("probe"), 0);
  if (fd < 0) return outcome(fd);
  const Smallest program = smallest_program();
  call(SYS_write, fd, address_of(&program), sizeof program);
  if (fd != given.program) call(SYS_dup2, fd, given.program);
  return run(given.program, "", AT_EMPTY_PATH);
}
// Its own disk holds what the guest wrote: a program, say.
const char* run_disk() {
  const Smallest program = smallest_program();
  if (const long put = call(SYS_pwrite64, given.disk, address_of(&program), sizeof program, 0); put < 0)
    return outcome(put);
  call(SYS_dup2, given.disk, given.program);
  return run(given.program, "", AT_EMPTY_PATH);
}
const char* run_disk_made_executable() {
  if (const long mode = call(SYS_fchmod, given.disk, 0777); mode < 0) return outcome(mode);
  return run_disk();
}
const char* run_kernel_image() {
  const long fd = call(SYS_openat, AT_FDCWD, address_of("/kernel"), O_RDONLY, 0);
  if (fd < 0) return outcome(fd);
  call(SYS_dup2, fd, given.program);
  return run(given.program, "", AT_EMPTY_PATH);
}
// The one program it may run again is its own, in the same jail: nothing is gained.
const char* run_itself() {
  const long fd = call(SYS_openat, AT_FDCWD, address_of("/vmm"), O_PATH, 0);
  if (fd < 0) return outcome(fd);
  call(SYS_dup2, fd, given.program);
  return run(given.program, "", AT_EMPTY_PATH);
}
const char* code_from_disk() {
  return outcome(call(SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, given.disk, 0));
}
// What TCG does for a living.
const char* writable_code() {
  return outcome(
      call(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

constexpr Row rows[] = {
    {"execve_itself", [] { return run_path("/vmm"); }},
    {"execve_shell", [] { return run_path("/bin/sh"); }},
    {"execveat_path", [] { return run(AT_FDCWD, "/vmm", 0); }},
    {"execveat_shell", [] { return run(AT_FDCWD, "/bin/sh", 0); }},
    {"execveat_number_and_path", [] { return run(given.program, "/vmm", 0); }},
    {"execveat_other_number", [] { return run(given.disk, "", AT_EMPTY_PATH); }},
    {"exec_memory_file", run_memory_file},
    {"exec_disk", run_disk},
    {"exec_disk_made_executable", run_disk_made_executable},
    {"exec_kernel_image", run_kernel_image},
    {"exec_itself", run_itself},
    {"map_disk_as_code", code_from_disk},
    {"map_writable_code", writable_code},
};

}  // namespace

std::span<const Row> program_rows() {
  return rows;
}

}  // namespace space::jail
