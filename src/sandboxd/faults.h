// Faults: named switches with which tests make the sandbox manager fail where it matters (`--fault NAME`).
// None is on unless asked for on the command line; each spoils one thing and says so in the log.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace space {

enum class Fault : unsigned char {
  no_reseed,          // restored guests get no entropy
  old_daemon,         // every restored guest's daemon is taken for an older one
  cont_before_clone,  // a checkpoint lets the VM run on before its disk is copied
  enospc_pages,       // no room for a checkpoint's memory
  eio_pages,          // its memory, its devices' state or its manifest cannot be written
  eio_vmstate,
  eio_manifest,
  fail_device_state,    // QEMU does not give its devices' state
  fail_snapshot_begin,  // space-noded refuses
  fail_snapshot_finish,
  fast_schedule,  // a second of a snapshot schedule lasts 10 ms
};

// invalid_argument: no such fault. "crash-at=POINT" ends the process, as kill -9 would, at
// crash_point(POINT). "fail-restore-of=N": no recovery gets snapshot N of a sandbox to run; may be given more
// than once.
Result<void> switch_on_fault(std::string_view name);
bool is_on(Fault fault);
// An error of that name when the fault is on.
Result<void> fail_if(Fault fault, Code code);

// An error when "fail-restore-of=`number`" is on.
Result<void> fail_restore_of(std::uint64_t number);

// Points between two steps of an operation, where a crash must lose nothing.
void crash_point(std::string_view name);

}  // namespace space
