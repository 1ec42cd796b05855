// The terminal this program runs on.
#pragma once

#include <termios.h>

#include <string>

#include "base/fd.h"
#include "base/json.h"

namespace space::cli {

// Raw mode while it lives; does nothing where standard input is no terminal.
class RawTerminal {
 public:
  RawTerminal();
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios saved_{};
  bool active_ = false;
};

bool stdin_is_terminal();
struct TerminalSize {
  int columns = 80;
  int rows = 24;
};
TerminalSize terminal_size();                  // of this terminal; 80x24 without one
JsonObject to_json(const TerminalSize& size);  // {"size":{"cols","rows"}}, the daemon's PTY
// Standard input under a description of its own, so that making it non-blocking does not make the terminal
// non-blocking for the programs that share it.
Fd open_stdin();

// ^P ^Q, as in docker: leaves the program running. The first key is held back until the next one is known.
class DetachKeys {
 public:
  // What goes to the program. After `detached` nothing more does.
  std::string filter(std::string_view typed);
  bool detached() const { return detached_; }

 private:
  bool half_ = false;
  bool detached_ = false;
};

}  // namespace space::cli
