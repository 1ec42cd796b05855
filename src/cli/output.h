// Output: what people read (aligned tables, short lines) and what machines read (--json, one document).
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace space::cli {

using Row = std::vector<std::string>;

std::vector<std::string> table_lines(const Row& header, std::vector<Row> rows);  // each cell as `printable`
void print_table(const Row& header, std::vector<Row> rows);
void print_json(const Json& value);      // one line on standard output
void print_line(std::string_view text);  // standard output
void note(std::string_view text);        // standard error: progress and hints
// The same while the terminal is in raw mode, in the middle of a program's output.
void note_on_terminal(std::string_view text);
// Text of a guest as it may be shown: control characters, with which it could rule the terminal, and those
// that are not seen but turn the text around, as \xNN.
std::string printable(std::string_view text);
void print_error(const Error& error);  // "space: …" on standard error, red on a terminal

// Exit codes of every command, tested: 0 done, 1 it failed, 2 wrong usage; `run` and `exec` pass the
// program's own on.
inline constexpr int exit_failed = 1;
inline constexpr int exit_usage = 2;
int exit_code_of(const Error& error);
// Says it and answers its exit code.
int report(const Error& error);

// "12s", "4m", "3h", "2d".
std::string duration_text(std::int64_t seconds);
// The same from now.
std::string age(std::string_view rfc3339);

}  // namespace space::cli
