// The fake node manager keeps the contract that the real one keeps (tests/integration).
#include "sandboxd/noded_contract.h"

#include <boost/asio/io_context.hpp>
#include <filesystem>

#include "sandboxd/fake_noded.h"

namespace space {
namespace {

class NodedContract : public testing::Test {
 protected:
  NodedContract() {
    char pattern[] = "/tmp/space-contract-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    noded_.emplace(loop_.get_executor(), folder_ + "/noded.sock");
    noded_->templates.insert(digest_);
  }
  ~NodedContract() override {
    noded_.reset();
    std::filesystem::remove_all(folder_);
  }
  using Script = Task<void> (*)(NodedClient&, std::string, std::string);
  void keeps(Script script) {
    NodedClient client(loop_.get_executor(), folder_ + "/noded.sock");
    bool ended = false;
    spawn(loop_.get_executor(), "contract", [](Task<void> task, bool& done) -> Task<void> {
      co_await std::move(task);
      done = true;
    }(script(client, folder_, digest_), ended));
    const Deadline patience = Deadline::after(std::chrono::seconds(60));
    while (!ended && !patience.passed()) loop_.run_one_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(ended);
  }

  const std::string digest_ = std::string(64, 'a');
  std::string folder_;
  boost::asio::io_context loop_;
  std::optional<FakeNoded> noded_;
};

TEST_F(NodedContract, Snapshots) {
  keeps(contract::snapshots);
}

TEST_F(NodedContract, DiskSnapshots) {
  keeps(contract::disk_snapshots);
}

TEST_F(NodedContract, SnapshotDisks) {
  keeps(contract::snapshot_disks);
}

TEST_F(NodedContract, Restored) {
  keeps(contract::restored);
}

}  // namespace
}  // namespace space
