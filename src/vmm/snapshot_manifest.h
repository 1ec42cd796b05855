// SnapshotManifest: what a snapshot is of and what it can be restored on (api/snapshot-manifest.md). Pure
// and fuzzed: it is written by us, but lies for weeks in a place that others may come to write to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "core/snapshot.h"
#include "vmm/command_line.h"

namespace space::vmm {

inline constexpr std::size_t snapshot_manifest_limit_bytes = 16 * 1024;

std::string_view to_string(Accelerator accelerator);  // "tcg", "kvm"

struct SnapshotManifest {
  struct Shape {
    std::int64_t vcpus = 1;
    std::int64_t memory_mib = 512;
    std::int64_t disk_mib = 4096;
    bool operator==(const Shape&) const = default;
  };

  SnapshotKind kind = SnapshotKind::full;
  std::string sandbox;
  std::int64_t number = 1;
  std::optional<std::int64_t> parent;  // the number of the snapshot it followed
  std::string created_at;              // RFC 3339
  std::string template_digest;
  Shape shape;
  // These four of a full one only: a disk boots on any machine.
  std::int64_t machine = machine_revision;
  Accelerator accelerator = Accelerator::tcg;
  std::string cpu;            // as cpu_model gives it
  std::string qemu;           // "10.0.2"
  std::string kernel_sha256;  // this and the next two: "" when its node no longer knew the template
  std::string initramfs_sha256;
  std::string daemon;  // version
  bool quiesced = false;
  std::int64_t generation = 0;

  bool operator==(const SnapshotManifest&) const = default;
};

// What this node would run a snapshot on.
struct NodeMachine {
  std::int64_t machine = machine_revision;
  Accelerator accelerator = Accelerator::tcg;
  std::string cpu;
  std::string kernel_sha256;  // of the vmlinuz in the snapshot; empty: it is not compared
};

// One line of JSON.
std::string to_text(const SnapshotManifest& manifest);
// invalid_argument naming the member that is missing or wrong; unknown members are ignored.
Result<SnapshotManifest> parse_snapshot_manifest(std::string_view text);

// Of a full one. conflict with the reason: "the snapshot was taken with the accelerator kvm, this node has
// tcg".
Result<void> check_restorable(const SnapshotManifest& snapshot, const NodeMachine& node);

// The processor as a guest sees it. Under TCG it is QEMU's own and the same everywhere; under KVM it is the
// host's, told apart by what /proc/cpuinfo says of the first processor (vendor, family, model, stepping,
// flags). At most 100 bytes.
std::string cpu_model(Accelerator accelerator, std::string_view cpuinfo);

}  // namespace space::vmm
