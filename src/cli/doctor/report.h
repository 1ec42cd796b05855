// Report: the findings as a person or a program reads them.
#pragma once

#include <vector>

#include "base/json.h"
#include "cli/doctor/finding.h"

namespace space::cli::doctor {

// [{"section","check","verdict","seen","means","advice"}, …]; verdict is good, warning or bad.
Json to_json(const std::vector<Section>& sections);
// `color` for a terminal.
std::string to_report(const std::vector<Section>& sections, bool color);

}  // namespace space::cli::doctor
