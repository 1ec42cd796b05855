#include "guest/file_tree.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/fd.h"
#include "guest/folder_path.h"
#include "guest/folder_stack.h"
#include "guest/temporary_folder.h"

namespace space::guest {
namespace {

class FileTreeTest : public FolderTest {
 protected:
  // Paths relative to the folder.
  std::vector<std::string> list(const std::string& path, std::uint32_t depth) {
    std::vector<std::string> found;
    const auto listed = list_folder(path, depth, names_, [&](const EntryInfo& entry) -> Result<void> {
      found.push_back(entry.path.substr(path.size() + 1));
      return {};
    });
    EXPECT_TRUE(listed) << listed.error().message;
    return found;
  }
  Code list_failure(const std::string& path) {
    const auto listed = list_folder(path, 1, names_, [](const EntryInfo&) { return Result<void>(); });
    return listed ? Code::internal : listed.error().code;
  }
  // a/a/a/…, with names that make the path longer than any system call takes.
  std::string deep_path(std::size_t levels, std::size_t name_bytes) {
    std::string path = folder_;
    for (std::size_t i = 0; i < levels; ++i) path += "/" + std::string(name_bytes, 'a');
    return path;
  }
  bool exists(const std::string& path) { return read_entry(path, names_).has_value(); }
};

TEST_F(FileTreeTest, ListsInOrderBeforeTheContent) {
  ASSERT_TRUE(make_folder(at("b/c"), user_));
  write(at("b/c/x"), "");
  write(at("b.txt"), "");
  write(at("a"), "");
  ASSERT_EQ(::symlink("b", at("link").c_str()), 0);
  EXPECT_EQ(list(folder_, 1), (std::vector<std::string>{"a", "b", "b.txt", "link"}));
  EXPECT_EQ(list(folder_, 2), (std::vector<std::string>{"a", "b", "b/c", "b.txt", "link"}));
  EXPECT_EQ(list(folder_, 9), (std::vector<std::string>{"a", "b", "b/c", "b/c/x", "b.txt", "link"}));
  EXPECT_EQ(list(at("link"), 9), (std::vector<std::string>{"c", "c/x"}));  // asked for by its link
  EXPECT_EQ(list_failure(at("missing")), Code::not_found);
  EXPECT_EQ(list_failure(at("a")), Code::invalid_argument);
  EXPECT_EQ(list_failure(at("a/x")), Code::not_found);
  ASSERT_EQ(::symlink("loop", at("loop").c_str()), 0);
  EXPECT_EQ(list_failure(at("loop")), Code::conflict);
}

TEST_F(FileTreeTest, NamesOfAllBytesAreListedAndRemoved) {
  std::vector<std::string> names;
  for (int byte = 1; byte < 256; ++byte)
    if (byte != '/') names.push_back(std::string("n") + static_cast<char>(byte));
  names.emplace_back(255, '\xFF');
  names.emplace_back(" ");
  names.emplace_back("...");
  names.emplace_back("-rf *");
  std::ranges::sort(names);
  for (const std::string& name : names) write(at(name), "x");
  EXPECT_EQ(list(folder_, 1), names);
  for (const std::string& name : names) EXPECT_TRUE(remove_tree(at(name)));
  EXPECT_TRUE(list(folder_, 1).empty());
}

TEST_F(FileTreeTest, MakesFoldersOnce) {
  EXPECT_TRUE(*make_folder(at("a/b/c"), user_));
  EXPECT_FALSE(*make_folder(at("a/b/c"), user_));
  EXPECT_FALSE(*make_folder("/", user_));
  EXPECT_EQ(read_entry(at("a/b"), names_)->permissions, "drwxr-xr-x");
  write(at("f"), "");
  EXPECT_EQ(make_folder(at("f"), user_).error().code, Code::invalid_argument);
  EXPECT_EQ(make_folder(at("f/x"), user_).error().code, Code::invalid_argument);
  ASSERT_EQ(::symlink("a", at("link").c_str()), 0);
  EXPECT_TRUE(*make_folder(at("link/d"), user_));
  EXPECT_TRUE(exists(at("a/d")));
  ASSERT_EQ(::symlink("nowhere", at("dangling").c_str()), 0);
  EXPECT_EQ(make_folder(at("dangling/d"), user_).error().code, Code::invalid_argument);
}

TEST_F(FileTreeTest, FoldersBelongToTheUser) {
  if (::geteuid() != 0) return;  // only root can give away
  user_.uid = 1234;
  user_.gid = 5678;
  ASSERT_TRUE(make_folder(at("a/b"), user_));
  for (const char* name : {"a", "a/b"}) {
    EXPECT_EQ(read_entry(at(name), names_)->owner, "1234") << name;
    EXPECT_EQ(read_entry(at(name), names_)->group, "5678") << name;
  }
  EXPECT_NE(read_entry(folder_, names_)->owner, "1234");
}

TEST_F(FileTreeTest, Moves) {
  write(at("one"), "1");
  write(at("two"), "22");
  ASSERT_TRUE(move_file(at("one"), at("new/deep/one"), user_));
  ASSERT_TRUE(move_file(at("two"), at("new/deep/one"), user_));  // replaces
  EXPECT_EQ(read_entry(at("new/deep/one"), names_)->size, 2U);
  ASSERT_TRUE(move_file(at("new"), at("renamed"), user_));
  EXPECT_EQ(list(folder_, 9), (std::vector<std::string>{"renamed", "renamed/deep", "renamed/deep/one"}));

  EXPECT_EQ(move_file(at("missing"), at("made/x"), user_).error().code, Code::not_found);
  EXPECT_FALSE(exists(at("made")));  // nothing is made for a move that cannot be
  ASSERT_TRUE(make_folder(at("full/x"), user_));
  EXPECT_EQ(move_file(at("renamed"), at("full"), user_).error().code, Code::conflict);
  EXPECT_EQ(move_file(at("full"), at("full/x/y"), user_).error().code, Code::invalid_argument);
  EXPECT_EQ(move_file(at("full"), "/dev/shm/space-guest-none", user_).error().code, Code::conflict);
  EXPECT_TRUE(move_file(at("full"), at("full"), user_));
  ASSERT_EQ(::symlink("nowhere", at("link").c_str()), 0);
  ASSERT_TRUE(move_file(at("link"), at("link2"), user_));  // the link itself
  EXPECT_TRUE(exists(at("link2")));
}

TEST_F(FileTreeTest, RemovesTreesAndNothingElse) {
  ASSERT_TRUE(make_folder(at("keep"), user_));
  write(at("keep/f"), "");
  ASSERT_TRUE(make_folder(at("tree/a/b"), user_));
  write(at("tree/a/f"), "");
  ASSERT_EQ(::symlink(at("keep").c_str(), at("tree/a/b/link").c_str()), 0);
  ASSERT_EQ(::mkfifo(at("tree/pipe").c_str(), 0600), 0);
  ASSERT_EQ(::symlink("tree", at("link").c_str()), 0);
  EXPECT_TRUE(remove_tree(at("link")));  // the link, not what it leads to
  EXPECT_TRUE(exists(at("tree/a/f")));
  EXPECT_TRUE(remove_tree(at("tree")));
  EXPECT_FALSE(exists(at("tree")));
  EXPECT_TRUE(exists(at("keep/f")));
  EXPECT_TRUE(remove_tree(at("tree")));
  EXPECT_TRUE(remove_tree(at("keep/f")));
  EXPECT_TRUE(remove_tree(at("keep/f/x")));
  EXPECT_EQ(remove_tree("/").error().code, Code::invalid_argument);
}

TEST_F(FileTreeTest, AThousandLevelsAndPathsBeyondPathMax) {
  const std::string path = deep_path(1000, 100);  // 101,000 bytes
  ASSERT_TRUE(*make_folder(path, user_));
  EXPECT_FALSE(*make_folder(path, user_));
  const auto entry = read_entry(path, names_);
  ASSERT_TRUE(entry) << entry.error().message;
  EXPECT_EQ(entry->path, path);
  ASSERT_TRUE(move_file(path, path + "-moved", user_));
  EXPECT_EQ(list(folder_, 5000).size(), 1000U);
  EXPECT_EQ(list(folder_, 70).size(), 70U);
  EXPECT_EQ(list(path.substr(0, path.size() - 101), 1).size(), 1U);
  const auto missing = read_entry(path + "/x", names_);
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_LT(missing.error().message.size(), 500U);
  EXPECT_TRUE(remove_tree(deep_path(1, 100)));
  EXPECT_TRUE(list(folder_, 1).empty());
}

TEST_F(FileTreeTest, WideTreesAreRemovedWhole) {
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(make_folder(at(fmt::format("t/{}/x/y", i)), user_));
    for (int j = 0; j < 60; ++j) write(at(fmt::format("t/{}/x/{}-{}", i, j, std::string(200, 'n'))), "");
  }
  EXPECT_EQ(list(at("t"), 9).size(), 40U * 63U);
  EXPECT_TRUE(remove_tree(at("t")));
  EXPECT_FALSE(exists(at("t")));
}

TEST_F(FileTreeTest, FilesThatComeAndGoDisturbNothing) {
  ASSERT_TRUE(make_folder(at("t"), user_));
  write(at("t/stays"), "");
  std::atomic<bool> stop = false;
  std::thread churn([&] {
    for (int i = 0; !stop; i = (i + 1) % 50) {
      const std::string name = at(fmt::format("t/d{}", i));
      ::mkdir(name.c_str(), 0755);
      write(name + "/f", "x");
      ::unlink((name + "/f").c_str());
      ::rmdir(name.c_str());
    }
  });
  for (int i = 0; i < 300; ++i) EXPECT_EQ(list(at("t"), 3).back(), "stays");
  stop = true;
  churn.join();
}

TEST_F(FileTreeTest, ATreeThatIsFilledWhileItIsRemovedGoesInTheEndOrSaysSo) {
  ASSERT_TRUE(make_folder(at("t/a"), user_));
  std::atomic<bool> stop = false;
  std::thread filler([&] {
    for (int i = 0; !stop && i < 20'000; ++i) write(at(fmt::format("t/a/{}", i)), "");
  });
  const auto removed = remove_tree(at("t"));
  stop = true;
  filler.join();
  if (!removed) EXPECT_EQ(removed.error().code, Code::conflict);
  EXPECT_TRUE(remove_tree(at("t")));
  EXPECT_FALSE(exists(at("t")));
}

TEST_F(FileTreeTest, AWalkEndsWhenItsFolderIsMovedAway) {
  const std::string path = deep_path(100, 1);
  ASSERT_TRUE(make_folder(path, user_));
  ASSERT_TRUE(make_folder(at("elsewhere"), user_));
  const auto top = open_folder(folder_);
  auto stack = FolderStack::open(top->get());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(*stack->enter("a"));
  const std::string from = deep_path(20, 1);
  ASSERT_EQ(::rename(from.c_str(), at("elsewhere/x").c_str()), 0);
  Result<void> left;
  while (left && stack->depth() > 1) left = stack->leave();
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().code, Code::conflict);
  EXPECT_EQ(stack->depth(), 21U);
}

TEST_F(FileTreeTest, ErrorsOfTheVisitorEndTheList) {
  write(at("a"), "");
  write(at("b"), "");
  int seen = 0;
  const auto listed = list_folder(folder_, 1, names_, [&](const EntryInfo&) -> Result<void> {
    ++seen;
    return fail(Code::exhausted, "enough");
  });
  EXPECT_EQ(listed.error().code, Code::exhausted);
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace space::guest
