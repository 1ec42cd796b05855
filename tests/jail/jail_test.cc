// The jail layer by layer: the probe in the whole of it, without each layer in turn, and outside.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "tests/jail/expected.h"
#include "tests/jail/harness.h"
#include "tests/jail/matrix.h"

namespace space::jail {
namespace {

using noded::Accelerator;

std::vector<priv::JailLayer> layers_without(const std::vector<std::string>& names) {
  std::vector<priv::JailLayer> kept;
  for (const priv::JailLayer& layer : priv::jail_layers())
    if (std::ranges::find(names, layer.name) == names.end()) kept.push_back(layer);
  return kept;
}

// One harness an accelerator, and what every jail so far made of the probe.
struct Trial {
  explicit Trial(Accelerator accelerator) : harness(accelerator) {
    columns.push_back({"whole jail", harness.in_jail(layers_without({}))});
  }
  const Outcomes& full() const { return columns.front().outcomes; }
  void add(const std::string& title, Outcomes outcomes) { columns.push_back({title, std::move(outcomes)}); }

  Harness harness;
  std::vector<Column> columns;
};

std::map<Accelerator, std::unique_ptr<Trial>> runs;

Trial& run_for(Accelerator accelerator) {
  auto& run = runs[accelerator];
  if (!run) run = std::make_unique<Trial>(accelerator);
  return *run;
}

const char* name_of(Accelerator accelerator) {
  return accelerator == Accelerator::kvm ? "kvm" : "tcg";
}

class PrintAtEnd : public testing::Environment {
 public:
  void TearDown() override {
    for (const auto& [accelerator, run] : runs)
      print_matrix(fmt::format("jail of {}; each column is the whole jail without one layer, '.' = no change",
                               name_of(accelerator)),
                   run->harness.rows(), run->columns);
    runs.clear();
  }
};
const auto* const at_end = testing::AddGlobalTestEnvironment(new PrintAtEnd);

// Empty when they are the same, `any` matching what only must have changed.
std::string difference(const Outcomes& expected, const Outcomes& found) {
  std::string text;
  for (const auto& [row, outcome] : expected)
    if (const auto there = found.find(row); there == found.end())
      text += fmt::format("  {}: expected {}, but nothing changed\n", row, outcome);
    else if (outcome != any && there->second != outcome)
      text += fmt::format("  {}: expected {}, found {}\n", row, outcome, there->second);
  for (const auto& [row, outcome] : found)
    if (!expected.contains(row)) text += fmt::format("  {}: changed to {}\n", row, outcome);
  return text;
}

void expect_changes(const Outcomes& expected, const Outcomes& before, const Outcomes& now) {
  if (expected.contains("every-row")) {
    for (const auto& [row, outcome] : now) EXPECT_EQ(outcome, expected.at("every-row")) << row;
    return;
  }
  EXPECT_EQ(difference(expected, changed(before, now)), "");
}

class Jail : public testing::TestWithParam<Accelerator> {
 protected:
  Trial& run_ = run_for(GetParam());
};

TEST_P(Jail, HoldsAgainstEveryRow) {
  EXPECT_EQ(difference(expected_in_full_jail(GetParam()), run_.full()), "");
  EXPECT_EQ(run_.full().size(), run_.harness.rows().size());
}

class WithoutLayer : public testing::TestWithParam<std::tuple<Accelerator, const char*>> {
 protected:
  const std::string layer_ = std::get<1>(GetParam());
  Trial& run_ = run_for(std::get<0>(GetParam()));
};

TEST_P(WithoutLayer, ExactlyItsRowsTurnRed) {
  const auto kept = layers_without({layer_});
  ASSERT_EQ(kept.size() + 1, priv::jail_layers().size());
  const Outcomes now = run_.harness.in_jail(kept);
  run_.add(layer_, now);
  expect_changes(expected_without().at(layer_), run_.full(), now);
}

// What shows that Landlock is on lies in the root of the jail.
bool falls_with(const std::string& reported, const std::string& removed) {
  return reported == removed || (removed == "root" && reported == "landlock");
}

TEST_P(WithoutLayer, TheReportShowsIt) {
  const auto readings = run_.harness.report(layers_without({layer_}));
  if (layer_ == "no_new_privs") {
    EXPECT_TRUE(readings.empty()) << "without it neither Landlock nor seccomp may be put on: no start";
    return;
  }
  ASSERT_GE(readings.size(), priv::jail_layers().size());
  using State = priv::LayerReading::State;
  for (const priv::LayerReading& reading : readings) {
    if (reading.layer == "qemu sandbox") continue;  // QEMU's own, and the probe has none
    EXPECT_EQ(reading.state, falls_with(reading.layer, layer_) ? State::off : State::active)
        << reading.layer << ": " << reading.detail;
  }
}

TEST_P(Jail, TheReportShowsEveryLayer) {
  const auto readings = run_.harness.report(layers_without({}));
  std::size_t found = 0;
  for (const priv::JailLayer& layer : priv::jail_layers())
    for (const priv::LayerReading& reading : readings)
      if (reading.layer == layer.name) {
        ++found;
        EXPECT_EQ(reading.state, priv::LayerReading::State::active)
            << reading.layer << ": " << reading.detail;
      }
  EXPECT_EQ(found, priv::jail_layers().size());
}

// With seccomp in place it is the answer to most rows, whatever lies behind. Here it is down as well.
class SecondWall : public testing::TestWithParam<const char*> {};

TEST_P(SecondWall, ExactlyItsRowsTurnRed) {
  Trial& run = run_for(Accelerator::tcg);
  static const Outcomes without_seccomp = run.harness.in_jail(layers_without({"seccomp"}));
  const std::string layer = GetParam();
  const auto now = run.harness.in_jail(layers_without({"seccomp", layer}));
  expect_changes(expected_without_seccomp_and().at(layer), without_seccomp, now);
  run.add("seccomp+" + layer, now);
}

// The probe can see success: each row comes out otherwise somewhere, if only outside.
class Outside : public testing::TestWithParam<Accelerator> {};

TEST_P(Outside, EveryRowCanComeOutOtherwise) {
  Trial& run = run_for(GetParam());
  run.add("outside, root", run.harness.outside_as(0));
  run.add("outside, uid", run.harness.outside_as(1));
  for (const std::string& row : run.harness.rows()) {
    const bool differs = std::ranges::any_of(run.columns, [&](const Column& column) {
      const std::string& outcome = column.outcomes.at(row);
      return outcome != refused_to_start && outcome != run.full().at(row);
    });
    EXPECT_NE(differs, same_everywhere().contains(row)) << row;
  }
  for (const auto& column : {run.columns.end()[-1], run.columns.end()[-2]})
    for (const auto& [row, outcome] : column.outcomes) EXPECT_NE(outcome, refused_to_start) << row;
}

std::vector<const char*> layer_names() {
  std::vector<const char*> names;
  for (const priv::JailLayer& layer : priv::jail_layers()) names.push_back(layer.name);
  return names;
}
std::vector<const char*> names_before_seccomp() {
  auto names = layer_names();
  std::erase_if(names, [](std::string_view name) { return name == "seccomp" || name == "no_new_privs"; });
  return names;
}
std::string word(std::string text) {
  std::ranges::replace_if(text, [](char letter) { return letter == ' '; }, '_');
  return text;
}

INSTANTIATE_TEST_SUITE_P(A, Jail, testing::Values(Accelerator::tcg, Accelerator::kvm),
                         [](const auto& info) { return std::string(name_of(info.param)); });
INSTANTIATE_TEST_SUITE_P(B, WithoutLayer,
                         testing::Combine(testing::Values(Accelerator::tcg, Accelerator::kvm),
                                          testing::ValuesIn(layer_names())),
                         [](const auto& info) {
                           return fmt::format("{}_{}", name_of(std::get<0>(info.param)),
                                              word(std::get<1>(info.param)));
                         });
INSTANTIATE_TEST_SUITE_P(C, SecondWall, testing::ValuesIn(names_before_seccomp()),
                         [](const auto& info) { return word(info.param); });
// The last: it looks at all of the columns.
INSTANTIATE_TEST_SUITE_P(D, Outside, testing::Values(Accelerator::tcg),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace space::jail
