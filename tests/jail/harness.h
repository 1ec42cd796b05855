// Puts the probe into real jails, made by the functions that make a VMM's, and into none at all.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/noded.h"
#include "base/fd.h"
#include "priv/cgroup.h"
#include "priv/isolation.h"
#include "priv/jail.h"
#include "priv/layout.h"

namespace space::jail {

using Outcomes = std::map<std::string, std::string>;  // row -> what came of it
// Shown as the outcome of every row when the jail cannot be put on at all.
inline constexpr const char* refused_to_start = "refused";

class Harness {
 public:
  explicit Harness(noded::Accelerator accelerator);
  ~Harness();
  Harness(const Harness&) = delete;
  Harness& operator=(const Harness&) = delete;

  const std::vector<std::string>& rows() const { return rows_; }
  // Leaving out "not dumpable" also lets the program's file be read, which is what keeps the layer on after
  // exec. Every row in a jail of its own that has these layers.
  Outcomes in_jail(const std::vector<priv::JailLayer>& layers);
  // The same outside, as root or as the uid of a sandbox, in a folder like the jail's where everybody may
  // write, with /etc, /dev, /proc and /sys.
  Outcomes outside_as(uid_t uid);
  // The report about a probe that waits in such a jail; empty when it does not start.
  std::vector<priv::LayerReading> report(const std::vector<priv::JailLayer>& layers);
  const std::string& last_refusal() const { return refusal_; }

 private:
  struct Cell;     // one probe at a time: group, uid, disk, bystander
  struct Attempt;  // one that runs
  struct Place;    // where it runs

  void make_files();
  void make_open_folder(const Cell& cell);
  Outcomes each_row(const Place& place);
  Attempt start(const Place& place, Cell& cell, const std::vector<std::string>& words);
  std::string finish(Attempt& attempt, const std::string& row);
  [[noreturn]] void watch_over(const Place& place, Cell& cell, std::vector<std::string> words, int output);
  [[noreturn]] void become_probe(const Place& place, Cell& cell, std::vector<std::string> words, int output,
                                 int parent);
  int place_descriptors(Cell& cell, int output);

  noded::Accelerator accelerator_;
  std::string root_;
  priv::Layout layout_;
  std::string program_, bundle_;
  Fd tap_;
  std::unique_ptr<priv::Cgroups> cgroups_;
  std::vector<std::unique_ptr<Cell>> cells_;
  std::vector<std::string> rows_;
  std::string refusal_;
};

}  // namespace space::jail
