#include "sandboxd/channel_link.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>

#include "sandboxd/fake_vm.h"
#include "sandboxd/vm_sockets.h"

namespace space {
namespace {

using namespace std::chrono_literals;

class ChannelLinkTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/space-link-XXXXXX";
    folder_ = mkdtemp(pattern);
    auto sockets = open_vm_sockets(folder_ + "/vm");
    ASSERT_TRUE(sockets);
    vm_ = FakeVm::launch(loop_.get_executor(), std::move(sockets->qmp), std::move(sockets->channel), {});
    ChannelLink::Hooks hooks;
    hooks.next_epoch = [this] { return Result<std::uint64_t>(++epoch_); };
    hooks.changed = [this] { ++changes_; };
    const ChannelLink::Pace quick{
        .beat_interval = 20ms, .beat_limit = 50ms, .missed_beats_max = 3, .attach_limit = 300ms};
    link_ = std::make_shared<ChannelLink>(loop_.get_executor(), channel_path(folder_ + "/vm"),
                                          std::move(hooks), quick);
  }
  void TearDown() override {
    link_->close();
    vm_->die(9);
    std::filesystem::remove_all(folder_);
  }
  template <class Condition>
  void pump_until(Condition condition) {
    const Deadline deadline = Deadline::after(30s);
    while (!condition()) {
      ASSERT_FALSE(deadline.passed()) << "gave up waiting";
      loop_.run_one_for(10ms);
    }
  }

  std::string folder_;
  boost::asio::io_context loop_;
  std::shared_ptr<FakeVm> vm_;
  std::shared_ptr<ChannelLink> link_;
  std::uint64_t epoch_ = 0;
  int changes_ = 0;
};

TEST_F(ChannelLinkTest, ASilentGuestIsNoticedDroppedAndFoundAgain) {
  link_->keep();
  pump_until([&] { return link_->session() != nullptr; });
  const auto first = link_->session();
  EXPECT_TRUE(link_->responsive());

  vm_->silent = true;
  pump_until([&] { return !link_->responsive(); });
  EXPECT_EQ(link_->session(), first);  // one missed beat breaks no stream
  pump_until([&] { return first->closed(); });
  EXPECT_EQ(link_->session(), nullptr);

  vm_->silent = false;
  pump_until([&] { return link_->session() != nullptr; });
  EXPECT_TRUE(link_->responsive());
  EXPECT_EQ(vm_->last_epoch, epoch_);
  pump_until([&] { return vm_->attaches >= 2; });
}

TEST_F(ChannelLinkTest, AGuestThatRecoversKeepsItsSession) {
  link_->keep();
  pump_until([&] { return link_->session() != nullptr; });
  const auto session = link_->session();
  vm_->silent = true;
  pump_until([&] { return !link_->responsive(); });
  vm_->silent = false;
  pump_until([&] { return link_->responsive(); });
  EXPECT_EQ(link_->session(), session);
  EXPECT_EQ(vm_->attaches, 1);
}

TEST_F(ChannelLinkTest, AfterCloseNothingIsCalled) {
  link_->keep();
  pump_until([&] { return link_->session() != nullptr; });
  link_->close();
  const int changes = changes_;
  loop_.run_for(100ms);
  EXPECT_EQ(changes_, changes);
  EXPECT_EQ(link_->session(), nullptr);
}

}  // namespace
}  // namespace space
