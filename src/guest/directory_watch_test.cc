#include "guest/directory_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "base/json.h"
#include "guest/temporary_folder.h"

namespace space::guest {
namespace {

using Texts = std::vector<std::string>;

class DirectoryWatchTest : public FolderTest {
 protected:
  void open(bool recursive, bool include_entry = false, std::size_t limit = 32 * 1024 * 1024) {
    auto watch = DirectoryWatch::open({.path = folder_,
                                       .recursive = recursive,
                                       .include_entry = include_entry,
                                       .names = std::make_shared<const AccountNames>(),
                                       .batch_limit_bytes = limit});
    ASSERT_TRUE(watch) << watch.error().message;
    watch_ = *std::move(watch);
  }
  // What has happened up to now, as "create a/b".
  Texts events() {
    Texts result;
    for (pollfd ready{.fd = watch_->fd(), .events = POLLIN}; !end_ && ::poll(&ready, 1, 0) == 1;) {
      auto batch = watch_->read();
      for (const std::string& event : batch.events) result.push_back(readable(event));
      end_ = std::move(batch.end);
    }
    return result;
  }
  std::string readable(const std::string& event) {
    const auto json = parse_json_object(event, "event");
    EXPECT_TRUE(json) << event;
    if (!json) return event;
    if (json->contains("entry")) last_entry_ = json->at("entry").as_object();
    std::string type(json->at("type").as_string());
    std::ranges::transform(type, type.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return type.substr(std::string_view("event_type_").size()) + " " +
           std::string(json->at("name").as_string());
  }
  void folder(const std::string& name) { ASSERT_TRUE(make_folder(at(name), user_)); }
  void rename(const std::string& from, const std::string& to) {
    ASSERT_EQ(::rename(at(from).c_str(), at(to).c_str()), 0);
  }
  Code open_failure(const std::string& path) {
    const auto watch = DirectoryWatch::open({.path = path});
    return watch ? Code::internal : watch.error().code;
  }

  std::unique_ptr<DirectoryWatch> watch_;
  std::optional<connect::RpcError> end_;
  JsonObject last_entry_;
};

TEST_F(DirectoryWatchTest, TellsWhatHappensToFiles) {
  folder("sub");
  write(at("old"), "");
  open(false);
  write(at("f"), "x");
  EXPECT_EQ(events(), (Texts{"create f", "write f"}));
  append(at("f"), "y");
  ::chmod(at("f").c_str(), 0600);
  rename("f", "g");
  ::unlink(at("g").c_str());
  write(at("sub/unseen"), "");
  EXPECT_EQ(events(), (Texts{"write f", "chmod f", "rename f", "create g", "remove g"}));
  ::chmod(folder_.c_str(), 0700);
  EXPECT_EQ(events(), Texts{"chmod ."});
}

TEST_F(DirectoryWatchTest, RecursiveSeesFoldersThatWereThere) {
  folder("a/b");
  open(true);
  write(at("a/b/f"), "");
  EXPECT_EQ(events(), Texts{"create a/b/f"});
}

TEST_F(DirectoryWatchTest, NothingIsMissedOrToldTwiceInFoldersJustMade) {
  open(true);
  folder("a/b/c");
  write(at("a/b/c/f"), "x");
  write(at("a/empty"), "");
  auto seen = events();
  EXPECT_EQ(std::ranges::count(seen, "create a"), 1);
  EXPECT_EQ(seen.front(), "create a");
  std::ranges::sort(seen);
  EXPECT_EQ(seen, (Texts{"create a", "create a/b", "create a/b/c", "create a/b/c/f", "create a/empty",
                         "write a/b/c/f"}));
  append(at("a/b/c/f"), "y");
  write(at("a/b/c/g"), "");
  EXPECT_EQ(events(), (Texts{"write a/b/c/f", "create a/b/c/g"}));
}

TEST_F(DirectoryWatchTest, ReplacedAndMadeAgainIsToldAgain) {
  open(true);
  folder("d");
  write(at("d/x"), "");
  EXPECT_EQ(events(), (Texts{"create d", "create d/x"}));
  write(at("other"), "");
  rename("other", "d/x");
  ::unlink(at("d/x").c_str());
  write(at("d/x"), "");
  EXPECT_EQ(events(), (Texts{"create other", "rename other", "create d/x", "remove d/x", "create d/x"}));
  ASSERT_TRUE(remove_tree(at("d")));
  folder("d");
  write(at("d/y"), "");
  EXPECT_EQ(events(), (Texts{"remove d/x", "remove d", "create d", "create d/y"}));
  write(at("d/z"), "");
  EXPECT_EQ(events(), Texts{"create d/z"});
}

TEST_F(DirectoryWatchTest, AFolderMovedWithinKeepsItsWatches) {
  folder("a/in/deep");
  folder("b");
  open(true);
  rename("a/in", "b/moved");
  EXPECT_EQ(events(), (Texts{"rename a/in", "create b/moved"}));
  write(at("b/moved/deep/f"), "");
  EXPECT_EQ(events(), Texts{"create b/moved/deep/f"});
  rename("b", "c");  // a folder above
  write(at("c/moved/deep/g"), "");
  EXPECT_EQ(events(), (Texts{"rename b", "create c", "create c/moved/deep/g"}));
}

TEST_F(DirectoryWatchTest, AFolderMovedOutAndInAgain) {
  folder("tree/in/deep");
  folder("outside");
  write(at("tree/in/deep/f"), "1");
  folder_ = at("tree");
  open(true);
  const auto inside = at("in");
  const auto outside = folder_ + "/../outside/in";
  ASSERT_EQ(::rename(inside.c_str(), outside.c_str()), 0);
  EXPECT_EQ(events(), Texts{"rename in"});
  write(outside + "/deep/unseen", "");
  EXPECT_EQ(events(), Texts{});
  ASSERT_EQ(::rename(outside.c_str(), inside.c_str()), 0);
  auto seen = events();
  EXPECT_EQ(seen.front(), "create in");
  std::ranges::sort(seen);
  EXPECT_EQ(seen, (Texts{"create in", "create in/deep", "create in/deep/f", "create in/deep/unseen",
                         "write in/deep/f"}));
  write(at("in/deep/g"), "");
  EXPECT_EQ(events(), Texts{"create in/deep/g"});
  folder_.resize(folder_.rfind('/'));
}

TEST_F(DirectoryWatchTest, TwoFoldersChangePlaces) {
  folder("a/of-a");
  folder("b/of-b");
  open(true);
  rename("a", "t");
  rename("b", "a");
  rename("t", "b");
  events();
  write(at("a/of-b/x"), "");
  write(at("b/of-a/y"), "");
  EXPECT_EQ(events(), (Texts{"create a/of-b/x", "create b/of-a/y"}));
  ASSERT_EQ(::renameat2(AT_FDCWD, at("a").c_str(), AT_FDCWD, at("b").c_str(), RENAME_EXCHANGE), 0);
  events();
  write(at("a/of-a/x"), "");
  write(at("b/of-b/y"), "");
  EXPECT_EQ(events(), (Texts{"create a/of-a/x", "create b/of-b/y"}));
}

TEST_F(DirectoryWatchTest, LinksAreNotFollowed) {
  folder("tree");
  folder("outside");
  folder_ = at("tree");
  open(true);
  ASSERT_EQ(::symlink("../outside", at("link").c_str()), 0);
  EXPECT_EQ(events(), Texts{"create link"});
  write(at("link/f"), "");
  EXPECT_EQ(events(), Texts{});
  folder_.resize(folder_.rfind('/'));
}

TEST_F(DirectoryWatchTest, EntriesComeWithWhatStillExists) {
  open(true, true);
  folder("d");
  write(at("d/f"), "12345");
  EXPECT_EQ(events().back(), "write d/f");
  EXPECT_EQ(last_entry_.at("path").as_string(), at("d/f"));
  EXPECT_EQ(last_entry_.at("size").as_string(), "5");
  last_entry_.clear();
  write(at("gone"), "");
  ::unlink(at("gone").c_str());
  EXPECT_EQ(events(), (Texts{"create gone", "remove gone"}));
  EXPECT_TRUE(last_entry_.empty());
  ::chmod(folder_.c_str(), 0700);
  events();
  EXPECT_EQ(last_entry_.at("path").as_string(), folder_);
}

TEST_F(DirectoryWatchTest, TheEndOfTheFolderIsTheEndOfTheWatch) {
  folder("tree/sub");
  folder_ = at("tree");
  open(true);
  ASSERT_TRUE(remove_tree(folder_));
  auto seen = events();
  EXPECT_EQ(seen.back(), "remove .");
  ASSERT_TRUE(end_);
  EXPECT_EQ(end_->code, connect::RpcCode::not_found);

  end_.reset();
  folder("sub");
  open(true);
  ASSERT_EQ(::rename(folder_.c_str(), (folder_ + "2").c_str()), 0);
  EXPECT_EQ(events(), Texts{"rename ."});
  ASSERT_TRUE(end_);
  EXPECT_EQ(end_->code, connect::RpcCode::not_found);
  folder_.resize(folder_.rfind('/'));
}

TEST_F(DirectoryWatchTest, AThousandNestedFolders) {
  open(true);
  std::string path;
  for (int i = 0; i < 1000; ++i) path += "/d";
  ASSERT_TRUE(*make_folder(folder_ + path, user_));
  const auto seen = events();
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 1000U);
  write(folder_ + path + "/f", "");
  EXPECT_EQ(events(), Texts{"create " + path.substr(1) + "/f"});
  ASSERT_TRUE(remove_tree(at("d")));
  EXPECT_EQ(events().size(), 1001U);
  EXPECT_FALSE(end_);
}

TEST_F(DirectoryWatchTest, AThousandFoldersThatWereThereAndDeepOnesBeyondPathMax) {
  std::string path = folder_;
  for (int i = 0; i < 1000; ++i) path += "/" + std::string(100, 'd');
  ASSERT_TRUE(*make_folder(path, user_));
  open(true, true);
  ASSERT_TRUE(*make_folder(path + "/f", user_));
  EXPECT_EQ(events().size(), 1U);
  EXPECT_EQ(last_entry_.at("path").as_string(), path + "/f");
}

// Every folder and file made by several programs at once is told exactly once, whatever the timing.
TEST_F(DirectoryWatchTest, RacingMakersAreTold) {
  open(true);
  constexpr int makers = 4, trees = 25;
  std::atomic<int> running = makers;
  std::vector<std::thread> threads;
  for (int maker = 0; maker < makers; ++maker)
    threads.emplace_back([&, maker] {
      for (int tree = 0; tree < trees; ++tree) {
        const std::string top = fmt::format("{}-{}", maker, tree);
        EXPECT_TRUE(*make_folder(at(top + "/a/b/c"), user_));
        for (const char* file : {"/f", "/a/f", "/a/b/f", "/a/b/c/f"}) write(at(top + file), "");
      }
      --running;
    });
  Texts seen;
  while (running > 0) {
    std::ranges::copy(events(), std::back_inserter(seen));
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  std::ranges::copy(events(), std::back_inserter(seen));
  EXPECT_FALSE(end_);
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), makers * trees * 8U);
  EXPECT_EQ(seen.size(), makers * trees * 8U);
}

// Folders made, moved, exchanged and removed at random while they are watched: in the end each is known by
// the name it has.
TEST_F(DirectoryWatchTest, AfterAnyDisorderEveryFolderIsWatched) {
  const auto seed = static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed());
  SCOPED_TRACE(fmt::format("seed {}", seed));
  open(true);
  std::atomic<bool> stop = false;
  std::thread disorder([&] {
    std::mt19937 random(seed);
    const auto any = [&] {
      std::string name;
      for (int levels = static_cast<int>(random() % 3); levels >= 0; --levels)
        name += fmt::format("{}{}", name.empty() ? "" : "/", random() % 3);
      return at(name);
    };
    for (int i = 0; i < 3000; ++i) {
      const std::string one = any(), two = any();
      switch (random() % 8) {
        case 0:
          (void)remove_tree(one);
          break;
        case 1:
          (void)::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, two.c_str(), RENAME_EXCHANGE);
          break;
        case 2:
        case 3:
          (void)::rename(one.c_str(), two.c_str());
          break;
        default:
          (void)make_folder(one, user_);
      }
    }
    stop = true;
  });
  while (!stop) events();
  disorder.join();
  events();
  ASSERT_FALSE(end_) << end_->message;
  Texts folders;
  ASSERT_TRUE(list_folder(folder_, 100, names_, [&](const EntryInfo& entry) -> Result<void> {
    folders.push_back(entry.path.substr(folder_.size() + 1));
    return {};
  }));
  for (const std::string& name : folders) {
    write(at(name + "/f"), "");
    EXPECT_EQ(events(), Texts{"create " + name + "/f"});
  }
}

