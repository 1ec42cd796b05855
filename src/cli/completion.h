// Completion of the command line. The shells' functions are small and ask this program for every word, and it
// looks at the commands it really has: nothing can go stale.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/program.h"

namespace space::cli {

struct Completion {
  struct Candidate {
    std::string text;
    std::string help;
  };
  std::vector<Candidate> words;
  bool sandboxes = false;  // ids of live ones, too
  std::string after_id;    // what an id is followed by
  bool files = false;      // files of this machine, too
};

// `words`: what was typed after the program's name; the last is under the cursor and may be empty. Pure.
Completion complete(const CLI::App& app, const std::vector<std::string>& words);

// The shell's function; nothing for a shell that is not known.
std::string_view completion_script(std::string_view shell);

// `space __complete WORD...`: one candidate a line, a tab and its help; ":files" for files. Not a command of
// the tree, so that it completes nothing of itself.
inline constexpr std::string_view complete_word = "__complete";
int command_complete(Program& program, std::vector<std::string> words);

}  // namespace space::cli
