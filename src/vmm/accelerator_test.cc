#include "vmm/accelerator.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/fd.h"

namespace space::vmm {
namespace {

const ProbeRecord works{"boot-1", true, "a guest booted under KVM"};
const ProbeRecord fails{"boot-1", false, "a guest did not answer under KVM within 8 s"};

TEST(Accelerator, WithoutADeviceItIsTcgWhateverWasRemembered) {
  const auto choice = decide({.kvm_device = false, .boot_id = "boot-1", .remembered = works});
  EXPECT_EQ(choice.accelerator, Accelerator::tcg);
  EXPECT_FALSE(choice.needs_probe);
}

TEST(Accelerator, ADeviceAloneProvesNothing) {
  const auto choice = decide({.kvm_device = true, .boot_id = "boot-1", .remembered = std::nullopt});
  EXPECT_EQ(choice.accelerator, Accelerator::tcg);
  EXPECT_TRUE(choice.needs_probe);
}

TEST(Accelerator, TheRecordOfThisBootDecides) {
  const auto good = decide({.kvm_device = true, .boot_id = "boot-1", .remembered = works});
  EXPECT_EQ(good.accelerator, Accelerator::kvm);
  EXPECT_FALSE(good.needs_probe);
  const auto bad = decide({.kvm_device = true, .boot_id = "boot-1", .remembered = fails});
  EXPECT_EQ(bad.accelerator, Accelerator::tcg);
  EXPECT_FALSE(bad.needs_probe);
  EXPECT_EQ(bad.reason, fails.reason);
}

TEST(Accelerator, ARecordOfAnotherBootIsForgotten) {
  const auto choice = decide({.kvm_device = true, .boot_id = "boot-2", .remembered = works});
  EXPECT_EQ(choice.accelerator, Accelerator::tcg);
  EXPECT_TRUE(choice.needs_probe);
}

TEST(Accelerator, RecordsSurviveTheirText) {
  for (const auto& record : {works, fails, ProbeRecord{"b", true, "a \"quoted\"\nreason"}}) {
    EXPECT_EQ(parse_probe_record(format_probe_record(record)), record);
  }
  const std::string text = format_probe_record(works);
  for (std::size_t length = 0; length + 1 < text.size(); ++length) {
    EXPECT_FALSE(parse_probe_record(text.substr(0, length))) << length;
  }
  EXPECT_FALSE(parse_probe_record(R"({"boot_id":"b","kvm_works":"yes","reason":""})"));
}

TEST(Accelerator, ReadsThisMachine) {
  const std::string path = testing::TempDir() + "accelerator-record";
  unlink(path.c_str());
  auto facts = read_accelerator_facts(path);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->boot_id.size(), 36u);
  EXPECT_FALSE(facts->remembered);

  ASSERT_TRUE(write_file_durably(path, format_probe_record({facts->boot_id, true, "tried"}), 0600));
  facts = read_accelerator_facts(path);
  ASSERT_TRUE(facts && facts->remembered);
  EXPECT_EQ(facts->remembered->boot_id, facts->boot_id);
  unlink(path.c_str());
}

TEST(Accelerator, MeasuresTheSameFrequencyTwice) {
  const auto first = host_tsc_khz();
  const auto second = host_tsc_khz();
  ASSERT_TRUE(first && second);
  EXPECT_NEAR(*first, *second, *first / 1000.0);
}

}  // namespace
}  // namespace space::vmm
