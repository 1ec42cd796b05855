#include "priv/folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace space::priv {
namespace {

class Folder : public testing::Test {
 protected:
  Folder() {
    char name[] = "/tmp/space-folder-XXXXXX";
    path_ = ::mkdtemp(name);
    ::mkdir((path_ + "/in").c_str(), 0700);
    ::mkdir((path_ + "/in/.half").c_str(), 0700);
    ::mkdir((path_ + "/in/whole").c_str(), 0700);
    ::close(::creat((path_ + "/secret").c_str(), 0600));
    EXPECT_EQ(::symlink((path_ + "/secret").c_str(), (path_ + "/in/link").c_str()), 0);
    folder_.reset(::open((path_ + "/in").c_str(), O_RDONLY | O_DIRECTORY));
  }
  ~Folder() override { std::filesystem::remove_all(path_); }

  std::string path_;
  Fd folder_;
};

TEST_F(Folder, ListsAgainAndAgainWithoutTheHalfMade) {
  for (int round = 0; round < 2; ++round)
    EXPECT_THAT(*names_in(folder_.get()), testing::UnorderedElementsAre("whole", "link"));
  EXPECT_THAT(*half_made_in(folder_.get()), testing::ElementsAre(".half"));
  EXPECT_EQ(names_in(path_ + "/none").error().code, Code::not_found);
}

TEST_F(Folder, OpensNothingOutsideAndThroughNoLink) {
  EXPECT_TRUE(open_beneath(folder_.get(), "whole", O_RDONLY | O_DIRECTORY));
  for (const auto* path : {"link", "../secret", "whole/../../secret", "/etc/passwd"})
    EXPECT_FALSE(open_beneath(folder_.get(), path, O_RDONLY)) << path;
}

}  // namespace
}  // namespace space::priv
