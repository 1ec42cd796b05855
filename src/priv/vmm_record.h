// What is known of a sandbox's VMM process, kept in the files of <run>/noded/vm/<id>/:
//   lock   held by the supervisor as long as it lives (an open-file-description lock: it ends with it)
//   pid    "PID START_TICKS", from before its first instruction    exit   how it ended    log   its output
//   jail   what of it showed from inside only    launch   what it was launched with
// Nothing of it is in noded's memory: a restarted noded reads the same truth.
#pragma once

#include <string>

#include "base/fd.h"
#include "priv/jail.h"
#include "priv/layout.h"
#include "priv/process.h"

namespace space::priv {

enum class VmmState {
  none,       // never launched, or forgotten
  launching,  // the supervisor has not started it yet
  running,
  ending,  // it is gone, its supervisor is about to say how
  exited,
};

struct VmmExit {
  bool known = false;  // false: the supervisor went first, nobody saw the end
  int signal = 0;      // that ended it; 0 = it exited by itself
  int status = 0;      // of exit
  bool out_of_memory = false;

  bool operator==(const VmmExit&) const = default;
};

struct VmmStatus {
  VmmState state = VmmState::none;
  ProcessId process;  // running, ending
  VmmExit exit;       // exited
};

VmmStatus vmm_status(const Layout& layout, const std::string& id);
inline bool holds_processes(VmmState state) {
  return state != VmmState::none && state != VmmState::exited;
}

// What a snapshot of it needs to know.
struct VmmFacts {
  std::string bundle;  // name
  std::uint64_t memory_mib = 0;
  bool restored = false;   // its memory began as that of the snapshot its disk came from, not as zeros
  std::uint64_t slot = 0;  // number of the namespace its tap is in (slot.h); 0 = not known

  bool operator==(const VmmFacts&) const = default;
};

// Makes the folder and takes the lock, for the supervisor to keep open. conflict when another has it.
Result<Fd> begin_vmm_record(const Layout& layout, const std::string& id);
Result<Fd> create_vmm_log(const Layout& layout, const std::string& id);
Result<void> record_vmm_launch(const Layout& layout, const std::string& id, const VmmFacts& facts);
Result<VmmFacts> read_vmm_launch(const Layout& layout, const std::string& id);
Result<void> record_vmm_process(const Layout& layout, const std::string& id, const ProcessId& process);
Result<void> record_vmm_jail(const Layout& layout, const std::string& id, const Worn& worn);
Result<Worn> read_vmm_jail(const Layout& layout, const std::string& id);
Result<void> record_vmm_exit(const Layout& layout, const std::string& id, const VmmExit& exit);
Result<void> remove_vmm_record(const Layout& layout, const std::string& id);

// Pure: the texts of the files `pid`, `exit` and `launch`.
std::string to_text(const ProcessId& process);
std::string to_text(const VmmExit& exit);
std::string to_text(const VmmFacts& facts);
Result<ProcessId> parse_process_id(const std::string& text);
Result<VmmExit> parse_vmm_exit(const std::string& text);
Result<VmmFacts> parse_vmm_facts(const std::string& text);

}  // namespace space::priv
