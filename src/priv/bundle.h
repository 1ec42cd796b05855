// The bundle: what a VMM sees as its whole file system. A copy of its program, of the libraries that one
// loads and of its firmware, in <state>/vmm/<name>/, plus three empty files on which memory base, kernel and
// initramfs of a sandbox are mounted. Owned by root, and nobody can write it. A package upgrade of QEMU or of
// a library makes another bundle, named by the hash of where each file came from; VMs that run and snapshots
// keep theirs.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "priv/layout.h"

namespace space::priv {

// Names in a bundle.
inline constexpr const char* bundle_program = "vmm";
inline constexpr const char* bundle_memory = "memory";
inline constexpr const char* bundle_kernel = "kernel";
inline constexpr const char* bundle_initramfs = "initramfs";
// Readable by everybody, and beneath no Landlock rule: being refused it proves that Landlock is on.
inline constexpr const char* bundle_canary = "landlock-canary";

// Makes what is not there yet: some 40 MB, copied once. `program` is absolute, and only root may be able to
// write it. Runs the dynamic loader to list the libraries, nothing of the program itself. Blocks.
// Returns its name.
Result<std::string> prepare_bundle(const Layout& layout, const std::string& program);
Result<void> remove_other_bundles(const Layout& layout, const std::set<std::string>& kept);

// Pure: the absolute paths out of the loader's list, "libz.so.1 => /lib/libz.so.1 (0x...)" a line.
std::vector<std::string> libraries_in(std::string_view list);

}  // namespace space::priv
