// Upgrade: a new program for the daemon's place, received in pieces into a memory file, and the exec that
// puts it there: the process, its children and the descriptors it names go on; threads and everything else
// end.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/sha256.h"
#include "guest/control_messages.h"
#include "guest/handover.h"

namespace space::guest {

class Upgrade {
 public:
  // Takes a piece; answers how much of the program is here. Pieces come in order; one that is here already is
  // passed over, offset 0 begins anew. Code::conflict: of another program, or behind a gap.
  // Code::invalid_argument: the whole is not what its digest says; all of it is dropped then.
  Result<std::size_t> take(const UpgradePiece& piece);
  bool complete() const { return complete_; }
  int program() const { return program_.get(); }

 private:
  Result<void> begin(const UpgradePiece& piece);

  Fd program_;
  std::string digest_;
  std::size_t size_ = 0;
  std::size_t received_ = 0;
  bool complete_ = false;
  Sha256 hash_;
};

// A sealed memory file with the handover.
Result<Fd> write_handover(const Handover& handover);
// What that file holds. Refuses a file that is not sealed, and descriptors that are neither pipes nor
// terminals.
Result<Handover> read_handover(Fd file);
// Descriptors above 2 that came through an exec and nobody closed, made to close at the next one: pipes that
// can be read and terminals, and the rest, which is only kept open.
struct Inherited {
  std::vector<Fd> outputs;
  std::vector<Fd> others;
};
Inherited inherited_descriptors(int except = -1);

// Replaces this process's program. Returns only when that failed: everything is as before then. `arguments`:
// argv, to which "--resume", "N" is added.
Error exec_program(int program, std::vector<std::string> arguments, const Handover& handover);

}  // namespace space::guest
