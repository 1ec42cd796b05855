#include "core/start_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/shape.h"

namespace space {
namespace {

std::size_t position(const StartPlan& plan, std::string_view name) {
  const auto step = std::ranges::find(plan, name, [](const Step& s) { return name_of(s.effect); });
  EXPECT_NE(step, plan.end()) << name;
  return static_cast<std::size_t>(step - plan.begin());
}

bool contains(const std::vector<Undo>& undos, Undo wanted) {
  return std::ranges::find(undos, wanted) != undos.end();
}

TEST(StartPlan, CarriesTheSpec) {
  const StartPlan plan = plan_cold_start({"7f", {2, 1024, 8192}, MachineAccelerator::kvm});
  const auto& disk = std::get<effect::CreateDisk>(plan[position(plan, "create disk")].effect);
  EXPECT_EQ(disk.template_digest, "7f");
  EXPECT_EQ(disk.disk_mib, 8192);
  const auto& vmm = std::get<effect::LaunchVmm>(plan[position(plan, "launch VMM")].effect);
  EXPECT_EQ(vmm.vcpus, 2);
  EXPECT_EQ(vmm.memory_mib, 1024);
  EXPECT_EQ(vmm.accelerator, MachineAccelerator::kvm);
}

TEST(StartPlan, WhatTheVmmNeedsComesBeforeIt) {
  const StartPlan plan = plan_cold_start({});
  const std::size_t vmm = position(plan, "launch VMM");
  EXPECT_LT(position(plan, "create network slot"), position(plan, "open gateway"));
  for (const auto* before : {"create disk", "create network slot", "open gateway", "open sockets"})
    EXPECT_LT(position(plan, before), vmm);
  EXPECT_LT(position(plan, "attach channel"), position(plan, "set identity"));
  EXPECT_EQ(position(plan, "initialise guest"), plan.size() - 1);  // its answer is what a create waits for
}

std::vector<StartPlan> every_plan() {
  return {plan_cold_start({}), plan_start_from({}, {{"i", 1}}),
          plan_start_from({}, {{"i", 1}, SnapshotKind::disk}), plan_resume({}, {"i", 1}, EarlierHost::copied),
          plan_boot({})};
}

TEST(StartPlan, EveryStepIsBounded) {
  for (const StartPlan& plan : every_plan())
    for (const Step& step : plan) EXPECT_GT(step.limit, Millis(0)) << name_of(step.effect);
}

TEST(StartPlan, EverythingIsUndoneOnceInReverse) {
  std::vector<Undo> expected;
  for (const Step& step : plan_cold_start({}))
    if (step.undo != Undo::none) expected.insert(expected.begin(), step.undo);
  EXPECT_EQ(undo_everything(), expected);
  EXPECT_EQ(std::set(expected.begin(), expected.end()).size(), expected.size());
}

TEST(StartPlan, OnlyAFirstStartThatFailsTakesTheDiskAlong) {
  const auto removes_disk = [](const StartPlan& plan) {
    return std::ranges::any_of(plan, [](const Step& step) { return step.undo == Undo::remove_disk; });
  };
  EXPECT_TRUE(removes_disk(plan_cold_start({})));
  EXPECT_TRUE(removes_disk(plan_start_from({}, {{"i", 1}})));
  EXPECT_TRUE(removes_disk(plan_start_from({}, {{"i", 1}, SnapshotKind::disk})));
  EXPECT_FALSE(removes_disk(plan_resume({}, {"i", 1}, EarlierHost::copied)));
  EXPECT_FALSE(removes_disk(plan_boot({})));
  EXPECT_FALSE(contains(undo_vmm(), Undo::remove_disk));
  EXPECT_TRUE(contains(undo_everything(), Undo::remove_disk));
}

TEST(StartPlan, NoGuestRunsBeforeItsGatewayAndAFirstStartThatFailsIsForgottenThere) {
  for (const StartPlan& plan : every_plan()) {
    EXPECT_LT(position(plan, "open gateway"), position(plan, "await gateway"));
    EXPECT_LT(position(plan, "await gateway"), position(plan, "attach channel"));
  }
  const StartPlan resumed = plan_resume({}, {"i", 1}, EarlierHost::copied);
  EXPECT_LT(position(resumed, "await gateway"), position(resumed, "continue"));
  EXPECT_EQ(resumed[position(resumed, "open gateway")].undo, Undo::close_gateway);
  for (const StartPlan& first : {plan_cold_start({}), plan_start_from({}, {{"i", 1}}),
                                 plan_start_from({}, {{"i", 1}, SnapshotKind::disk})})
    EXPECT_EQ(first[position(first, "open gateway")].undo, Undo::forget_gateway);
  EXPECT_TRUE(contains(undo_vmm(), Undo::close_gateway));
  EXPECT_TRUE(contains(undo_everything(), Undo::forget_gateway));
}

TEST(StartPlan, ARestoredGuestIsToldAllInOneBeforeAnythingElse) {
  const StartPlan plan = plan_resume({}, {"source", 7}, EarlierHost::copied);
  EXPECT_EQ(std::get<effect::RestoreDisk>(plan.front().effect).number, 7u);
  EXPECT_TRUE(std::get<effect::LaunchVmm>(plan[position(plan, "launch VMM")].effect).restore);
  EXPECT_FALSE(
      std::get<effect::LaunchVmm>(plan_boot({})[position(plan_boot({}), "launch VMM")].effect).restore);
  EXPECT_LT(position(plan, "restore disk"), position(plan, "launch VMM"));
  EXPECT_LT(position(plan, "load state"), position(plan, "continue"));
  EXPECT_LT(position(plan, "continue"), position(plan, "attach channel"));
  EXPECT_EQ(position(plan, "wake guest"), plan.size() - 1);
}

EarlierHost earlier(const StartPlan& plan) {
  return std::get<effect::AttachChannel>(plan[position(plan, "attach channel")].effect).earlier;
}

TEST(StartPlan, ACopyGetsItsDevicesWithItsHostConnectedUnlessItMustSeeTheLastOneGo) {
  const StartPlan template_s = plan_start_from({}, {{"i", 1}});
  const StartPlan forked = plan_start_from({}, {{"i", 1}, SnapshotKind::full, EarlierHost::copied});
  EXPECT_EQ(earlier(template_s), EarlierHost::none);
  EXPECT_EQ(earlier(forked), EarlierHost::copied);
  for (const StartPlan& plan : {template_s, forked, plan_resume({}, {"i", 1}, EarlierHost::copied)})
    EXPECT_LT(position(plan, "connect channel"), position(plan, "load state"));
  const StartPlan cut = plan_resume({}, {"i", 1}, EarlierHost::cut);
  EXPECT_EQ(earlier(cut), EarlierHost::cut);
  EXPECT_TRUE(std::ranges::none_of(
      cut, [](const Step& step) { return std::holds_alternative<effect::ConnectChannel>(step.effect); }));
  EXPECT_EQ(earlier(plan_boot({})), EarlierHost::none);
}

TEST(StartPlan, ASnapshotOfTheDiskBootsAndIsToldAllInOne) {
  const StartPlan plan = plan_start_from({}, {{"source", 7}, SnapshotKind::disk, EarlierHost::copied});
  EXPECT_EQ(std::get<effect::RestoreDisk>(plan.front().effect).number, 7u);
  EXPECT_FALSE(std::get<effect::LaunchVmm>(plan[position(plan, "launch VMM")].effect).restore);
  EXPECT_EQ(position(plan, "wake guest"), plan.size() - 1);
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(plan, [&](const Step& step) { return name_of(step.effect) == name; });
  };
  EXPECT_FALSE(has("load state"));
  EXPECT_FALSE(has("set identity"));
  EXPECT_TRUE(has("attach channel"));
}

TEST(Shape, BoundsAreInclusive) {
  EXPECT_TRUE(check_shape({1, 128, 512}));
  EXPECT_TRUE(check_shape({32, 65536, 1024 * 1024}));
  for (const Shape& wrong :
       {Shape{0, 512, 4096}, Shape{33, 512, 4096}, Shape{1, 127, 4096}, Shape{1, 65537, 4096},
        Shape{1, 512, 511}, Shape{1, 512, 1024 * 1024 + 1}, Shape{-1, 512, 4096}}) {
    const auto checked = check_shape(wrong);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, Code::invalid_argument);
  }
  EXPECT_EQ(check_shape({1, 127, 4096}).error().message, "memory_mib must be between 128 and 65536, not 127");
}

}  // namespace
}  // namespace space
