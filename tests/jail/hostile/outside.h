// Everything of a space-noded instance and some of the machine that verbs on given ids must not touch: seen
// before and after, compared.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace space::hostile {

struct Scope {
  std::string root, state, run;      // of the instance; everything below `root` counts
  std::vector<std::string> own;      // ids and digests of the attacker: what is named after them does not
  std::vector<pid_t> processes;      // that must go on
  std::vector<std::string> content;  // files whose bytes count too
};

// What there is, each with what was seen of it.
using Outside = std::map<std::string, std::string>;
Outside look_outside(const Scope& scope);

// One line for each difference; empty: none.
std::string differences(const Outside& before, const Outside& after);

}  // namespace space::hostile