TEST_F(DirectoryWatchTest, AFullQueueIsTold) {
  open(false);
  const auto limit = read_file("/proc/sys/fs/inotify/max_queued_events", 100);
  ASSERT_TRUE(limit);
  write(at("f"), "");
  write(at("g"), "");
  for (int i = 0; i < std::stoi(*limit) + 10; ++i) ::chmod(at(i % 2 == 0 ? "f" : "g").c_str(), 0600);
  const auto seen = events();
  ASSERT_TRUE(end_);
  EXPECT_EQ(end_->code, connect::RpcCode::data_loss);
  EXPECT_GE(seen.size(), 1000U);  // what was queued before is not lost
}

TEST_F(DirectoryWatchTest, MoreAtOnceThanIsHeldIsTold) {
  open(true, false, 2000);
  folder("d");
  for (int i = 0; i < 100; ++i) write(at(fmt::format("d/{}", i)), "");
  EXPECT_LT(events().size(), 100U);
  ASSERT_TRUE(end_);
  EXPECT_EQ(end_->code, connect::RpcCode::data_loss);
}

TEST_F(DirectoryWatchTest, RepeatedWritesAreToldOnce) {
  open(false);
  write(at("f"), "");
  write(at("g"), "");
  events();
  for (int i = 0; i < 100; ++i) append(at("f"), "x");
  append(at("g"), "x");
  append(at("f"), "x");
  EXPECT_EQ(events(), (Texts{"write f", "write g", "write f"}));
}

