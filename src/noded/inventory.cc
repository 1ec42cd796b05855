#include "noded/inventory.h"

#include <algorithm>

#include "priv/disk.h"
#include "priv/folder.h"
#include "priv/slot.h"
#include "priv/snapshot.h"
#include "priv/vmm_record.h"

namespace space::noded {
namespace {

ListRecord record_of(Kind kind, const std::string& id) {
  ListRecord record{.kind = kind};
  id.copy(record.id, sizeof record.id - 1);
  return record;
}

}  // namespace

Result<std::vector<ListRecord>> take_inventory(const priv::Layout& layout, const priv::Pool& pool) {
  std::vector<ListRecord> records;
  SPACE_TRY(const auto templates, priv::names_in(pool.templates()));
  for (const std::string& digest : templates) records.push_back(record_of(Kind::template_, digest));

  SPACE_TRY(const auto disks, priv::names_in(pool.sandboxes()));
  for (const std::string& id : disks) {
    ListRecord record = record_of(Kind::disk, id);
    if (const auto disk = priv::find_disk(pool, id)) record.uid = disk->uid;
    records.push_back(record);
  }

  SPACE_TRY(const auto snapshots, priv::snapshots_in(pool));
  for (const priv::SnapshotName& snapshot : snapshots) {
    records.push_back(record_of(Kind::snapshot, snapshot.sandbox));
    records.back().number = snapshot.number;
  }

  SPACE_TRY(const auto slots, priv::names_in(layout.slots()));
  for (const std::string& id : slots)
    if (priv::slot_exists(layout, id)) records.push_back(record_of(Kind::slot, id));

  SPACE_TRY(const auto vmms, priv::names_in(layout.vmms()));
  for (const std::string& id : vmms) {
    const priv::VmmStatus status = priv::vmm_status(layout, id);
    if (status.state == priv::VmmState::none) continue;
    ListRecord record = record_of(priv::holds_processes(status.state) ? Kind::vmm : Kind::vmm_exited, id);
    if (status.state == priv::VmmState::running)
      record.number = static_cast<std::uint64_t>(status.process.pid);
    records.push_back(record);
  }
  return records;
}

}  // namespace space::noded
