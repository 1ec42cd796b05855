// What the API itself says: asked over the network like any client asks.
#pragma once

#include "base/result.h"
#include "cli/doctor/finding.h"
#include "cli/settings.h"

namespace space::cli::doctor {

// `settings`: what load_settings answered.
Section api_section(Result<Settings> settings);

}  // namespace space::cli::doctor
