#include "priv/bundle.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/sha256.h"
#include "priv/folder.h"
#include "priv/process.h"

namespace space::priv {
namespace {

constexpr const char* loader = "/lib64/ld-linux-x86-64.so.2";
// What QEMU reads for the microvm machine; absent ones are not needed by the VMM at hand.
constexpr const char* firmware[] = {"/usr/share/seabios/bios-microvm.bin", "/usr/share/qemu/pvh.bin",
                                    "/usr/share/qemu/linuxboot_dma.bin", "/usr/share/qemu/kvmvapic.bin"};
constexpr unsigned program_mode = 0111;  // no one can read it, so the kernel lets no one dump or trace it
constexpr unsigned library_mode = 0555, data_mode = 0444, folder_mode = 0555;

struct Source {
  std::string from;  // absolute; empty: an empty file
  std::string to;    // relative to the bundle
  unsigned mode;
};

Result<std::vector<Source>> sources_of(const std::string& program) {
  std::vector<Source> sources{{program, bundle_program, program_mode}};
  for (const char* name : {bundle_memory, bundle_kernel, bundle_initramfs, bundle_canary})
    sources.push_back({"", name, data_mode});
  // A program without an interpreter is refused by the loader: it needs nothing else.
  const auto list = program_output({loader, "--list", program});
  if (list) {
    sources.push_back({loader, loader + 1, library_mode});
    for (const std::string& library : libraries_in(*list))
      if (library != loader) sources.push_back({library, library.substr(1), library_mode});
  }
  for (const char* file : firmware)
    if (::access(file, R_OK) == 0) sources.push_back({file, file + 1, data_mode});
  return sources;
}

// Changes whenever one of the files does.
Result<std::string> name_for(const std::vector<Source>& sources) {
  std::string facts;
  for (const Source& source : sources) {
    struct stat status{};
    if (!source.from.empty() && ::stat(source.from.c_str(), &status) != 0)
      return fail_errno(errno, source.from);
    if (!source.from.empty() && (status.st_uid != 0 || (status.st_mode & 022) != 0))
      return fail(Code::permission_denied, "{} must be a file that only root can write", source.from);
    facts += fmt::format("{} {} {} {}.{}\n", source.to, source.from, status.st_size, status.st_mtim.tv_sec,
                         status.st_mtim.tv_nsec);
  }
  return sha256_hex(facts);
}

Result<void> add(const std::string& bundle, const Source& source) {
  const std::filesystem::path path = bundle + "/" + source.to;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return fail_errno(error.value(), path.parent_path().string());
  if (source.from.empty()) {
    SPACE_TRY(const Fd empty, open_fd(path.string(), O_WRONLY | O_CREAT | O_EXCL, 0600));
  } else {
    std::filesystem::copy_file(source.from, path, error);
    if (error) return fail_errno(error.value(), path.string());
  }
  if (::chmod(path.c_str(), source.mode) != 0) return fail_errno(errno, path.string());
  return {};
}

Result<void> close_folders(const std::string& bundle) {
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(bundle, error))
    if (entry.is_directory() && ::chmod(entry.path().c_str(), folder_mode) != 0)
      return fail_errno(errno, entry.path().string());
  if (error) return fail_errno(error.value(), bundle);
  return ::chmod(bundle.c_str(), folder_mode) == 0 ? Result<void>() : fail_errno(errno, bundle);
}

Result<void> remove_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? fail_errno(error.value(), "remove " + path) : Result<void>();
}

}  // namespace

std::vector<std::string> libraries_in(std::string_view list) {
  std::vector<std::string> paths;
  while (!list.empty()) {
    const std::string_view line = list.substr(0, list.find('\n'));
    list.remove_prefix(std::min(list.size(), line.size() + 1));
    const auto start = line.find('/');
    const auto end = line.rfind(" (");
    if (start == std::string_view::npos || end == std::string_view::npos || end < start) continue;
    // "/lib64/ld.so => /lib64/ld.so (0x1)": the last path is the file
    const auto arrow = line.find("=> ");
    const auto from = arrow != std::string_view::npos && arrow + 3 < end ? arrow + 3 : start;
    paths.emplace_back(line.substr(from, end - from));
  }
  return paths;
}

Result<std::string> prepare_bundle(const Layout& layout, const std::string& program) {
  SPACE_TRY(const auto sources, sources_of(program));
  SPACE_TRY(std::string name, name_for(sources));
  SPACE_CHECK(make_folder(layout.bundles(), 0755));
  if (::access(layout.bundle(name).c_str(), F_OK) == 0) return name;
  const std::string unfinished = layout.bundle(half_made(name));
  SPACE_CHECK(remove_folder(unfinished));
  SPACE_CHECK(make_folder(unfinished, 0755));
  for (const Source& source : sources)
    if (auto added = add(unfinished, source); !added) return wrap(added.error(), "copy " + source.to);
  SPACE_CHECK(close_folders(unfinished));
  {
    // A bundle that has its name is whole, also after the power went.
    SPACE_TRY(const Fd folder, open_fd(unfinished, O_RDONLY | O_DIRECTORY));
    if (::syncfs(folder.get()) != 0) return fail_errno(errno, "sync the bundle");
  }
  if (::rename(unfinished.c_str(), layout.bundle(name).c_str()) != 0)
    return fail_errno(errno, "name the bundle");
  return name;
}

Result<void> remove_other_bundles(const Layout& layout, const std::set<std::string>& kept) {
  SPACE_TRY(const auto names, names_in(layout.bundles()));
  for (const std::string& name : names)
    if (!kept.contains(name)) SPACE_CHECK(remove_folder(layout.bundle(name)));
  SPACE_TRY(const Fd folder, open_fd(layout.bundles(), O_RDONLY | O_DIRECTORY));
  SPACE_TRY(const auto unfinished, half_made_in(folder.get()));
  for (const std::string& name : unfinished) SPACE_CHECK(remove_folder(layout.bundle(name)));
  return {};
}

}  // namespace space::priv
