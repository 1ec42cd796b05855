// Copying one tree onto another: folders, files (a few at a time, in pieces), links, modes. Memory grows with
// the number of files, not with their size.
#pragma once

#include <string>
#include <vector>

#include "cli/progress.h"
#include "cli/tree.h"

namespace space::cli {

struct CopyOptions {
  bool resume = false;  // goes on with what an interrupted copy left; skips files that are complete
};

struct CopyReport {
  std::size_t files = 0;
  std::size_t folders = 0;
  std::size_t links = 0;
  std::uint64_t bytes = 0;            // of all files
  std::uint64_t kept_bytes = 0;       // of those: were there
  std::vector<std::string> left_out;  // what could not be copied and why, for people
};

// `from` must exist. An existing file of that name is replaced at the moment its copy is whole; after an
// error the rest is as it was.
Task<Result<CopyReport>> copy_tree(Tree& from, Tree& to, CopyOptions options, Progress& progress);

}  // namespace space::cli
