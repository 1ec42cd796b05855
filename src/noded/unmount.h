// Giving the machine back what an instance holds of it while no daemon runs.
#pragma once

#include "base/result.h"
#include "priv/layout.h"

namespace space::noded {

// Kills every VM and waits until its end is recorded. deadline when one does not end.
Result<void> kill_everything(const priv::Layout& layout);
// Removes network slots and control groups, unmounts the pool and lets go of its loop device. What is on the
// disk stays. conflict when a VM runs.
Result<void> release_everything(const priv::Layout& layout);

}  // namespace space::noded