TEST_F(DirectoryWatchTest, WhatCannotBeWatched) {
  write(at("f"), "");
  EXPECT_EQ(open_failure(at("f")), Code::invalid_argument);
  EXPECT_EQ(open_failure(at("missing")), Code::not_found);
  ASSERT_EQ(::symlink("f", at("link").c_str()), 0);
  EXPECT_EQ(open_failure(at("link")), Code::invalid_argument);
}

TEST_F(DirectoryWatchTest, NetworkFileSystemsAreKnown) {
  for (const std::int64_t type : {0x6969LL, 0x517BLL, 0xFF534D42LL, 0xFE534D42LL, 0x65735546LL})
    EXPECT_TRUE(is_network_file_system(type)) << type;
  EXPECT_TRUE(is_network_file_system(static_cast<std::int32_t>(0xFF534D42)));  // as 32-bit kernels say it
  for (const std::int64_t type : {0xEF53LL, 0x01021994LL, 0x9123683ELL})       // ext4, tmpfs, btrfs
    EXPECT_FALSE(is_network_file_system(type)) << type;
}

TEST_F(DirectoryWatchTest, NamesOfAllBytes) {
  open(false);
  std::size_t made = 0;
  std::set<std::string> told;
  for (int byte = 1; byte < 256; ++byte)
    if (byte != '/') {
      write(at(std::string("n") + static_cast<char>(byte)), "");
      ++made;
    }
  for (const std::string& event : events()) told.insert(event);
  EXPECT_EQ(told.size(), made);
}

}  // namespace
}  // namespace space::guest
