// The matrix rows x layers, for the reader.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/jail/harness.h"

namespace space::jail {

struct Column {
  std::string title;
  Outcomes outcomes;
};
// On standard output, every line beginning with "# ". A column shows only what differs from the first.
void print_matrix(const std::string& title, const std::vector<std::string>& rows,
                  const std::vector<Column>& columns);

// Rows of `now` that came out otherwise than in `full`, with what came of them.
Outcomes changed(const Outcomes& full, const Outcomes& now);

}  // namespace space::jail
