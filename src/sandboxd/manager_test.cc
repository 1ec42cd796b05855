// The manager in this process, with a fake node manager: what the host must be like before a VM is started.
#include "sandboxd/manager.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>

#include "base/ids.h"
#include "sandboxd/fake_netd.h"
#include "sandboxd/fake_noded.h"

namespace space {
namespace {

using namespace std::chrono_literals;

class KsmTest : public testing::Test {
 protected:
  KsmTest() {
    char pattern[] = "/tmp/space-manager-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    std::filesystem::create_directory(folder_ + "/vm");
    noded_.emplace(loop_.get_executor(), folder_ + "/noded.sock");
    netd_.emplace(loop_.get_executor(), folder_ + "/netd.sock");
    noded_->templates.insert(digest_);
    gateway_.emplace(loop_.get_executor(), folder_ + "/netd.sock");
    spawn(loop_.get_executor(), "gateway", gateway_->run([](const std::string&) { return true; }));
  }
  ~KsmTest() override {
    netd_.reset();
    noded_.reset();
    std::filesystem::remove_all(folder_);
  }

  void set(const std::string& value) { ASSERT_TRUE(write_file_durably(ksm_file(), value, 0600)); }
  std::string ksm_file() const { return folder_ + "/ksm"; }

  // The outcome of one create by a manager that began with the file as it is.
  Result<void> create() {
    const std::string id = new_sandbox_id();
    auto journal = Journal::open(folder_ + "/" + id).value();
    EventLog events(loop_.get_executor());
    SandboxLogs logs(loop_.get_executor());
    NodedClient client(loop_.get_executor(), folder_ + "/noded.sock");
    Templates templates(client);
    Manager manager({loop_.get_executor(), client, *gateway_, folder_ + "/vm", 0, nullptr, "tcg", "kvm"},
                    journal, events, logs, templates, {}, {.memory_mib = 1'000'000}, {},
                    KsmSwitch(ksm_file()));
    CreateRequest request{
        .id = id, .generation = 1, .template_digest = digest_, .shape = {}, .team = "a", .guest_init = {}};
    const auto created = run(manager.create(std::move(request), MachineAccelerator::tcg));
    if (created) EXPECT_TRUE(run(manager.remove(id, Deadline::after(20s))));
    EXPECT_TRUE(noded_->holds_nothing());
    EXPECT_EQ(journal.sandboxes()->size(), 0U);
    if (!created) return std::unexpected(created.error());
    return {};
  }

  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    spawn(loop_.get_executor(), "test", detail::store_result(std::move(task), &result));
    const Deadline deadline = Deadline::after(30s);
    while (!result && !deadline.passed()) loop_.run_one_for(10ms);
    EXPECT_TRUE(result) << "gave up waiting";
    return *std::move(result);
  }

  const std::string digest_ = std::string(64, 'a');
  std::string folder_;
  boost::asio::io_context loop_;
  std::optional<FakeNoded> noded_;
  std::optional<FakeNetd> netd_;
  std::optional<NetdClient> gateway_;
};

TEST_F(KsmTest, WhileItMergesNoVmIsStarted) {
  set("1\n");
  const auto refused = create();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unavailable);
  EXPECT_NE(refused.error().message.find("echo 2 > /sys/kernel/mm/ksm/run"), std::string::npos);
  EXPECT_TRUE(noded_->verbs.empty()) << "nothing was asked of the node manager";
}

TEST_F(KsmTest, OffOrUnmergedOrAbsentIsFine) {
  EXPECT_TRUE(create()) << "a kernel without KSM";
  for (const char* off : {"0\n", "2\n"}) {
    set(off);
    EXPECT_TRUE(create()) << off;
  }
}

TEST_F(KsmTest, WhatCannotBeReadIsNotTakenForOff) {
  set("");
  EXPECT_EQ(create().error().code, Code::unavailable);
  std::filesystem::remove(ksm_file());
  std::filesystem::create_directory(ksm_file());
  EXPECT_EQ(create().error().code, Code::unavailable);
}

TEST(KsmSwitch, IsReadAgainEachTime) {
  char path[] = "/tmp/space-ksm-XXXXXX";
  const Fd file(::mkstemp(path));
  const KsmSwitch ksm(path);
  for (const char value : {'0', '1', '2', '1'}) {
    ASSERT_EQ(::pwrite(file.get(), &value, 1, 0), 1);
    EXPECT_EQ(ksm.check_off().has_value(), value != '1') << value;
  }
  ::unlink(path);
}

}  // namespace
}  // namespace space
