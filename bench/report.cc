#include "bench/report.h"

#include <fmt/core.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/json_text.h"

namespace space::bench {
namespace {

// A line under way. Numbers with three decimals: JSON libraries print 5508.4 as 5.5084E3.
class Line {
 public:
  Line(std::string_view bench, std::string_view metric) {
    text("bench", bench);
    text("metric", metric);
  }
  void text(std::string_view key, std::string_view value) {
    begin(key);
    append_json_string(line_, value);
  }
  void number(std::string_view key, double value) {
    begin(key);
    line_ += fmt::format("{:.3f}", value);
  }
  void count(std::string_view key, std::size_t value) {
    begin(key);
    line_ += fmt::format("{}", value);
  }
  void print() {
    line_ += "}\n";
    std::fputs(line_.c_str(), stdout);
    std::fflush(stdout);
  }

 private:
  void begin(std::string_view key) {
    line_ += line_.empty() ? "{" : ",";
    append_json_string(line_, key);
    line_ += ":";
  }
  std::string line_;
};

}  // namespace

double Samples::percentile(double percent) const {
  if (values_.empty()) return 0;
  auto sorted = values_;
  std::ranges::sort(sorted);
  const auto rank = static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

void print(std::string_view bench, std::string_view metric, const Samples& samples, std::optional<Peer> peer,
           std::optional<double> goal, std::string_view unit) {
  Line line(bench, metric);
  line.text("unit", unit);
  line.count("n", samples.size());
  line.number("min", samples.percentile(0));
  for (const int percent : {50, 90, 99})
    line.number(fmt::format("p{}", percent), samples.percentile(percent));
  if (peer) {
    const double floor = peer->samples.percentile(50);
    line.text("peer", peer->name);
    line.number("peer_p50", floor);
    line.number("ratio", floor > 0 ? samples.percentile(50) / floor : 0);
    if (peer->ratio_goal) line.number("ratio_goal", *peer->ratio_goal);
  }
  if (goal) line.number("goal", *goal);
  line.print();
}

void print_machine(std::string_view bench) {
  double load[3] = {};
  (void)getloadavg(load, 3);
  utsname host{};
  (void)uname(&host);
  Line line(bench, "machine");
  line.count("processors", std::thread::hardware_concurrency());
  line.number("load1", load[0]);
  line.number("load5", load[1]);
  line.text("kernel", host.release);
  line.print();
}

}  // namespace space::bench
