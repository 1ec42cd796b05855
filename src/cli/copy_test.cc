// `space cp` against a sandbox in memory: both ways, interrupted and resumed, and a sandbox that lies.
#include "cli/copy.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "cli/copy_commands.h"
#include "cli/fake_sandbox.h"
#include "cli/local_tree.h"
#include "cli/sandbox_tree.h"
#include "net/test_loop.h"

namespace space::cli {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

std::string pattern(std::size_t size) {
  std::string text(size, ' ');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + (i * 7 + i / 1000) % 26);
  return text;
}

class CopyTest : public LoopTest {
 protected:
  CopyTest() : sandbox(executor()) {
    char name[] = "/tmp/space_copy_XXXXXX";
    folder = mkdtemp(name);
    sandbox.add_folder("/home");
    sandbox.add_folder("/home/user");
  }
  ~CopyTest() override { fs::remove_all(folder); }

  void put(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(folder + "/" + path).parent_path());
    std::ofstream(folder + "/" + path) << text;
  }
  std::string get(const std::string& path) {
    std::ifstream file(folder + "/" + path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  unsigned mode(const std::string& path) {
    struct stat info{};
    return ::stat((folder + "/" + path).c_str(), &info) == 0 ? info.st_mode & 0777U : 0;
  }

  Result<CopyReport> up(const std::string& from, const std::string& to, bool resume = false) {
    return copy(LocalTree::open(folder + "/" + from), to, true, resume);
  }
  Result<CopyReport> down(const std::string& from, const std::string& to, bool resume = false) {
    return copy(LocalTree::open(folder + "/" + to), from, false, resume);
  }

  FakeSandbox sandbox;
  std::string folder;

 private:
  Result<CopyReport> copy(Result<std::unique_ptr<LocalTree>> local, std::string remote, bool upload,
                          bool resume) {
    if (!local) return std::unexpected(local.error());
    Result<CopyReport> result;
    const ApiClient api = sandbox.client();
    run([&]() -> Task<void> {
      Progress progress(false);
      auto target = std::make_shared<const Target>(*co_await api.connect_sandbox(FakeSandbox::id));
      SandboxTree there(RemoteFiles(api, target, ""), remote);
      Tree& from = upload ? static_cast<Tree&>(**local) : there;
      Tree& to = upload ? static_cast<Tree&>(there) : **local;
      result = co_await copy_tree(from, to, {.resume = resume}, progress);
    });
    return result;
  }
};

TEST_F(CopyTest, AFolderThereAndBack) {
  put("src/a.txt", "alpha");
  put("src/empty", "");
  put("src/deep/er/b", pattern(3'000'000));
  fs::create_symlink("deep/er/b", folder + "/src/link");
  fs::permissions(folder + "/src/a.txt", fs::perms(0750));
  const auto sent = up("src", "/home/user/dst");
  ASSERT_TRUE(sent) << sent.error().message;
  EXPECT_EQ(sent->files, 3U);
  EXPECT_EQ(sent->folders, 3U);
  EXPECT_EQ(sandbox.files["/home/user/dst/a.txt"].content, "alpha");
  EXPECT_TRUE(sandbox.files.contains("/home/user/dst/empty"));
  EXPECT_EQ(sandbox.files["/home/user/dst/deep/er/b"].content, pattern(3'000'000));
  EXPECT_THAT(sandbox.started,
              ElementsAre(ElementsAre("ln", "-sfn", "--", "deep/er/b", "/home/user/dst/link"),
                          ElementsAre("chmod", "0750", "--", "/home/user/dst/a.txt")));
  for (const auto& [path, file] : sandbox.files) EXPECT_THAT(path, testing::Not(HasSubstr("space-part")));

  sandbox.files["/home/user/dst/a.txt"].mode = 0700;
  sandbox.files["/home/user/dst/link"] = {
      .content = "", .type = "FILE_TYPE_FILE", .link = "/home/user/dst/deep/er/b"};
  const auto back = down("/home/user/dst", "back");
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(get("back/deep/er/b"), pattern(3'000'000));
  EXPECT_EQ(mode("back/a.txt"), 0700U);
  EXPECT_EQ(fs::read_symlink(folder + "/back/link"), "deep/er/b");
}

TEST_F(CopyTest, NamesOfAnyBytesThereAndBack) {
  const std::string name = "src/caf\xe9 \n\"\\ \xff";
  put(name, "text");
  ASSERT_TRUE(up("src", "/home/user/dst"));
  EXPECT_EQ(sandbox.files["/home/user/dst/caf\xEE\xBF\xA9 \n\"\\ \xEE\xBF\xBF"].content, "text");
  ASSERT_TRUE(down("/home/user/dst", "back"));
  EXPECT_EQ(get("back" + name.substr(3)), "text");
}

TEST_F(CopyTest, AnInterruptedUploadGoesOnWhereItStopped) {
  put("big", pattern(4'000'000));
  sandbox.cut_upload_after = 1'500'000;
  EXPECT_FALSE(up("big", "/home/user/big"));
  EXPECT_FALSE(sandbox.files.contains("/home/user/big"));  // never half a file in its place
  sandbox.cut_upload_after = 1'000'000;                    // of what is left
  EXPECT_FALSE(up("big", "/home/user/big", true));
  sandbox.cut_upload_after = SIZE_MAX;
  const auto report = up("big", "/home/user/big", true);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->kept_bytes, 2'500'000U);
  EXPECT_EQ(report->bytes, 4'000'000U);
  EXPECT_EQ(sandbox.files["/home/user/big"].content, pattern(4'000'000));
  EXPECT_EQ(sandbox.files.size(), 3U);  // no part is left
}

