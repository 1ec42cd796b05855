// The warm pool as the control plane uses it: a parked VM makes a create fast, its absence never makes one
// fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"
#include "control/test_plane.h"

namespace space::control {
namespace {

using testing::ElementsAre;

class PoolTest : public testing::Test {
 protected:
  void SetUp() override { plane.connect_node(); }
  TestPlane plane;
};

TEST_F(PoolTest, AParkedVmBringsItsId) {
  const std::string id = new_sandbox_id();
  plane.node().parked = {id};
  EXPECT_EQ(plane.create(), id);
  EXPECT_THAT(plane.node().created, ElementsAre(id));
  const JsonObject& asked = plane.node().pool_calls.at(0);
  EXPECT_EQ(*require_text(asked, "template"), std::string(64, 'a'));
  EXPECT_EQ(asked.at("vcpus"), 1);
  EXPECT_EQ(asked.at("memory_mib"), 512);
  EXPECT_EQ(asked.at("disk_mib"), 4096);
  const std::string next = plane.create();
  EXPECT_NE(next, id);
  EXPECT_TRUE(is_sandbox_id(next));
}

TEST_F(PoolTest, APoolThatDoesNotAnswerIsNotWaitedFor) {
  plane.node().pool_hangs = true;
  EXPECT_TRUE(is_sandbox_id(plane.create()));
  plane.node().pool_hangs = false;
  plane.node().wake();
}

TEST_F(PoolTest, AnIdThatIsNoneOrIsInUseIsNotTaken) {
  const std::string taken = plane.create();
  for (const std::string& bad : {std::string("../x"), std::string(), taken}) {
    plane.node().parked = {bad};
    const std::string made = plane.create();
    EXPECT_NE(made, bad);
    EXPECT_TRUE(is_sandbox_id(made));
  }
}

TEST_F(PoolTest, PoolsAreShownByName) {
  plane.node().parked = {new_sandbox_id()};
  const Answer answer = plane.api("GET", "/v1/pools");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const JsonObject pool = answer.json().at("pools").as_array().at(0).as_object();
  EXPECT_EQ(*require_text(pool, "template"), "base");
  EXPECT_EQ(pool.at("parked"), 1);
  EXPECT_EQ(pool.at("hits"), 3);
  EXPECT_EQ(pool.at("checkpoint"), true);
  EXPECT_EQ(pool.at("memoryMB"), 512);
}

TEST_F(PoolTest, TargetsAreSetAndGivenBack) {
  EXPECT_EQ(plane.api("PUT", "/v1/pools/base", R"({"target":5})").status, 204);
  EXPECT_EQ(plane.node().pool_calls.back().at("target"), 5);
  EXPECT_EQ(*require_text(plane.node().pool_calls.back(), "template"), std::string(64, 'a'));
  EXPECT_EQ(plane.api("PUT", "/v1/pools/base-id", R"({"target":null})").status, 204);
  EXPECT_TRUE(plane.node().pool_calls.back().at("target").is_null());
  for (const char* wrong : {"{}", R"({"target":-1})", R"({"target":"5"})", R"({"target":1001})"})
    EXPECT_EQ(plane.api("PUT", "/v1/pools/base", wrong).status, 400) << wrong;
  EXPECT_EQ(plane.api("PUT", "/v1/pools/none", R"({"target":1})").status, 404);
  EXPECT_EQ(plane.node().pool_calls.size(), 2U);
}

}  // namespace
}  // namespace space::control
