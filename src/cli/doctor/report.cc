#include "cli/doctor/report.h"

#include <fmt/core.h>

namespace space::cli::doctor {

namespace {

struct Look {
  const char* name;
  const char* mark;
  const char* color;
};

Look look_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::good:
      return {"good", "ok  ", "\x1b[32m"};
    case Verdict::warning:
      return {"warning", "warn", "\x1b[33m"};
    case Verdict::bad:
      break;
  }
  return {"bad", "BAD ", "\x1b[31m"};
}

}  // namespace

Json to_json(const std::vector<Section>& sections) {
  JsonArray list;
  for (const Section& section : sections)
    for (const Finding& finding : section.findings)
      list.push_back(JsonObject{{"section", section.title},
                                {"check", finding.check},
                                {"verdict", look_of(finding.verdict).name},
                                {"seen", finding.seen},
                                {"means", finding.means},
                                {"advice", finding.advice}});
  return list;
}

std::string to_report(const std::vector<Section>& sections, bool color) {
  std::string out;
  int goods = 0, warnings = 0, bads = 0;
  for (const Section& section : sections) {
    out += section.title + "\n";
    for (const Finding& finding : section.findings) {
      const Look look = look_of(finding.verdict);
      out += fmt::format("  {}{}{}  {:<20} {}\n", color ? look.color : "", look.mark, color ? "\x1b[0m" : "",
                         finding.check, finding.seen);
      if (!finding.means.empty()) out += fmt::format("{:>29}{}\n", "", finding.means);
      if (!finding.advice.empty()) out += fmt::format("{:>26}-> {}\n", "", finding.advice);
      ++(finding.verdict == Verdict::good ? goods : finding.verdict == Verdict::warning ? warnings : bads);
    }
  }
  return out + fmt::format("{} good, {} warnings, {} bad\n", goods, warnings, bads);
}

}  // namespace space::cli::doctor
