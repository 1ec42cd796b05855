#include "priv/snapshot.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "base/ids.h"
#include "priv/folder.h"
#include "priv/subvolume.h"

namespace space::priv {
namespace {

constexpr std::uint64_t mib_bytes = 1 << 20;
constexpr const char* disk_file = "disk.raw";
constexpr const char* memory_file = "mem.raw";
constexpr const char* state_file = "vmstate";
constexpr const char* manifest_file = "manifest.json";
constexpr const char* vmm_note = "vmm";
constexpr const char* origin_note = "origin";
constexpr const char* memory_note = "memory";

std::string text_of(const std::string& sandbox, std::uint64_t number) {
  return fmt::format("{}/{}", sandbox, number);
}

Result<Fd> open_folder(int parent, const std::string& name) {
  return open_beneath(parent, name, O_RDONLY | O_DIRECTORY);
}

Result<void> remove_files(int folder, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (::unlinkat(folder, name, 0) != 0 && errno != ENOENT)
      return fail_errno(errno, fmt::format("remove {}", name));
  return {};
}

Result<Fd> create_file(int folder, const char* name, int access) {
  return open_beneath(folder, name, access | O_CREAT | O_EXCL, 0600);
}

// Its mem.raw becomes that of snapshot `from`, "<sandbox id>/<number>".
Result<Fd> clone_memory(const Pool& pool, int folder, const std::string& from) {
  auto source = open_beneath(pool.snapshots(), fmt::format("{}/{}", from, memory_file), O_RDONLY);
  if (!source) return wrap(source.error(), "the memory to start from is gone");
  SPACE_CHECK(remove_files(folder, {memory_file}));
  SPACE_TRY(Fd memory, create_file(folder, memory_file, O_RDWR));
  if (::ioctl(memory.get(), FICLONE, source->get()) != 0) return fail_errno(errno, "clone the memory");
  return memory;
}

Result<Fd> begin_memory(const Pool& pool, int folder, const std::string& from, std::uint64_t size_mib) {
  const bool is_there = !from.empty() && read_note(folder, memory_note).value_or("") == from;
  SPACE_CHECK(remove_files(folder, {memory_note}));
  if (from.empty()) SPACE_CHECK(remove_files(folder, {memory_file}));
  SPACE_TRY(Fd memory, is_there       ? open_beneath(folder, memory_file, O_RDWR)
                       : from.empty() ? create_file(folder, memory_file, O_RDWR)
                                      : clone_memory(pool, folder, from));
  if (::ftruncate(memory.get(), static_cast<off_t>(size_mib * mib_bytes)) != 0)
    return fail_errno(errno, "size the memory");
  return memory;
}

// False when there is no memory.
Result<bool> set_memory_mode(int folder, mode_t mode) {
  if (::fchmodat(folder, memory_file, mode, 0) == 0) return true;
  if (errno == ENOENT) return false;
  return fail_errno(errno, "set the mode of the memory");
}

// Makes a copy of a sandbox's subvolume a snapshot's.
Result<SnapshotFiles> furnish(const Pool& pool, int folder, const std::string& from, const VmmFacts* vmm) {
  SnapshotFiles files;
  SPACE_CHECK(remove_files(folder, {state_file, manifest_file, vmm_note, origin_note}));
  if (vmm != nullptr) {
    SPACE_TRY(files.memory, begin_memory(pool, folder, from, vmm->memory_mib));
    SPACE_TRY(files.state, create_file(folder, state_file, O_WRONLY));
    SPACE_CHECK(write_note(folder, vmm_note, vmm->bundle));
  } else {
    if (auto memory = open_beneath(folder, memory_file, O_RDONLY)) files.memory = *std::move(memory);
    SPACE_CHECK(remove_files(folder, {memory_note, memory_file}));
  }
  SPACE_TRY(files.manifest, create_file(folder, manifest_file, O_WRONLY));
  // The uid may be another sandbox's one day.
  if (::fchownat(folder, disk_file, 0, 0, AT_SYMLINK_NOFOLLOW) != 0)
    return fail_errno(errno, "take the disk");
  return files;
}

// Makes a copy of a snapshot's subvolume a sandbox's.
Result<void> adapt(int folder, const std::string& origin, uid_t uid) {
  SPACE_CHECK(remove_files(folder, {state_file, manifest_file, vmm_note}));
  SPACE_TRY(const bool has_memory, set_memory_mode(folder, 0600));
  if (has_memory)
    for (const char* note : {origin_note, memory_note}) SPACE_CHECK(write_note(folder, note, origin));
  if (::fchownat(folder, disk_file, uid, uid, AT_SYMLINK_NOFOLLOW) != 0)
    return fail_errno(errno, "give the disk to its uid");
  return {};
}

}  // namespace

Result<SnapshotFiles> begin_snapshot(const Pool& pool, const SandboxPermit& sandbox, std::uint64_t number,
                                     std::uint64_t previous, const VmmFacts* vmm) {
  SPACE_TRY(const Fd source, open_folder(pool.sandboxes(), sandbox.id()));
  std::string from = previous != 0 ? text_of(sandbox.id(), previous) : std::string();
  if (previous == 0 && vmm != nullptr && vmm->restored) {
    SPACE_TRY(from, read_note(source.get(), origin_note));
  }
  SPACE_CHECK(pool.require_room());
  if (::mkdirat(pool.snapshots(), sandbox.id().c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(errno, "make the folder of snapshots");
  SPACE_TRY(const Fd folder, open_folder(pool.snapshots(), sandbox.id()));
  const std::string name = std::to_string(number), unfinished = half_made(name);
  if (::faccessat(folder.get(), name.c_str(), F_OK, 0) == 0)
    return fail(Code::conflict, "snapshot {} of {} is finished", name, sandbox.id());
  SPACE_CHECK(delete_subvolume(folder.get(), unfinished));
  SPACE_CHECK(snapshot_subvolume(source.get(), folder.get(), unfinished));
  SPACE_TRY(const Fd copy, open_folder(folder.get(), unfinished));
  auto files = furnish(pool, copy.get(), from, vmm);
  if (files) return files;
  (void)delete_subvolume(folder.get(), unfinished);  // else the next start removes it
  return explained(files.error());
}

Result<void> finish_snapshot(const Pool& pool, const SandboxPermit& sandbox, std::uint64_t number) {
  SPACE_TRY(const Fd folder, open_folder(pool.snapshots(), sandbox.id()));
  const std::string name = std::to_string(number), unfinished = half_made(name);
  // One that has its name may still be writable: the commit that makes it read-only is that of the name, too.
  if (const auto finished = open_folder(folder.get(), name)) return set_read_only(finished->get());
  SPACE_TRY(const Fd copy, open_folder(folder.get(), unfinished));
  // VMs open it under their own uids.
  SPACE_CHECK(set_memory_mode(copy.get(), 0444));
  if (::renameat2(folder.get(), unfinished.c_str(), folder.get(), name.c_str(), RENAME_NOREPLACE) != 0)
    return fail_errno(errno, "name the snapshot");
  return set_read_only(copy.get());
}

Result<void> keep_memory(const Pool& pool, const SandboxPermit& sandbox, std::uint64_t number) {
  SPACE_TRY(const Fd folder, open_folder(pool.sandboxes(), sandbox.id()));
  const std::string from = text_of(sandbox.id(), number);
  SPACE_CHECK(remove_files(folder.get(), {memory_note}));
  SPACE_CHECK(clone_memory(pool, folder.get(), from));
  return write_note(folder.get(), memory_note, from);
}

Result<SnapshotFiles> open_snapshot(const Pool& pool, const SandboxPermit& sandbox, std::uint64_t number) {
  SPACE_TRY(const Fd folder, open_folder(pool.snapshots(), text_of(sandbox.id(), number)));
  SnapshotFiles files;
  if (::faccessat(folder.get(), memory_file, F_OK, 0) == 0) {
    SPACE_TRY(files.memory, open_beneath(folder.get(), memory_file, O_RDONLY));
    SPACE_TRY(files.state, open_beneath(folder.get(), state_file, O_RDONLY));
  }
  SPACE_TRY(files.manifest, open_beneath(folder.get(), manifest_file, O_RDONLY));
  SPACE_TRY(files.disk, open_beneath(folder.get(), disk_file, O_RDONLY));
  return files;
}

Result<Fd> open_snapshot_disk(const Pool& pool, const SandboxPermit& sandbox, std::uint64_t number) {
  return open_beneath(pool.snapshots(), fmt::format("{}/{}/{}", sandbox.id(), number, disk_file), O_RDONLY);
}

Result<void> remove_snapshot(const Pool& pool, const SandboxPermit& sandbox, std::uint64_t number) {
  const auto folder = open_folder(pool.snapshots(), sandbox.id());
  if (!folder && folder.error().code == Code::not_found) return {};
  if (!folder) return std::unexpected(folder.error());
  const std::string name = std::to_string(number);
  for (const std::string& each : {half_made(name), name}) SPACE_CHECK(delete_subvolume(folder->get(), each));
  ::unlinkat(pool.snapshots(), sandbox.id().c_str(), AT_REMOVEDIR);  // stays while there is another
  return {};
}

Result<void> restore_disk(const Pool& pool, const SandboxPermit& sandbox, const SandboxPermit& source,
                          std::uint64_t number, uid_t uid) {
  const std::string origin = text_of(source.id(), number), unfinished = half_made(sandbox.id());
  const auto from = open_folder(pool.snapshots(), origin);
  if (!from) return wrap(from.error(), "there is no such snapshot");
  SPACE_CHECK(pool.require_room());
  const int sandboxes = pool.sandboxes();
  SPACE_CHECK(delete_subvolume(sandboxes, unfinished));
  SPACE_CHECK(snapshot_subvolume(from->get(), sandboxes, unfinished));
  SPACE_TRY(const Fd copy, open_folder(sandboxes, unfinished));
  if (auto adapted = adapt(copy.get(), origin, uid); !adapted) {
    (void)delete_subvolume(sandboxes, unfinished);  // else the next start removes it
    return explained(adapted.error());
  }
  // At every instant there is one disk under the name.
  const bool replaces = ::faccessat(sandboxes, sandbox.id().c_str(), F_OK, 0) == 0;
  if (::renameat2(sandboxes, unfinished.c_str(), sandboxes, sandbox.id().c_str(),
                  replaces ? RENAME_EXCHANGE : RENAME_NOREPLACE) != 0)
    return fail_errno(errno, "name the disk");
  return delete_subvolume(sandboxes, unfinished);
}

Result<RestorePoint> find_restore_point(const Pool& pool, const SandboxPermit& sandbox,
                                        std::uint64_t memory_mib) {
  SPACE_TRY(const Fd folder, open_folder(pool.sandboxes(), sandbox.id()));
  const auto origin = read_note(folder.get(), origin_note);
  if (!origin) return wrap(origin.error(), "the disk came from no snapshot with memory");
  const auto snapshot = open_folder(pool.snapshots(), *origin);
  if (!snapshot) return wrap(snapshot.error(), "the snapshot that the disk came from is gone");
  RestorePoint point;
  SPACE_TRY(point.memory, open_beneath(snapshot->get(), memory_file, O_RDONLY));
  SPACE_TRY(point.bundle, read_note(snapshot->get(), vmm_note));
  struct stat status{};
  if (::fstat(point.memory.get(), &status) != 0) return fail_errno(errno, "stat the memory");
  if (static_cast<std::uint64_t>(status.st_size) != memory_mib * mib_bytes)
    return fail(Code::invalid_argument, "the snapshot's memory has {} MiB, {} were asked for",
                static_cast<std::uint64_t>(status.st_size) / mib_bytes, memory_mib);
  return point;
}

Result<std::vector<SnapshotName>> snapshots_in(const Pool& pool) {
  std::vector<SnapshotName> found;
  SPACE_TRY(const auto sandboxes, names_in(pool.snapshots()));
  for (const std::string& sandbox : sandboxes) {
    const auto folder = open_folder(pool.snapshots(), sandbox);
    if (!folder) continue;  // removed meanwhile
    SPACE_TRY(const auto names, names_in(folder->get()));
    for (const std::string& name : names) {
      std::uint64_t number = 0;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
      if (error == std::errc() && end == name.data() + name.size()) found.push_back({sandbox, number});
    }
  }
  return found;
}

Result<std::vector<std::string>> bundles_of_snapshots(const Pool& pool) {
  std::vector<std::string> bundles;
  SPACE_TRY(const auto snapshots, snapshots_in(pool));
  for (const SnapshotName& snapshot : snapshots) {
    SPACE_TRY(const Fd folder, open_folder(pool.snapshots(), text_of(snapshot.sandbox, snapshot.number)));
    auto bundle = read_note(folder.get(), vmm_note);
    if (!bundle && bundle.error().code == Code::not_found) continue;  // it is of the disk only
    if (!bundle) return std::unexpected(bundle.error());
    bundles.push_back(*std::move(bundle));
  }
  return bundles;
}

}  // namespace space::priv
