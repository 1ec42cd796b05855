#include "control/template_key.h"

#include <gtest/gtest.h>

namespace space::control {
namespace {

TEST(TemplateKey, IsTakenApart) {
  struct Case {
    const char *text, *name, *tag;
    bool own;
  };
  for (const Case& one :
       {Case{"base", "base", "", false}, Case{"base:default", "base", "default", false},
        Case{"mine/base", "base", "", true}, Case{"mine/base:v1", "base", "v1", true},
        Case{"other/base", "other/base", "", false}, Case{"minebase", "minebase", "", false},
        Case{"mine/", "", "", true}, Case{"mine", "mine", "", false}, Case{"a:b:c", "a:b", "c", false},
        Case{"", "", "", false}}) {
    const TemplateKey key = parse_template_key(one.text, "mine");
    EXPECT_EQ(key.name, one.name) << one.text;
    EXPECT_EQ(key.tag, one.tag) << one.text;
    EXPECT_EQ(key.of_own_team, one.own) << one.text;
  }
}

TEST(SnapshotName, IsOneWordAndATag) {
  struct Case {
    const char *text, *name, *tag;
  };
  for (const Case& one : {Case{"ready", "ready", "default"}, Case{"Ready_2-x", "ready_2-x", "default"},
                          Case{"ready:v1.2", "ready", "v1.2"}, Case{"mine/ready:V1", "ready", "v1"},
                          Case{"0123456789abcdef01234", "0123456789abcdef01234", "default"}}) {
    const auto name = parse_snapshot_name(one.text, "mine");
    ASSERT_TRUE(name) << one.text << name.error().message;
    EXPECT_EQ(name->name, one.name);
    EXPECT_EQ(name->tag, one.tag);
  }
}

TEST(SnapshotName, RefusesWhatCouldNotBeAskedFor) {
  const std::string too_long(129, 'a');
  for (const char* bad :
       {"", " ", "a b", "-a", "_a", "a/b", "other/ready", "mine/", "mine/a/b", "a:", "a:b:c", "a:b c", "a:-b",
        "a\n", "\xc3\xa9", "..", "0123456789abcdef0123", too_long.c_str()}) {
    const auto name = parse_snapshot_name(bad, "mine");
    ASSERT_FALSE(name) << bad;
    EXPECT_EQ(name.error().code, Code::invalid_argument);
  }
}

TEST(SnapshotName, MakesTheIdThatLeadsBackToIt) {
  store::SnapshotTemplate row;
  row.id = "s1";
  EXPECT_EQ(snapshot_id_of(row, "mine"), "s1:default");
  row.name = "ready";
  row.tag = "v1";
  const std::string id = snapshot_id_of(row, "mine");
  EXPECT_EQ(id, "mine/ready:v1");
  const TemplateKey key = parse_template_key(id, "mine");
  EXPECT_TRUE(key.of_own_team);
  EXPECT_EQ(key.name, "ready");
  EXPECT_EQ(key.tag, "v1");
}

}  // namespace
}  // namespace space::control
