// For tests: a folder of its own, and files in it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "guest/file_tree.h"

namespace space::guest {

class FolderTest : public testing::Test {
 protected:
  FolderTest() {
    char path[] = "/tmp/space-guest-XXXXXX";
    folder_ = ::mkdtemp(path);
    user_ = {.name = "me", .uid = ::getuid(), .gid = ::getgid(), .home = folder_};
  }
  ~FolderTest() override {
    // Not std::filesystem: it cannot remove what is deeper than PATH_MAX.
    EXPECT_TRUE(remove_tree(folder_));
  }

  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  static void write(const std::string& path, std::string_view content) { std::ofstream(path) << content; }
  static void append(const std::string& path, std::string_view content) {
    std::ofstream(path, std::ios::app) << content;
  }

  std::string folder_;
  User user_;
  AccountNames names_;
};

}  // namespace space::guest
