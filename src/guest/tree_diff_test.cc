#include "guest/tree_diff.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "base/fd.h"
#include "guest/disk_diff_call.h"
#include "guest/temporary_folder.h"

namespace space::guest {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

// Trees "a" and "b"; the second begins as a copy of the first with the same times.
class TreeDiffTest : public FolderTest {
 protected:
  TreeDiffTest() { fs::create_directory(a_); }

  void copy() { ASSERT_EQ(::system(fmt::format("cp -a {} {}", a_.string(), b_.string()).c_str()), 0); }
  TreeDiff diff(TreeDiffLimits limits = {}) {
    const Fd from = *open_fd(a_, O_RDONLY | O_DIRECTORY);
    const Fd to = *open_fd(b_, O_RDONLY | O_DIRECTORY);
    return diff_trees(from.get(), to.get(), limits);
  }
  // "+/path" added, "-/path" removed, "*/path" changed.
  std::vector<std::string> changes(TreeDiffLimits limits = {}) {
    std::vector<std::string> result;
    const TreeDiff found = diff(limits);
    EXPECT_FALSE(found.truncated);
    for (const TreeChange& change : found.changes)
      result.push_back(std::string(1, "+-*"[static_cast<int>(change.kind)]) + change.path);
    return result;
  }
  static void set_times_of(const fs::path& path, const fs::path& other) {
    struct stat status{};
    ASSERT_EQ(::stat(other.c_str(), &status), 0);
    const timespec times[2] = {status.st_atim, status.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }

  const fs::path a_ = folder_ + "/a", b_ = folder_ + "/b";
};

TEST_F(TreeDiffTest, FindsWhatDiffersAndNothingElse) {
  for (const char* folder : {"d", "d/e", "gone", "gone/deep"}) fs::create_directory(a_ / folder);
  for (const char* file :
       {"d/same", "d/content", "d/mode", "d/longer", "d/moved", "gone/deep/x", "d/becomes"})
    write(a_ / file, "1234");
  fs::create_symlink("same", a_ / "d/link");
  fs::create_symlink("same", a_ / "d/other_link");
  copy();
  EXPECT_THAT(changes(), IsEmpty());

  write(b_ / "d/content", "4321");
  set_times_of(b_ / "d/content", a_ / "d/content");
  fs::permissions(b_ / "d/mode", fs::perms(0600));
  fs::permissions(b_ / "d/e", fs::perms(0700));
  append(b_ / "d/longer", "5");
  fs::rename(b_ / "d/moved", b_ / "d/e/moved");
  fs::remove_all(b_ / "gone");
  fs::create_hard_link(b_ / "d/same", b_ / "second_name");
  fs::remove(b_ / "d/other_link");
  fs::create_symlink("mode", b_ / "d/other_link");
  fs::remove(b_ / "d/becomes");
  fs::create_directory(b_ / "d/becomes");
  write(b_ / "d/becomes/x", "");
  write(b_ / "d/same.txt", "");
  EXPECT_THAT(changes(), ElementsAre("*/d/becomes", "+/d/becomes/x", "*/d/content", "*/d/e", "+/d/e/moved",
                                     "*/d/longer", "*/d/mode", "-/d/moved", "*/d/other_link", "+/d/same.txt",
                                     "-/gone", "-/gone/deep", "-/gone/deep/x", "+/second_name"));
}

TEST_F(TreeDiffTest, TimesAloneAreNoChange) {
  write(a_ / "touched", "x");
  write(a_ / "rewritten", std::string(300'000, 'y'));
  copy();
  ASSERT_EQ(::utimensat(AT_FDCWD, (b_ / "touched").c_str(), nullptr, 0), 0);
  write(b_ / "rewritten", std::string(300'000, 'y'));
  EXPECT_THAT(changes(), IsEmpty());
  write(b_ / "rewritten", std::string(299'999, 'y') + "z");
  EXPECT_THAT(changes(), ElementsAre("*/rewritten"));
}

TEST_F(TreeDiffTest, LinksAreNotFollowedAndDevicesNotOpened) {
  fs::create_directory(a_ / "real");
  write(a_ / "real/x", "1");
  copy();
  for (const fs::path& tree : {a_, b_}) {
    fs::create_symlink("/", tree / "root");
    fs::create_symlink("real", tree / "alias");
    ASSERT_EQ(::mkfifo((tree / "pipe").c_str(), 0600), 0);
  }
  write(b_ / "real/x", "2");
  EXPECT_THAT(changes(), ElementsAre("*/real/x"));
}

TEST_F(TreeDiffTest, NamesOfAnyBytesAreShown) {
  copy();
  write(b_ / "line\nbreak", "");
  write(b_ / "bad\xff", "");
  EXPECT_THAT(changes(), ElementsAre("+/bad\uEFFF", "+/line\nbreak"));
  const JsonObject json = to_json(diff());
  EXPECT_EQ(
      to_text(json),
      "{\"changes\":[{\"path\":\"/bad\uEFFF\",\"change\":\"added\",\"type\":\"file\",\"size\":0},"
      "{\"path\":\"/line\\nbreak\",\"change\":\"added\",\"type\":\"file\",\"size\":0}],\"truncated\":false}");
}

TEST_F(TreeDiffTest, TellsTypeAndSize) {
  write(a_ / "shrinks", "12345");
  copy();
  write(b_ / "shrinks", "123");
  fs::create_directory(b_ / "folder");
  fs::create_symlink("/target", b_ / "link");
  ASSERT_EQ(::mkfifo((b_ / "pipe").c_str(), 0600), 0);
  std::vector<std::string> told;
  for (const TreeChange& change : diff().changes)
    told.push_back(fmt::format("{} {} {}", change.path, type_name(change.type), change.size));
  EXPECT_THAT(told, ElementsAre("/folder directory 0", "/link symlink 7", "/pipe fifo 0", "/shrinks file 3"));
}

TEST_F(TreeDiffTest, EveryLimitIsToldAsTruncated) {
  fs::create_directory(a_ / "d");
  copy();
  fs::create_directories(b_ / "d/e/f");
  for (int i = 0; i < 20; ++i) write(b_ / fmt::format("d/{:02}", i), "");
  EXPECT_EQ(diff().changes.size(), 22U);
  EXPECT_FALSE(diff({.changes = 22}).truncated);
  EXPECT_EQ(diff({.changes = 5}).changes.size(), 5U);
  EXPECT_TRUE(diff({.changes = 5}).truncated);
  EXPECT_TRUE(diff({.entries = 10}).truncated);
  EXPECT_TRUE(diff({.text_bytes = 500}).truncated);
  EXPECT_LT(diff({.text_bytes = 500}).changes.size(), 7U);
  EXPECT_TRUE(diff({.depth = 2}).truncated);
  EXPECT_FALSE(diff({.depth = 3}).truncated);
  EXPECT_TRUE(diff({.until = Deadline::after(Millis(0))}).truncated);
}

TEST_F(TreeDiffTest, WhatIsDeeperThanAPathMayBeEndsIt) {
  copy();
  const std::string name(250, 'n');
  Fd folder = *open_fd(b_, O_RDONLY | O_DIRECTORY);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(::mkdirat(folder.get(), name.c_str(), 0700), 0);
    folder = Fd(::openat(folder.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  const TreeDiff found = diff();
  EXPECT_TRUE(found.truncated);
  EXPECT_EQ(found.changes.size(), 16U);
}

TEST(DiffMessage, IsBounded) {
  const auto parse = [](const std::string& text) { return parse_diff(*parse_json_object(text, "m")); };
  EXPECT_EQ(parse("{}")->changes, 1000U);
  EXPECT_EQ(parse(R"({"limit":7,"time_ms":5})")->changes, 7U);
  EXPECT_LE(parse(R"({"time_ms":5})")->until.left(), Millis(5));
  for (const char* wrong : {R"({"limit":0})", R"({"limit":10001})", R"({"limit":"1"})", R"({"time_ms":0})",
                            R"({"time_ms":600001})"})
    EXPECT_FALSE(parse(wrong)) << wrong;
}

}  // namespace
}  // namespace space::guest
