#include "priv/loop_device.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

namespace space::priv {
namespace {

constexpr int attempts_max = 32;  // another process may take the free device first
constexpr unsigned loop_major = 7;
constexpr unsigned block_bytes = 4096;

// Where no udev runs, a device beyond the first eight has no node until somebody makes it.
Result<Fd> open_loop(const std::string& path, int number) {
  auto fd = open_fd(path, O_RDWR);
  if (fd || fd.error().code != Code::not_found) return fd;
  const auto device = makedev(loop_major, static_cast<unsigned>(number));
  if (::mknod(path.c_str(), S_IFBLK | 0600, device) != 0 && errno != EEXIST)
    return fail_errno(errno, "make " + path);
  return open_fd(path, O_RDWR);
}

// Not by opening it: whoever does keeps it attached.
bool is_over(const std::string& device, const std::string& file) {
  const auto backing =
      read_file("/sys/block/" + device.substr(device.rfind('/') + 1) + "/loop/backing_file", 4096);
  return backing && *backing == file + "\n";
}

}  // namespace

Result<LoopDevice> attach_loop(const std::string& file) {
  SPACE_TRY(const Fd backing, open_fd(file, O_RDWR | O_NOFOLLOW));
  SPACE_TRY(const Fd control, open_fd("/dev/loop-control", O_RDWR));
  loop_config config{};
  config.fd = static_cast<unsigned>(backing.get());
  config.block_size = block_bytes;
  // Direct: the pool's pages are cached once, above the device, not again below it.
  config.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
  file.copy(reinterpret_cast<char*>(config.info.lo_file_name), LO_NAME_SIZE - 1);
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return fail_errno(errno, "find a free loop device");
    std::string path = fmt::format("/dev/loop{}", number);
    SPACE_TRY(Fd device, open_loop(path, number));
    if (::ioctl(device.get(), LOOP_CONFIGURE, &config) == 0)
      return LoopDevice{std::move(device), std::move(path)};
    if (errno != EBUSY) return fail_errno(errno, "attach " + file + " to " + path);
  }
  return fail(Code::exhausted, "no free loop device");
}

Result<void> await_detached(const std::string& device, const std::string& file) {
  for (int round = 0; round < 200; ++round) {
    if (!is_over(device, file)) return {};
    ::usleep(10'000);
  }
  return fail(Code::conflict, "{} still has {} open", device, file);
}

}  // namespace space::priv
