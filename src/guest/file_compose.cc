#include "guest/file_compose.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>

#include "base/path_text.h"
#include "guest/file_io.h"
#include "guest/folder_path.h"

namespace space::guest {

namespace {

// The new file until it has its name; removed if that never happens.
class NewFile {
 public:
  NewFile() = default;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (!name_.empty()) ::unlinkat(place_.folder.get(), name_.c_str(), 0);
  }

  Result<void> open(const std::string& destination, const User& user) {
    destination_ = destination;
    SPACE_TRY(place_, find_place(user));
    mode_t mode = 0;
    SPACE_TRY(mode, mode_of_destination());
    std::uint64_t random = 0;
    if (::getrandom(&random, sizeof random, 0) != sizeof random) return fail_errno(errno, "get random bytes");
    std::string name = fmt::format(".compose-{:016x}", random);
    file_.reset(::openat(place_.folder.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file_) return fail_errno(errno, fmt::format("make a file beside '{}'", shown_path(destination)));
    name_ = std::move(name);
    if (mode != 0 && ::fchmod(file_.get(), mode) != 0)
      return fail_errno(errno, "set the mode of the new file");
    const bool others = user.uid != ::geteuid() || user.gid != ::getegid();
    if (others && ::fchown(file_.get(), user.uid, user.gid) != 0)
      return fail_errno(errno, "give the new file to the user");
    return {};
  }

  Result<void> append(std::span<const std::byte> bytes) { return write_all(file_.get(), bytes); }

  // Durable under its name when this returns.
  Result<void> rename_into_place() {
    if (::fsync(file_.get()) != 0) return fail_errno(errno, "write the new file to the disk");
    const int folder = place_.folder.get();
    if (::renameat(folder, name_.c_str(), folder, place_.name.c_str()) != 0)
      return fail_errno(errno, fmt::format("replace '{}'", shown_path(destination_)));
    name_.clear();
    const Fd readable(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!readable || ::fsync(readable.get()) != 0) return fail_errno(errno, "write the folder to the disk");
    return {};
  }

  bool is_at(const Place& place) const {
    struct stat ours{};
    struct stat theirs{};
    return ::fstat(file_.get(), &ours) == 0 &&
           ::fstatat(place.folder.get(), place.name.c_str(), &theirs, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
  }

 private:
  Result<Place> find_place(const User& user) {
    auto place = open_place(destination_);
    if (place || place.error().code != Code::not_found) return place;
    const std::size_t slash = destination_.rfind('/');
    SPACE_TRY(MadeFolder made, make_folder_path(destination_.substr(0, slash), user));
    return Place{std::move(made.folder), destination_.substr(slash + 1)};
  }
  // 0: it does not exist. A link would be replaced by the file, so it is refused.
  Result<mode_t> mode_of_destination() {
    struct stat status{};
    if (::fstatat(place_.folder.get(), place_.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) return mode_t{0};
      return fail_errno(errno, fmt::format("stat '{}'", shown_path(destination_)));
    }
    if (!S_ISREG(status.st_mode))
      return fail(Code::invalid_argument, "path '{}' is not a regular file", shown_path(destination_));
    return static_cast<mode_t>(status.st_mode & 07777);
  }

  std::string destination_;
  Place place_;
  std::string name_;  // while it is a temporary one
  Fd file_;
};

Task<Result<void>> append_source(NewFile& file, std::string path) {
  SPACE_CO_TRY(OpenFile source, co_await run_blocking([&] { return open_to_read(path); }));
  while (!source.first.empty()) {
    SPACE_CO_CHECK(co_await run_blocking([&] { return file.append(source.first); }));
    SPACE_CO_TRY(source.first, co_await run_blocking([&] { return read_chunk(source.fd.get()); }));
  }
  co_return Result<void>();
}

Result<void> remove_sources(const std::vector<std::string>& sources, const NewFile& file) {
  for (const std::string& path : sources) {
    const auto place = open_place(path);
    if (!place || file.is_at(*place)) continue;
    if (::unlinkat(place->folder.get(), place->name.c_str(), 0) != 0 && errno != ENOENT)
      return fail_errno(errno, fmt::format("the destination is complete, but remove '{}'", shown_path(path)));
  }
  return {};
}

}  // namespace

Task<Result<void>> compose_files(std::vector<std::string> sources, std::string destination, User user) {
  NewFile file;
  SPACE_CO_CHECK(co_await run_blocking([&] { return file.open(destination, user); }));
  for (const std::string& source : sources) SPACE_CO_CHECK(co_await append_source(file, source));
  co_return co_await run_blocking([&]() -> Result<void> {
    SPACE_CHECK(file.rename_into_place());
    return remove_sources(sources, file);
  });
}

}  // namespace space::guest
