// What every benchmark program is: arguments, a loop, the machine's line, an exit code.
#pragma once

#include <string>

#include "net/task.h"

namespace space::bench {

// Measures and prints: the template's folder, how many rounds.
using Measure = Task<Result<void>> (*)(std::string template_folder, int rounds);

// usage: NAME_bench TEMPLATE_FOLDER [ROUNDS]. Answers main's exit code.
int bench_main(int argc, char** argv, const char* name, int default_rounds, Measure measure);

}  // namespace space::bench
