// Finding: what one check of `space doctor` says.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace space::cli::doctor {

enum class Verdict : unsigned char { good, warning, bad };

struct Finding {
  std::string check;  // "kvm", "pool room", …: stable, for scripts
  Verdict verdict = Verdict::good;
  std::string seen;    // what was found, one line
  std::string means;   // what it does to the user; empty when good
  std::string advice;  // what to do, a command where there is one; empty when good
};

// Checks of one kind, under one heading.
struct Section {
  std::string title;
  std::vector<Finding> findings;
};

inline Finding good(std::string check, std::string seen) {
  return {std::move(check), Verdict::good, std::move(seen), "", ""};
}
inline Finding warning(std::string check, std::string seen, std::string means, std::string advice) {
  return {std::move(check), Verdict::warning, std::move(seen), std::move(means), std::move(advice)};
}
inline Finding bad(std::string check, std::string seen, std::string means, std::string advice) {
  return {std::move(check), Verdict::bad, std::move(seen), std::move(means), std::move(advice)};
}

}  // namespace space::cli::doctor