TEST_F(CopyTest, AnInterruptedDownloadGoesOnWhereItStopped) {
  sandbox.files["/home/user/big"].content = pattern(4'000'000);
  sandbox.cut_download_after = 1'500'000;
  EXPECT_FALSE(down("/home/user/big", "big"));
  EXPECT_FALSE(fs::exists(folder + "/big"));
  sandbox.cut_download_after = SIZE_MAX;
  sandbox.requests.clear();
  const auto report = down("/home/user/big", "big", true);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(report->kept_bytes, 0U);
  EXPECT_THAT(sandbox.requests.back(), HasSubstr(fmt::format("/home/user/big {}-", report->kept_bytes)));
  EXPECT_EQ(get("big"), pattern(4'000'000));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
}

TEST_F(CopyTest, AnotherVersionIsNotGoneOnWith) {
  sandbox.files["/home/user/big"].content = pattern(4'000'000);
  sandbox.cut_download_after = 1'500'000;
  EXPECT_FALSE(down("/home/user/big", "big"));
  sandbox.cut_download_after = SIZE_MAX;
  sandbox.files["/home/user/big"] = {.content = std::string(4'000'000, 'z'),
                                     .modified = "2026-01-02T03:04:06Z"};
  const auto report = down("/home/user/big", "big", true);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->kept_bytes, 0U);
  EXPECT_EQ(get("big"), std::string(4'000'000, 'z'));
}

TEST_F(CopyTest, WhatIsCompleteIsNotSentAgain) {
  put("src/a", "alpha");
  ASSERT_TRUE(up("src", "/home/user/dst"));
  sandbox.files["/home/user/dst/a"].modified = "2100-01-01T00:00:00Z";
  sandbox.requests.clear();
  EXPECT_EQ(up("src", "/home/user/dst", true)->kept_bytes, 5U);
  for (const std::string& request : sandbox.requests) EXPECT_THAT(request, testing::Not(HasSubstr("POST")));
  put("src/a", "longer");
  EXPECT_EQ(up("src", "/home/user/dst", true)->kept_bytes, 0U);
  EXPECT_EQ(sandbox.files["/home/user/dst/a"].content, "longer");
}

// Names of a hostile sandbox never leave the folder that is copied to.
TEST_F(CopyTest, NamesThatWouldEscapeAreRefused) {
  for (const std::string& name :
       {std::string(".."), std::string("."), std::string("../escaped"), std::string("/tmp/escaped"),
        std::string("a/b"), std::string(), std::string("nul\0byte", 8)}) {
    sandbox.add_folder("/evil");
    sandbox.files["/evil/x"].content = "owned";
    sandbox.listings["/evil"] =
        JsonArray{JsonObject{{"name", name}, {"path", "/evil/x"}, {"type", "FILE_TYPE_FILE"}, {"size", "5"}}};
    const auto report = down("/evil", "target");
    ASSERT_FALSE(report) << name;
    EXPECT_EQ(report.error().code, Code::permission_denied) << report.error().message;
  }
  EXPECT_FALSE(fs::exists(folder + "/escaped"));
  EXPECT_FALSE(fs::exists(folder + "/x"));
}

