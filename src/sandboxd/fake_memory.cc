#include "sandboxd/fake_memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "base/bytes.h"

namespace space {

FakeMemory::FakeMemory(const Fd& file, std::uint64_t bytes) : size_(bytes) {
  void* at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
  if (at == MAP_FAILED) std::abort();
  address_ = static_cast<std::byte*>(at);
}

FakeMemory::~FakeMemory() {
  ::munmap(address_, size_);
}

std::vector<Fd> FakeMemory::open() const {
  const auto begin = reinterpret_cast<std::uintptr_t>(address_);
  std::vector<Fd> fds;
  fds.push_back(open_fd("/proc/self/mem", O_RDONLY).value());
  fds.push_back(make_file(fmt::format("{:x}-{:x} rw-p 00000000 00:2a 257 /memory\n", begin, begin + size_)));
  fds.push_back(open_fd("/proc/self/pagemap", O_RDONLY).value());
  return fds;
}

Fd make_file(std::string_view content) {
  Fd fd(::memfd_create("fake", MFD_CLOEXEC));
  if (!write_all(fd.get(), as_bytes(content))) std::abort();
  return fd;
}

Fd make_zeros(std::uint64_t bytes) {
  Fd fd = make_file("");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) std::abort();
  return fd;
}

Fd reopen(const Fd& file, int flags) {
  return open_fd(fmt::format("/proc/self/fd/{}", file.get()), flags).value();
}

}  // namespace space
