// The disk pool: a btrfs in a sparse file on a loop device, and the templates in it.
#include <fmt/core.h>

#include <algorithm>

#include "base/ids.h"
#include "base/json.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/facts.h"

namespace space::cli::doctor {

namespace {

struct Pool {
  std::string image;
  std::string folder;
  std::vector<Mount> mounts;

  Pool(const Machine& machine, const Installation& installation)
      : image(installation.directories.state + "/pool.img"),
        folder(installation.directories.state + "/pool"),
        mounts(doctor::mounts(machine)) {}
  const Mount* mounted() const { return mounted_at(mounts, folder); }
};

// In bytes; space-noded refuses new sandboxes below it.
std::uint64_t reserve(std::uint64_t total) {
  return std::min(total / 20, gib);
}

Finding check_image(const Machine& machine, const Pool& pool) {
  const auto image = machine.file(pool.image);
  if (!image) {
    if (pool.mounted() == nullptr)
      return warning("pool file", "not made yet", "SPACE was not started here yet",
                     "sudo space up -d makes it");
    return bad("pool file", pool.image + " was removed under the mounted pool",
               "when the pool is unmounted, every sandbox and template in it is gone",
               "do not stop SPACE: copy what you need out of the sandboxes first (space cp or exec)");
  }
  if (!S_ISREG(image->mode) || image->bytes < 256 * mib)
    return bad("pool file", fmt::format("{} is no disk image ({} bytes)", pool.image, image->bytes),
               "the pool cannot be mounted",
               fmt::format("sudo space down --all; mv {0} {0}.broken; sudo space up -d", pool.image));
  if (image->uid != 0 || (image->mode & 077) != 0)
    return bad("pool file",
               fmt::format("{} belongs to uid {}, mode {:o}", pool.image, image->uid, image->permissions()),
               "whoever can read it reads every sandbox's disk",
               fmt::format("chown root:root {0} && chmod 600 {0}", pool.image));
  return good("pool file", fmt::format("{}, {} of it on the disk", size_text(image->bytes),
                                       size_text(image->allocated_bytes)));
}

Finding check_mount(const Machine& machine, const Installation& installation, const Pool& pool) {
  constexpr const char* means = "sandboxes cannot write, or be created";
  const Mount* mounted = pool.mounted();
  if (mounted == nullptr) {
    if (machine.locked(installation.directories.run + "/up.lock"))
      return bad("pool mount", "the platform is up, but the pool is not mounted", means,
                 "sudo space down; sudo space up -d");
    return good("pool mount", "not mounted; 'space up' mounts it");
  }
  if (mounted->type != "btrfs")
    return bad("pool mount", fmt::format("a {} is mounted on {}", mounted->type, pool.folder), means,
               fmt::format("umount {}; sudo space up -d", pool.folder));
  if (mounted->read_only())
    return bad("pool mount", "read-only: btrfs does that after an error of the disk", means,
               fmt::format("dmesg | grep -i btrfs; sudo space down --all; btrfs check {}", pool.image));
  const auto same = std::ranges::count(pool.mounts, pool.folder, &Mount::point);
  if (same > 1)
    return bad("pool mount",
               fmt::format("{} things are mounted on {}, one over the other", same, pool.folder),
               "only the last one is seen; 'space down --all' cannot take it apart", "umount " + pool.folder);
  return good("pool mount", mounted->source);
}

Finding check_loop(const Machine& machine, const Pool& pool) {
  std::vector<std::string> over;
  for (const std::string& name : machine.names("/sys/block")) {
    if (!name.starts_with("loop")) continue;
    const std::string backing = machine.text("/sys/block/" + name + "/loop/backing_file").value_or("");
    if (backing.starts_with(pool.image + "\n") || backing.starts_with(pool.image + " (deleted)"))
      over.push_back("/dev/" + name);
  }
  if (over.size() > 1)
    return bad("pool device",
               fmt::format("{} loop devices lie over the pool file: {}, {}", over.size(), over[0], over[1]),
               "two writers of one file system destroy it",
               "sudo space down --all; losetup -j " + pool.image + "; losetup -d each of them");
  if (!over.empty() && pool.mounted() == nullptr)
    return warning("pool device", over.front() + " lies over the pool file, but the pool is not mounted",
                   "the next 'space up' attaches a second one", "losetup -d " + over.front());
  return good("pool device", over.empty() ? "none attached" : over.front());
}

Finding check_room(const Machine& machine, const Pool& pool) {
  const Mount* mounted = pool.mounted();
  const auto disk = mounted != nullptr && mounted->type == "btrfs" ? machine.disk(pool.folder) : std::nullopt;
  if (!disk) return good("pool room", "not mounted");
  const std::string seen =
      fmt::format("{} of {} free", size_text(disk->free_bytes), size_text(disk->total_bytes));
  const std::string advice =
      "kill sandboxes (space ls; space kill ID), remove templates (space template ls; space template rm "
      "NAME)";
  if (disk->free_bytes <= reserve(disk->total_bytes))
    return bad("pool room", seen, "new sandboxes are refused, running ones wait when they write", advice);
  if (disk->free_bytes < disk->total_bytes / 10)
    return warning("pool room", seen, "new sandboxes will be refused soon", advice);
  return good("pool room", seen);
}

// The file is sparse: what the pool believes to have free must still be found on the disk below it.
Finding check_promise(const Machine& machine, const Installation& installation, const Pool& pool) {
  const auto image = machine.file(pool.image);
  const auto disk = machine.disk(installation.directories.state);
  if (!image || !disk || image->bytes <= image->allocated_bytes)
    return good("pool promise", "nothing promised");
  const std::uint64_t promised = image->bytes - image->allocated_bytes;
  const std::string seen = fmt::format("the pool may still grow by {}, the disk below it has {}",
                                       size_text(promised), size_text(disk->free_bytes));
  if (disk->free_bytes >= std::min(promised, 4 * gib)) return good("pool promise", seen);
  return warning("pool promise", seen, "guests will see write errors on disks that look half empty",
                 fmt::format("free disk space below {}, or kill sandboxes and 'fstrim {}'",
                             installation.directories.state, pool.folder));
}

// nullopt: sound.
std::optional<std::string> fault_of_template(const Machine& machine, const std::string& folder) {
  const auto manifest = machine.text(folder + "/manifest.json");
  if (!manifest) return "manifest.json is missing";
  const auto object = parse_json_object(*manifest, "manifest.json");
  if (!object) return "manifest.json is damaged";
  const auto disk = machine.file(folder + "/disk.raw");
  const auto facts = object_member(*object, "disk");
  const auto size = facts && *facts != nullptr ? require_int(**facts, "size_mib", 1, 1 << 30)
                                               : Result<std::int64_t>(fail(Code::not_found, "none"));
  if (!disk || (size && disk->bytes != static_cast<std::uint64_t>(*size) * mib))
    return "disk.raw is missing or cut";
  if (!machine.text(folder + "/vmlinuz")
           .value_or("")
           .starts_with("\x7f"
                        "ELF"))
    return "vmlinuz is no kernel";
  if (!machine.text(folder + "/initramfs.img").value_or("").starts_with("070701"))
    return "initramfs.img is no initramfs";
  return std::nullopt;
}

Finding check_templates(const Machine& machine, const Pool& pool) {
  if (pool.mounted() == nullptr) return good("template files", "pool not mounted");
  int count = 0;
  for (const std::string& name : machine.names(pool.folder + "/templates")) {
    if (!is_digest(name)) continue;
    ++count;
    if (const auto fault = fault_of_template(machine, pool.folder + "/templates/" + name))
      return bad(
          "template files", fmt::format("{}: {}", name.substr(0, 16), *fault),
          "sandboxes of this template do not boot",
          "space template ls (which one it is), space template rm NAME, sudo space template build NAME");
  }
  return good("template files", fmt::format("{} sound", count));
}

}  // namespace

Section pool_section(const Machine& machine, const Installation& installation) {
  const Pool pool(machine, installation);
  return {"Pool",
          {check_image(machine, pool), check_mount(machine, installation, pool), check_loop(machine, pool),
           check_room(machine, pool), check_promise(machine, installation, pool),
           check_templates(machine, pool)}};
}

}  // namespace space::cli::doctor
