// The lock of a run directory: one `space up` at a time, and where `space down` finds it. Plain blocking
// code.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/result.h"

namespace space::cli {

struct RunningSupervisor {
  pid_t pid = 0;
  Millis stop_limit{0};  // that keeping its sandboxes may take
};

// conflict: somebody has it. It goes with the process, whatever ends it.
Result<Fd> take_up_lock(const std::string& run, Millis stop_limit);
// not_found: SPACE is not up.
Result<RunningSupervisor> running_supervisor(const std::string& run);

// "keeping 3 sandboxes: 1 of 3", drawn again and again while space-sandboxd says so; nothing elsewhere than
// on a terminal.
class KeepingLine {
 public:
  KeepingLine(const std::string& run, int terminal);  // takes the descriptor
  ~KeepingLine();                                     // leaves the line clean
  KeepingLine(const KeepingLine&) = delete;
  KeepingLine& operator=(const KeepingLine&) = delete;
  void draw();
  std::optional<int> total() const { return total_; }  // as it was last said

 private:
  std::string path_;
  Fd terminal_;
  bool visible_;
  std::optional<int> total_;
  std::string drawn_;
};

// Pure: of the file's text; nothing when it is none.
std::optional<std::string> keeping_text(const std::string& text);

}  // namespace space::cli
