// DiskDiffs: which files differ between the disks of two snapshots. A file system that a guest has written is
// never read by this machine's kernel: a VM that lives for this alone boots from the sandbox's template, sees
// copies of both disks and answers (api/channel.md); it may do what any sandbox may, and nothing it says is
// believed beyond its form. No journal knows it: what a crash leaves of it is an orphan.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sandboxd/machine.h"
#include "sandboxd/turnstile.h"

namespace space {

struct DiskChange {
  std::string path;    // absolute, as base/path_text.h shows it
  std::string change;  // "added", "removed", "changed"
  std::string type;    // "file", "directory", "symlink", "device", "fifo", "socket"
  std::int64_t size = 0;
};
struct DiskDiff {
  std::vector<DiskChange> changes;
  bool truncated = false;  // there may be more
};
// A guest's answer, hostile. internal: it is none, or says more than `limit` changes.
Result<DiskDiff> parse_disk_diff(const JsonObject& answer, std::size_t limit);

struct DiskDiffWish {
  DiskPair disks;
  std::string team;             // whose they are
  std::string template_digest;  // to boot
  std::int64_t disk_mib = 0;    // at least the template's
  MachineAccelerator accelerator = MachineAccelerator::tcg;
  std::size_t limit = 0;  // changes told at most
};

class DiskDiffs {
 public:
  // All outlive it.
  struct Parts {
    Machine::Host host;
    Turnstile& starts;
    // As for a sandbox of this team.
    std::function<Task<Result<void>>(std::string team, Shape, MachineAccelerator)> make_room;
  };
  explicit DiskDiffs(Parts parts);

  // One after the other; takes as long as a boot and a walk over both. Answers when the VM is gone, or at the
  // deadline, and then the VM goes by itself. not_found: a snapshot or the template is gone; exhausted,
  // permission_denied: as at a create; unavailable: the VM or its guest did not do its part.
  Task<Result<DiskDiff>> run(DiskDiffWish wish, Deadline deadline);
  // Ends the one under way; none begins any more.
  Task<void> close();

  std::set<std::string> teams() const;  // whose disks a VM sees now
  std::int64_t committed_mib() const;

 private:
  struct Work;
  Task<void> carry_out(std::shared_ptr<Work> work, Turnstile::Place turn);
  Task<Result<DiskDiff>> compare(std::shared_ptr<Work> work);
  Task<PlanOutcome> boot(std::shared_ptr<Work> work);

  Parts parts_;
  Turnstile turns_;
  std::set<std::shared_ptr<Work>> under_way_;
  Event ended_;
  bool closed_ = false;
};

}  // namespace space