TEST_F(CopyTest, LinksThatLeadOutAreLeftOut) {
  sandbox.add_folder("/evil");
  sandbox.files["/evil/passwd"] = {.content = "", .type = "FILE_TYPE_FILE", .link = "/etc/passwd"};
  sandbox.files["/evil/up"] = {.content = "", .type = "FILE_TYPE_DIRECTORY", .link = "/evil/../etc"};
  sandbox.files["/evil/good"] = {.content = "", .type = "FILE_TYPE_FILE", .link = "/evil/sub/file"};
  sandbox.add_folder("/evil/sub");
  sandbox.files["/evil/sub/file"].content = "text";
  const auto report = down("/evil", "target");
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->left_out.size(), 2U);
  EXPECT_EQ(report->links, 1U);
  EXPECT_EQ(fs::read_symlink(folder + "/target/good"), "sub/file");
  EXPECT_FALSE(fs::exists(fs::symlink_status(folder + "/target/passwd")));
  EXPECT_FALSE(fs::exists(fs::symlink_status(folder + "/target/up")));
}

// Planted by an earlier copy or anybody else: not followed.
TEST_F(CopyTest, ALinkInTheTargetIsNotFollowed) {
  fs::create_directories(folder + "/outside");
  fs::create_directories(folder + "/target");
  fs::create_directory_symlink(folder + "/outside", folder + "/target/sub");
  put("outside/victim", "mine");
  fs::create_symlink(folder + "/outside/victim", folder + "/target/file");
  sandbox.add_folder("/evil");
  sandbox.files["/evil/file"].content = "theirs";
  ASSERT_TRUE(down("/evil", "target"));
  EXPECT_EQ(get("outside/victim"), "mine");
  EXPECT_EQ(get("target/file"), "theirs");  // in the place of the link
  sandbox.add_folder("/evil/sub");
  sandbox.files["/evil/sub/planted"].content = "theirs";
  const auto report = down("/evil", "target");
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("symbolic link"));
  EXPECT_FALSE(fs::exists(folder + "/outside/planted"));
}

TEST_F(CopyTest, ASandboxWithoutEndIsGivenUp) {
  sandbox.add_folder("/evil");
  std::string path = "/evil";
  for (int i = 0; i < 300; ++i) {
    path += "/d";
    sandbox.add_folder(path);
  }
  const auto report = down("/evil", "target");
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::exhausted);
  EXPECT_FALSE(fs::exists(folder + "/target"));
}

TEST_F(CopyTest, ErrorsSayWhatIsMissing) {
  EXPECT_THAT(down("/home/user/none", "x").error().message, HasSubstr("/home/user/none does not exist"));
  EXPECT_THAT(down("/home/user", "no/such/x").error().message, HasSubstr("mkdir -p"));
  EXPECT_THAT(up("none", "/home/user/x").error().message, HasSubstr("none does not exist"));
}

TEST(Place, SandboxesAndThisMachine) {
  EXPECT_EQ(parse_place("i0ab:/x/y")->sandbox, "i0ab");
  EXPECT_EQ(parse_place("i0ab:/x/y")->path, "/x/y");
  EXPECT_EQ(parse_place("i0ab:")->path, "~");
  EXPECT_EQ(parse_place("i0ab:rel")->path, "rel");
  for (const char* local : {"./a:b", "/a:b", "A:b", "a", "a/b:c", "-x:y", ":x"})
    EXPECT_TRUE(parse_place(local)->sandbox.empty()) << local;
  EXPECT_TRUE(parse_place("i0ab:/x/")->is_folder);
  EXPECT_TRUE(parse_place("dir/.")->contents);
  EXPECT_FALSE(parse_place("dir")->is_folder);
  EXPECT_FALSE(parse_place(""));
}

TEST(Tree, LinksAreSeenFromTheirFolder) {
  EXPECT_EQ(link_within("/a", "/a/b", "/a/c/d"), "../c/d");
  EXPECT_EQ(link_within("/a", "/a", "/a/x"), "x");
  for (const char* outside : {"/", "/b", "/ab", "/a/../b", "relative", "", "/a/../../a/x/../../etc"})
    EXPECT_EQ(link_within("/a", "/a/b", outside), "") << outside;
}

TEST(Tree, LastNames) {
  EXPECT_EQ(last_name("/x/a/"), "a");
  EXPECT_EQ(last_name("a"), "a");
  for (const char* none : {"/", "x/.", "x/..", "", ".", "~"}) EXPECT_EQ(last_name(none), "") << none;
}

TEST(Progress, OneLine) {
  ProgressState state{.total_bytes = 30 << 20,
                      .done_bytes = 12 << 20,
                      .kept_bytes = 4 << 20,
                      .total_files = 9,
                      .done_files = 3,
                      .elapsed = Millis(2000)};
  EXPECT_EQ(progress_line(state), " 40%  12.0 MiB / 30.0 MiB  4.0 MiB/s  4s left  [3/9 files]");
  EXPECT_EQ(progress_line({}), "100%  0 B / 0 B  0 B/s");
}

}  // namespace
}  // namespace space::cli
