#include "vmm/snapshot_manifest.h"

#include <gtest/gtest.h>

#include <set>

#include "base/json.h"

namespace space::vmm {
namespace {

SnapshotManifest example() {
  SnapshotManifest manifest;
  manifest.sandbox = "i0123456789abcdefghj";
  manifest.number = 7;
  manifest.parent = 6;
  manifest.created_at = "2026-01-02T03:04:05.678Z";
  manifest.template_digest = std::string(64, 'a');
  manifest.shape = {.vcpus = 2, .memory_mib = 1024, .disk_mib = 8192};
  manifest.cpu = cpu_model(Accelerator::tcg, "");
  manifest.qemu = "10.0.2";
  manifest.kernel_sha256 = std::string(64, 'b');
  manifest.initramfs_sha256 = std::string(64, 'c');
  manifest.daemon = "0.4.0";
  manifest.quiesced = true;
  manifest.generation = 3;
  return manifest;
}

NodeMachine node_of(const SnapshotManifest& manifest) {
  return {.machine = manifest.machine,
          .accelerator = manifest.accelerator,
          .cpu = manifest.cpu,
          .kernel_sha256 = manifest.kernel_sha256};
}

TEST(SnapshotManifest, IsReadAsItWasWritten) {
  SnapshotManifest manifest = example();
  EXPECT_EQ(parse_snapshot_manifest(to_text(manifest)).value(), manifest);
  manifest.parent.reset();
  manifest.accelerator = Accelerator::kvm;
  manifest.quiesced = false;
  EXPECT_EQ(parse_snapshot_manifest(to_text(manifest)).value(), manifest);
  SnapshotManifest other = manifest;
  other.generation = 4;
  EXPECT_NE(parse_snapshot_manifest(to_text(other)).value(), manifest);
}

TEST(SnapshotManifest, OfADiskNamesNoMachine) {
  SnapshotManifest manifest = example();
  manifest.kind = SnapshotKind::disk;
  const std::string text = to_text(manifest);
  for (const char* member : {"\"machine\"", "\"accelerator\"", "\"cpu\"", "\"qemu\""}) {
    EXPECT_EQ(text.find(member), text.npos) << member;
    EXPECT_NE(to_text(example()).find(member), text.npos) << member;
  }
  const SnapshotManifest parsed = parse_snapshot_manifest(text).value();
  EXPECT_EQ(parsed.kind, SnapshotKind::disk);
  EXPECT_EQ(parsed.template_digest, manifest.template_digest);
  EXPECT_EQ(check_restorable(parsed, node_of(example())).error().code, Code::conflict);
  EXPECT_TRUE(check_restorable(example(), node_of(example())));
}

// The contract's names: another version of ours reads it.
TEST(SnapshotManifest, HasTheContractsMembers) {
  EXPECT_EQ(
      to_text(example()),
      R"({"format":1,"kind":"full","sandbox":"i0123456789abcdefghj","number":7,"parent":6,"created_at":"2026-01-02T03:04:05.678Z",)"
      R"("template":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",)"
      R"("shape":{"vcpus":2,"memory_mib":1024,"disk_mib":8192},"machine":1,"accelerator":"tcg",)"
      R"("cpu":"max,-erms,-fsrm","qemu":"10.0.2",)"
      R"("kernel":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",)"
      R"("initramfs":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",)"
      R"("daemon":"0.4.0","quiesced":true,"generation":3})"
      "\n");
}

TEST(SnapshotManifest, EachMemberIsNeededAndChecked) {
  const JsonObject whole = parse_json_object(to_text(example()), "test").value();
  // What a node need not know of a template that is gone.
  const std::set<std::string_view> optional = {"kind", "parent", "kernel", "initramfs", "daemon"};
  for (const auto& member : whole) {
    JsonObject without = whole;
    without.erase(member.key());
    const auto parsed = parse_snapshot_manifest(space::to_text(without));
    EXPECT_EQ(parsed.has_value(), optional.contains(member.key())) << member.key();
    if (!parsed) EXPECT_NE(parsed.error().message.find(std::string(member.key())), std::string::npos);

    JsonObject wrong = whole;
    wrong[member.key()] = JsonArray();
    EXPECT_EQ(parse_snapshot_manifest(space::to_text(wrong)).error().code, Code::invalid_argument)
        << member.key();
  }
}

