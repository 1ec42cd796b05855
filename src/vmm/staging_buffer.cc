#include "vmm/staging_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace space::vmm {
namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

std::size_t rounded(std::size_t bytes) {
  return (bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
}

// Kernels before 5.14 know no better way.
void touch(std::byte* data, std::size_t size) {
  for (std::size_t at = 0; at < size; at += 4096) static_cast<volatile std::byte*>(data)[at] = std::byte{0};
}

}  // namespace

StagingBuffer::StagingBuffer(StagingBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

StagingBuffer& StagingBuffer::operator=(StagingBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

StagingBuffer::~StagingBuffer() {
  shrink(0);
}

Result<void> StagingBuffer::grow(std::size_t bytes) {
  const std::size_t wanted = rounded(bytes);
  if (wanted <= size_) return {};
  shrink(0);
  void* mapped = ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return fail_errno(errno, "memory for a checkpoint");
  data_ = static_cast<std::byte*>(mapped);
  size_ = wanted;
  ::madvise(data_, size_, MADV_HUGEPAGE);  // a wish
  if (::madvise(data_, size_, MADV_POPULATE_WRITE) == 0) return {};
  if (errno == EINVAL) {
    touch(data_, size_);
    return {};
  }
  const int error = errno;
  shrink(0);
  return fail_errno(error, "memory for a checkpoint");
}

void StagingBuffer::shrink(std::size_t bytes) noexcept {
  const std::size_t kept = rounded(bytes);
  if (kept >= size_) return;
  ::munmap(data_ + kept, size_ - kept);
  size_ = kept;
  if (size_ == 0) data_ = nullptr;
}

}  // namespace space::vmm
