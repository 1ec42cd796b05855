#include "sandboxd/isolation.h"

#include <gtest/gtest.h>

#include <cstring>

namespace space {
namespace {

using noded::IsolationRecord;
using noded::LayerState;

IsolationRecord record(std::string_view layer, LayerState state, std::string_view detail) {
  IsolationRecord result{};
  result.state = state;
  layer.copy(result.layer, sizeof result.layer);
  detail.copy(result.detail, sizeof result.detail);
  return result;
}

std::string content(const std::vector<IsolationRecord>& records) {
  return {reinterpret_cast<const char*>(records.data()), records.size() * sizeof(IsolationRecord)};
}

const IsolationRecord seccomp = record("seccomp", LayerState::active, "2 filters");

TEST(Isolation, EveryLayerAsItWasSent) {
  const auto layers = decode_isolation(content({seccomp, record("landlock", LayerState::unavailable, ""),
                                                record("identity", LayerState::off, "uid 0")}));
  ASSERT_TRUE(layers);
  EXPECT_EQ(*layers, (std::vector<IsolationLayer>{{"seccomp", LayerState::active, "2 filters"},
                                                  {"landlock", LayerState::unavailable, ""},
                                                  {"identity", LayerState::off, "uid 0"}}));
  EXPECT_EQ(to_text(to_json(*layers)), R"([{"name":"seccomp","state":"active","detail":"2 filters"},)"
                                       R"({"name":"landlock","state":"unavailable","detail":""},)"
                                       R"({"name":"identity","state":"off","detail":"uid 0"}])");
}

TEST(Isolation, TheLongestTextsThatEnd) {
  const auto longest =
      decode_isolation(content({record(std::string(sizeof seccomp.layer - 1, 'l'), LayerState::active,
                                       std::string(sizeof seccomp.detail - 1, 'd'))}));
  ASSERT_TRUE(longest);
  EXPECT_EQ(longest->front().detail, std::string(sizeof seccomp.detail - 1, 'd'));
  EXPECT_FALSE(
      decode_isolation(content({record(std::string(sizeof seccomp.layer, 'l'), LayerState::active, "")})));
  EXPECT_FALSE(decode_isolation(
      content({record("seccomp", LayerState::active, std::string(sizeof seccomp.detail, 'd'))})));
}

TEST(Isolation, AtMost64AndAtLeastOne) {
  EXPECT_TRUE(decode_isolation(content(std::vector(isolation_layers_max, seccomp))));
  EXPECT_FALSE(decode_isolation(content(std::vector(isolation_layers_max + 1, seccomp))));
  EXPECT_FALSE(decode_isolation(""));
}

TEST(Isolation, CutOrExtendedRecordsAreRefused) {
  const std::string whole = content({seccomp, seccomp});
  ASSERT_TRUE(decode_isolation(whole));
  for (std::size_t size = 1; size < whole.size(); ++size)
    if (size != sizeof seccomp) EXPECT_FALSE(decode_isolation(whole.substr(0, size))) << size;
  EXPECT_FALSE(decode_isolation(whole + "x"));
}

TEST(Isolation, UnknownStatesAndOddTextsAreRefused) {
  for (const std::uint32_t state : {3U, 0x80000000U, 0xffffffffU})
    EXPECT_FALSE(decode_isolation(content({record("seccomp", static_cast<LayerState>(state), "")}))) << state;
  EXPECT_FALSE(decode_isolation(content({record("", LayerState::active, "nameless")})));
  EXPECT_FALSE(decode_isolation(content({record("sec\ncomp", LayerState::active, "")})));
  EXPECT_FALSE(decode_isolation(content({record("seccomp", LayerState::active, "\x1b[2J")})));
}

}  // namespace
}  // namespace space