TEST(SnapshotManifest, ValuesOutOfTheirBoundsAreRefused) {
  const JsonObject whole = parse_json_object(to_text(example()), "test").value();
  const std::pair<const char*, const char*> bad[] = {
      {"format", "2"},         {"number", "0"},         {"number", "-1"},          {"parent", "0"},
      {"sandbox", "\"../x\""}, {"template", "\"abc\""}, {"kernel", "\"B\""},       {"accelerator", "\"hvf\""},
      {"cpu", "\"\""},         {"generation", "-1"},    {"shape", "{\"vcpus\":1}"}};
  for (const auto& [key, value] : bad) {
    JsonObject changed = whole;
    changed[key] = parse_json(value).value();
    EXPECT_FALSE(parse_snapshot_manifest(space::to_text(changed))) << key;
  }
  SnapshotManifest long_word = example();
  long_word.qemu = std::string(129, '1');
  EXPECT_FALSE(parse_snapshot_manifest(to_text(long_word)));
  JsonObject more = whole;
  more["of_a_later_version"] = 1;
  EXPECT_TRUE(parse_snapshot_manifest(space::to_text(more)));
  EXPECT_FALSE(parse_snapshot_manifest(to_text(example()) + std::string(snapshot_manifest_limit_bytes, ' ')));
  EXPECT_FALSE(parse_snapshot_manifest(""));
}

TEST(SnapshotManifest, IsRefusedOnAnotherMachineWithTheReason) {
  const SnapshotManifest manifest = example();
  const NodeMachine same = node_of(manifest);
  EXPECT_TRUE(check_restorable(manifest, same));

  NodeMachine node = same;
  node.machine = machine_revision + 1;
  EXPECT_EQ(check_restorable(manifest, node).error().message,
            "the snapshot was taken with machine revision 1, this node has 2");
  node = same;
  node.accelerator = Accelerator::kvm;
  EXPECT_EQ(check_restorable(manifest, node).error().message,
            "the snapshot was taken with the accelerator tcg, this node has kvm");
  node = same;
  node.cpu = "host GenuineIntel 6 1 1 0";
  EXPECT_EQ(check_restorable(manifest, node).error().code, Code::conflict);
  node = same;
  node.kernel_sha256 = std::string(64, 'd');
  EXPECT_EQ(check_restorable(manifest, node).error().code, Code::conflict);
  node.kernel_sha256.clear();
  EXPECT_TRUE(check_restorable(manifest, node)) << "it brings its own kernel";
}

TEST(CpuModel, IsTheHostsUnderKvmOnly) {
  const std::string info =
      "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\nmodel name\t: Xeon\n"
      "stepping\t: 6\ncpu MHz\t\t: 2900.123\nflags\t\t: fpu vme\n\nprocessor\t: 1\nmodel\t\t: 99\n\n";
  const std::string model = cpu_model(Accelerator::kvm, info);
  EXPECT_EQ(model.substr(0, 26), "host GenuineIntel 6 106 6 ") << model;
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string changed = info;
    changed.replace(changed.find(from), from.size(), to);
    return cpu_model(Accelerator::kvm, changed);
  };
  EXPECT_EQ(with("2900.123", "800.000"), model) << "the frequency of the moment does not matter";
  EXPECT_NE(with("fpu vme", "fpu vme avx"), model);
  EXPECT_NE(with(": 106", ": 107"), model);
  EXPECT_NE(cpu_model(Accelerator::tcg, info), model);
  EXPECT_EQ(cpu_model(Accelerator::tcg, info), cpu_model(Accelerator::tcg, ""));
  std::string wide;
  for (int i = 0; i < 1000; ++i) wide += "\xe6\xbc\xa2";
  const std::string longest =
      cpu_model(Accelerator::kvm, "vendor_id\t: " + wide + "\nmodel\t: " + wide + "\n");
  EXPECT_LE(longest.size(), 100u);
  EXPECT_GT(longest.size(), 50u);
}

}  // namespace
}  // namespace space::vmm
