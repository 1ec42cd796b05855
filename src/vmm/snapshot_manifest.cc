#include "vmm/snapshot_manifest.h"

#include <algorithm>
#include <array>

#include "base/ids.h"
#include "base/json.h"
#include "base/sha256.h"

namespace space::vmm {
namespace {

constexpr std::int64_t format = 1;
constexpr std::int64_t number_max = 1'000'000'000;  // as in api/noded.h
constexpr std::int64_t size_max = std::int64_t{1} << 40;
constexpr std::size_t word_limit_bytes = 128;

Result<std::string> word(const JsonObject& object, std::string_view key) {
  SPACE_TRY(std::string text, require_text(object, key));
  if (text.empty() || text.size() > word_limit_bytes)
    return fail(Code::invalid_argument, "{}: not 1 to {} bytes", key, word_limit_bytes);
  return text;
}

Result<std::string> digest(const JsonObject& object, std::string_view key) {
  SPACE_TRY(std::string text, require_text(object, key));
  if (!is_digest(text)) return fail(Code::invalid_argument, "{}: not 64 hexadecimal digits", key);
  return text;
}

// What a node no longer knew of a template that is gone is absent.
Result<std::string> digest_if_known(const JsonObject& object, std::string_view key) {
  if (!object.contains(key)) return std::string();
  return digest(object, key);
}

Result<SnapshotManifest::Shape> parse_shape(const JsonObject& manifest) {
  SPACE_TRY(const JsonObject* object, object_member(manifest, "shape"));
  if (object == nullptr) return fail(Code::invalid_argument, "shape: missing");
  SnapshotManifest::Shape shape;
  SPACE_TRY(shape.vcpus, require_int(*object, "vcpus", 1, size_max));
  SPACE_TRY(shape.memory_mib, require_int(*object, "memory_mib", 1, size_max));
  SPACE_TRY(shape.disk_mib, require_int(*object, "disk_mib", 1, size_max));
  return shape;
}

Result<Accelerator> parse_accelerator(const JsonObject& manifest) {
  SPACE_TRY(const std::string name, require_text(manifest, "accelerator"));
  for (const Accelerator known : {Accelerator::tcg, Accelerator::kvm})
    if (name == to_string(known)) return known;
  return fail(Code::invalid_argument, "accelerator: neither tcg nor kvm");
}

// Manifests that are older than disk snapshots name none.
Result<SnapshotKind> parse_kind(const JsonObject& manifest) {
  SPACE_TRY(const auto name, text_member(manifest, "kind"));
  if (!name) return SnapshotKind::full;
  const auto kind = snapshot_kind_from(*name);
  if (!kind) return fail(Code::invalid_argument, "kind: neither full nor disk");
  return *kind;
}

Result<void> parse_machine(const JsonObject& object, SnapshotManifest& manifest) {
  SPACE_TRY(manifest.machine, require_int(object, "machine", 0, size_max));
  SPACE_TRY(manifest.accelerator, parse_accelerator(object));
  SPACE_TRY(manifest.cpu, word(object, "cpu"));
  SPACE_TRY(manifest.qemu, word(object, "qemu"));
  return {};
}

}  // namespace

std::string_view to_string(Accelerator accelerator) {
  return accelerator == Accelerator::kvm ? "kvm" : "tcg";
}

std::string to_text(const SnapshotManifest& manifest) {
  const auto& shape = manifest.shape;
  JsonObject object;
  object["format"] = format;
  object["kind"] = space::to_string(manifest.kind);
  object["sandbox"] = manifest.sandbox;
  object["number"] = manifest.number;
  object["parent"] = manifest.parent ? Json(*manifest.parent) : Json(nullptr);
  object["created_at"] = manifest.created_at;
  object["template"] = manifest.template_digest;
  object["shape"] =
      JsonObject{{"vcpus", shape.vcpus}, {"memory_mib", shape.memory_mib}, {"disk_mib", shape.disk_mib}};
  if (manifest.kind == SnapshotKind::full) {
    object["machine"] = manifest.machine;
    object["accelerator"] = to_string(manifest.accelerator);
    object["cpu"] = manifest.cpu;
    object["qemu"] = manifest.qemu;
  }
  if (!manifest.kernel_sha256.empty()) object["kernel"] = manifest.kernel_sha256;
  if (!manifest.initramfs_sha256.empty()) object["initramfs"] = manifest.initramfs_sha256;
  if (!manifest.daemon.empty()) object["daemon"] = manifest.daemon;
  object["quiesced"] = manifest.quiesced;
  object["generation"] = manifest.generation;
  return space::to_text(object) + "\n";
}

Result<SnapshotManifest> parse_snapshot_manifest(std::string_view text) {
  if (text.size() > snapshot_manifest_limit_bytes)
    return fail(Code::invalid_argument, "snapshot manifest longer than {} bytes",
                snapshot_manifest_limit_bytes);
  SPACE_TRY(const JsonObject object, parse_json_object(text, "snapshot manifest"));
  SPACE_TRY(const std::int64_t found, require_int(object, "format", 0, size_max));
  if (found != format) return fail(Code::invalid_argument, "format: {}, where {} is known", found, format);

  SnapshotManifest manifest;
  SPACE_TRY(manifest.kind, parse_kind(object));
  SPACE_TRY(manifest.sandbox, require_text(object, "sandbox"));
  if (!is_sandbox_id(manifest.sandbox)) return fail(Code::invalid_argument, "sandbox: not an id");
  SPACE_TRY(manifest.number, require_int(object, "number", 1, number_max));
  SPACE_TRY(manifest.parent, int_member(object, "parent", 1, number_max));
  SPACE_TRY(manifest.created_at, word(object, "created_at"));
  SPACE_TRY(manifest.template_digest, digest(object, "template"));
  SPACE_TRY(manifest.shape, parse_shape(object));
  if (manifest.kind == SnapshotKind::full) SPACE_CHECK(parse_machine(object, manifest));
  SPACE_TRY(manifest.kernel_sha256, digest_if_known(object, "kernel"));
  SPACE_TRY(manifest.initramfs_sha256, digest_if_known(object, "initramfs"));
  if (object.contains("daemon")) {
    SPACE_TRY(manifest.daemon, word(object, "daemon"));
  }
  SPACE_TRY(const auto quiesced, bool_member(object, "quiesced"));
  if (!quiesced) return fail(Code::invalid_argument, "quiesced: missing");
  manifest.quiesced = *quiesced;
  SPACE_TRY(manifest.generation, require_int(object, "generation", 0, size_max));
  return manifest;
}

Result<void> check_restorable(const SnapshotManifest& snapshot, const NodeMachine& node) {
  const auto differs = [](std::string_view what, const auto& taken, const auto& here) {
    return fail(Code::conflict, "the snapshot was taken with {} {}, this node has {}", what, taken, here);
  };
  if (snapshot.kind != SnapshotKind::full)
    return fail(Code::conflict, "the snapshot is of the disk only: it holds no memory to go on with");
  if (snapshot.machine != node.machine) return differs("machine revision", snapshot.machine, node.machine);
  if (snapshot.accelerator != node.accelerator)
    return differs("the accelerator", to_string(snapshot.accelerator), to_string(node.accelerator));
  if (snapshot.cpu != node.cpu) return differs("the processor", snapshot.cpu, node.cpu);
  if (!node.kernel_sha256.empty() && snapshot.kernel_sha256 != node.kernel_sha256)
    return differs("the guest kernel", snapshot.kernel_sha256, node.kernel_sha256);
  return {};
}

std::string cpu_model(Accelerator accelerator, std::string_view cpuinfo) {
  if (accelerator == Accelerator::tcg) return "max,-erms,-fsrm";
  // The keys of the first processor's block, in any order the kernel likes.
  static constexpr auto keys =
      std::to_array<std::string_view>({"vendor_id", "cpu family", "model", "stepping", "flags"});
  std::array<std::string_view, keys.size()> values{};
  std::string_view block = cpuinfo.substr(0, cpuinfo.find("\n\n"));
  while (!block.empty()) {
    const std::string_view line = block.substr(0, block.find('\n'));
    block.remove_prefix(std::min(line.size() + 1, block.size()));
    const auto colon = line.find(':');
    const std::string_view name = line.substr(0, line.find_first_of("\t:"));
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (name == keys[i] && colon != line.npos) values[i] = line.substr(std::min(colon + 2, line.size()));
  }
  // What counts is that it is the same; the list of flags is too long to show.
  const auto cut = [&](std::size_t i) { return values[i].substr(0, 16); };
  return fmt::format("host {} {} {} {} {}", cut(0), cut(1), cut(2), cut(3),
                     sha256_hex(values[4]).substr(0, 16));
}

}  // namespace space::vmm
