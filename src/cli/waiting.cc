#include "cli/waiting.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace space::cli {

namespace {

constexpr std::string_view clear_line = "\r\x1b[K";

void draw(std::string_view text) {
  fmt::print(stderr, "{}{}", clear_line, text);
  std::fflush(stderr);
}

}  // namespace

struct WaitingLine::State {
  std::string what;
  bool over = false;
  bool drawn = false;
};

std::string waiting_text(const std::string& what, std::int64_t seconds) {
  return fmt::format("{} {} s", what, seconds);
}

Task<void> WaitingLine::tick(std::shared_ptr<State> state) {
  for (std::int64_t seconds = 1;; ++seconds) {
    co_await sleep_for(Millis(1000));
    if (state->over) co_return;
    state->drawn = true;
    draw(waiting_text(state->what, seconds));
  }
}

WaitingLine::WaitingLine(const Executor& executor, std::string what)
    : state_(std::make_shared<State>(std::move(what))) {
  if (::isatty(STDERR_FILENO) == 1) spawn(executor, "waiting line", tick(state_));
}

WaitingLine::~WaitingLine() {
  state_->over = true;
  if (state_->drawn) draw("");
}

}  // namespace space::cli
