#include "priv/isolation.h"

#include <gtest/gtest.h>

#include "priv/bundle.h"

namespace space::priv {
namespace {

TEST(Status, ValuesAreFoundByTheWholeKey) {
  constexpr std::string_view status =
      "Name:\tSeccomp:\\n2\nUid:\t7\t7\t7\t7\nGroups:\t \nSeccomp:\t2\nSeccomp_filters:\t3\n";
  EXPECT_EQ(status_value(status, "Seccomp"), "2");
  EXPECT_EQ(status_value(status, "Seccomp_filters"), "3");
  EXPECT_EQ(status_value(status, "Uid"), "7\t7\t7\t7");
  EXPECT_EQ(status_value(status, "Groups"), "");
  EXPECT_EQ(status_value(status, "CapBnd"), "");
  EXPECT_EQ(status_value("", "Uid"), "");
}

TEST(Mounts, OneThatCanBeWrittenIsSeen) {
  const std::string read_only =
      "1 2 0:1 /vmm / ro,nosuid - ext4 /dev/x rw\n3 1 0:1 /m /memory ro - btrfs /dev/y rw\n";
  EXPECT_TRUE(all_read_only(read_only));
  EXPECT_FALSE(all_read_only(read_only + "4 1 0:2 / /tmp rw,nosuid - tmpfs none rw\n"));
  EXPECT_FALSE(all_read_only("")) << "nothing was read";
}

TEST(Descriptors, AreOfKnownKindsOrStrays) {
  for (const char* own : {"socket:[12]", "pipe:[3]", "anon_inode:[eventfd]", "/dev/net/tun", "/dev/kvm",
                          "/dev/null", "/var/lib/space/pool/sandboxes/i0123456789abcdefghi/disk.raw",
                          "/var/lib/space/pool/sandboxes/i0123456789abcdefghi/#261 (deleted)"})
    EXPECT_TRUE(is_vmm_descriptor(own)) << own;
  for (const char* stray : {"/", "/etc/shadow", "/dev/loop0", "/dev/null0", "/var/lib/space/pool",
                            "net:[4026531840]", "/etc/shadow (deleted)", "/tmp/#1"})
    EXPECT_FALSE(is_vmm_descriptor(stray)) << stray;
}

TEST(WornJail, SurvivesItsText) {
  for (const Worn& worn : {Worn{}, Worn{{}, 7}, Worn{{"user namespace", "landlock"}, 0}})
    EXPECT_EQ(parse_worn(to_text(worn)), worn);
  for (const char* text : {"", "landlock", "landlock x", "landlock 7 rest", "7"})
    EXPECT_FALSE(parse_worn(text)) << text;
}

TEST(Libraries, AreTheFilesOfTheLoadersList) {
  const auto paths = libraries_in(
      "\tlinux-vdso.so.1 (0x00007fff)\n\tlibz.so.1 => /lib/libz.so.1 (0x00007f00)\n"
      "\t/lib64/ld-linux-x86-64.so.2 (0x00007f01)\n\t/a b => /usr/lib/a (b) (0x1)\n");
  EXPECT_EQ(paths,
            (std::vector<std::string>{"/lib/libz.so.1", "/lib64/ld-linux-x86-64.so.2", "/usr/lib/a (b)"}));
}

}  // namespace
}  // namespace space::priv
