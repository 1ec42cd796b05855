#include "tests/jail/matrix.h"

#include <algorithm>
#include <cstdio>

namespace space::jail {

Outcomes changed(const Outcomes& full, const Outcomes& now) {
  Outcomes different;
  for (const auto& [row, outcome] : now)
    if (const auto before = full.find(row); before == full.end() || before->second != outcome)
      different[row] = outcome;
  return different;
}

void print_matrix(const std::string& title, const std::vector<std::string>& rows,
                  const std::vector<Column>& columns) {
  std::printf("# %s\n# %-26s", title.c_str(), "row");
  std::vector<std::size_t> widths;
  for (const Column& column : columns) {
    std::size_t width = column.title.size();
    for (const std::string& row : rows)
      if (const auto found = column.outcomes.find(row);
          found != column.outcomes.end() &&
          (&column == columns.data() || found->second != columns[0].outcomes.at(row)))
        width = std::max(width, found->second.size());
    widths.push_back(width);
    std::printf(" %-*s", static_cast<int>(width), column.title.c_str());
  }
  std::printf("\n");
  for (const std::string& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const auto found = columns[i].outcomes.find(row);
      std::string cell = found == columns[i].outcomes.end() ? "?" : found->second;
      if (i > 0 && cell == columns[0].outcomes.at(row)) cell = ".";
      cell.resize(std::max(widths[i], cell.size()), ' ');
      line += " " + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::printf("# %-26s%s\n", row.c_str(), line.c_str());
  }
  std::fflush(stdout);
}

}  // namespace space::jail
