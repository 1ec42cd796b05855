#include "guest/file_entry.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "base/json.h"
#include "guest/temporary_folder.h"

namespace space::guest {
namespace {

class FileEntryTest : public FolderTest {
 protected:
  EntryInfo entry(const std::string& name) {
    auto found = read_entry(at(name), names_);
    EXPECT_TRUE(found) << found.error().message;
    return found.value_or(EntryInfo());
  }
  void link(const std::string& target, const std::string& name) {
    ASSERT_EQ(::symlink(target.c_str(), at(name).c_str()), 0);
  }
};

TEST_F(FileEntryTest, FileAndFolder) {
  write(at("f"), "12345");
  ::chmod(at("f").c_str(), 0640);
  names_.users[::getuid()] = "someone";
  const EntryInfo file = entry("f");
  EXPECT_EQ(file.name, "f");
  EXPECT_EQ(file.path, at("f"));
  EXPECT_EQ(file.kind, FileKind::file);
  EXPECT_EQ(file.size, 5U);
  EXPECT_EQ(file.mode, 0640U);
  EXPECT_EQ(file.permissions, "-rw-r-----");
  EXPECT_EQ(file.owner, "someone");
  EXPECT_EQ(file.group, std::to_string(::getgid()));
  EXPECT_FALSE(file.symlink_target);

  ASSERT_EQ(::mkdir(at("d").c_str(), 0755), 0);
  ::chmod(at("d").c_str(), 01777);
  EXPECT_EQ(entry("d").kind, FileKind::directory);
  EXPECT_EQ(entry("d").permissions, "dtrwxrwxrwx");
  EXPECT_EQ(entry("d").mode, 0777U);
  EXPECT_EQ(read_entry("/", names_)->name, "/");
}

TEST_F(FileEntryTest, ALinkShowsItselfAndWhatItLeadsTo) {
  write(at("f"), "12345");
  ::chmod(at("f").c_str(), 0600);
  link("f", "to-f");
  link("to-f", "to-link");
  const EntryInfo two = entry("to-link");
  EXPECT_EQ(two.kind, FileKind::file);
  EXPECT_EQ(two.symlink_target, at("f"));
  EXPECT_EQ(two.mode, 0600U);
  EXPECT_EQ(two.permissions, "Lrwxrwxrwx");
  EXPECT_EQ(two.size, 4U);  // of the link

  link(".", "to-folder");
  EXPECT_EQ(entry("to-folder").kind, FileKind::directory);
  EXPECT_EQ(entry("to-folder").symlink_target, folder_);
}

TEST_F(FileEntryTest, ALinkThatLeadsNowhereIsShown) {
  link("missing", "dangling");
  link("loop", "loop");
  for (const char* name : {"dangling", "loop"}) {
    const EntryInfo found = entry(name);
    EXPECT_EQ(found.kind, FileKind::unspecified);
    EXPECT_EQ(found.symlink_target, at(name));
    EXPECT_EQ(found.mode, 0U);
  }
}

TEST_F(FileEntryTest, SpecialFilesAreShownAndNotOpened) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  link("pipe", "to-pipe");
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{.sun_family = AF_UNIX};
  at("socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(entry("pipe").kind, FileKind::unspecified);
  EXPECT_EQ(entry("pipe").permissions, "prw-------");
  EXPECT_EQ(entry("to-pipe").symlink_target, at("pipe"));
  EXPECT_EQ(entry("socket").permissions.front(), 'S');
  EXPECT_EQ(read_entry("/dev/null", names_)->permissions, "Dcrw-rw-rw-");
}

TEST_F(FileEntryTest, AHugeSparseFileHasItsSize) {
  write(at("sparse"), "");
  ASSERT_EQ(::truncate(at("sparse").c_str(), 5'000'000'000'000), 0);
  std::string text;
  append_entry_json(text, entry("sparse"));
  EXPECT_NE(text.find(R"("size":"5000000000000")"), std::string::npos) << text;
}

TEST_F(FileEntryTest, MissingIsNotFound) {
  write(at("f"), "");
  EXPECT_EQ(read_entry(at("missing"), names_).error().code, Code::not_found);
  EXPECT_EQ(read_entry(at("missing/x"), names_).error().code, Code::not_found);
  EXPECT_EQ(read_entry(at("f/x"), names_).error().code, Code::not_found);
  EXPECT_EQ(read_entry(at(std::string(300, 'x')), names_).error().code, Code::invalid_argument);
  EXPECT_EQ(read_entry("/" + std::string(10'000, 'x') + "/y", names_).error().code, Code::invalid_argument);
}

TEST_F(FileEntryTest, TheJsonFormIsJsonWhateverTheName) {
  EntryInfo info{.name = "\xFF\"\\\n\x01", .path = "/\xFF", .kind = FileKind::file};
  info.metadata["k\x02"] = "\xFE";
  info.modified = {.tv_sec = 1'700'000'000, .tv_nsec = 5};
  std::string text;
  append_entry_json(text, info);
  const auto json = parse_json_object(text, "entry");
  ASSERT_TRUE(json) << text;
  EXPECT_EQ(json->at("name").as_string(), "\xEE\xBF\xBF\"\\\n\x01");
  EXPECT_EQ(json->at("modifiedTime").as_string(), "2023-11-14T22:13:20.000000005Z");
  for (const std::int64_t second : {INT64_MIN, INT64_MAX}) {
    info.modified.tv_sec = second;
    text.clear();
    append_entry_json(text, info);
    EXPECT_TRUE(text.find("\"0001-01-01T00:00:00.0") != std::string::npos ||
                text.find("\"9999-12-31T23:59:59.0") != std::string::npos)
        << text;
  }
}

TEST_F(FileEntryTest, PermissionsAreThoseOfGo) {
  EXPECT_EQ(permission_text(S_IFREG | 0644), "-rw-r--r--");
  EXPECT_EQ(permission_text(S_IFREG | 04755), "urwxr-xr-x");
  EXPECT_EQ(permission_text(S_IFDIR | 02755), "dgrwxr-xr-x");
  EXPECT_EQ(permission_text(S_IFBLK | 0660), "Drw-rw----");
}

TEST_F(FileEntryTest, MetadataIsReplacedAndFound) {
  write(at("f"), "");
  const Fd file(::open(at("f").c_str(), O_RDWR));
  const auto set = replace_metadata(file.get(), {{"author", "me"}, {"old", "x"}});
  ASSERT_TRUE(set) << set.error().message << ": the tests need a file system with user attributes on /tmp";
  ASSERT_EQ(::fsetxattr(file.get(), "user.other", "1", 1, 0), 0);
  EXPECT_EQ(entry("f").metadata, (Metadata{{"author", "me"}, {"old", "x"}}));
  ASSERT_TRUE(replace_metadata(file.get(), {{"author", "you"}}));
  EXPECT_EQ(entry("f").metadata, (Metadata{{"author", "you"}}));
  link("f", "to-f");
  EXPECT_EQ(entry("to-f").metadata, (Metadata{{"author", "you"}}));
  ASSERT_TRUE(replace_metadata(file.get(), {}));
  EXPECT_TRUE(entry("f").metadata.empty());
  char byte = 0;
  EXPECT_EQ(::fgetxattr(file.get(), "user.other", &byte, 1), 1);  // not ours, left alone
}

TEST(AccountNames, AreTheFirstOfAnId) {
  const AccountNames names =
      account_names("root:x:0:0::/:\nbad\nuser:x:1000:1::/:\nalias:x:1000:1::/:\n", "g:x:5:\n");
  EXPECT_EQ(names.user(1000), "user");
  EXPECT_EQ(names.user(7), "7");
  EXPECT_EQ(names.group(5), "g");
}

}  // namespace
}  // namespace space::guest
