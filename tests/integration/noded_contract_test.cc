// The real space-noded keeps the contract that the sandbox manager's tests hold its fake to.
#include "sandboxd/noded_contract.h"

#include <sys/stat.h>

#include <boost/asio/io_context.hpp>

#include "tests/integration/noded_fixture.h"

namespace space::noded {
namespace {

class NodedContract : public NodedTest {
 protected:
  NodedContract() {
    ::chmod(root_.c_str(), 0755);
    start_noded();
    digest_ = make_image();
    EXPECT_TRUE(import(digest_).done());
  }
  using Script = Task<void> (*)(NodedClient&, std::string, std::string);
  void keeps(Script script) {
    NodedClient client(loop_.get_executor(), run_ + "/noded/noded.sock");
    bool ended = false;
    spawn(loop_.get_executor(), "contract", [](Task<void> task, bool& done) -> Task<void> {
      co_await std::move(task);
      done = true;
    }(script(client, root_, digest_), ended));
    const Deadline patience = Deadline::after(std::chrono::seconds(60));
    while (!ended && !patience.passed()) loop_.run_one_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(ended);
  }

  std::string digest_;
  boost::asio::io_context loop_;
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
}  // namespace space::noded
