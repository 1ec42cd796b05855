#include "bench/report.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/json.h"

namespace space::bench {
namespace {

double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

void print_line(const JsonObject& line) {
  const std::string text = to_text(line) + "\n";
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

double Samples::percentile(double percent) const {
  if (values_.empty()) return 0;
  auto sorted = values_;
  std::ranges::sort(sorted);
  const auto rank = static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

void print(std::string_view bench, std::string_view metric, const Samples& samples, std::optional<Peer> peer,
           std::string_view unit) {
  JsonObject line{{"bench", bench},
                  {"metric", metric},
                  {"unit", unit},
                  {"n", samples.size()},
                  {"p50", rounded(samples.percentile(50))},
                  {"p90", rounded(samples.percentile(90))},
                  {"p99", rounded(samples.percentile(99))}};
  if (peer) {
    const double floor = peer->samples.percentile(50);
    line["peer"] = peer->name;
    line["peer_p50"] = rounded(floor);
    line["ratio"] = floor > 0 ? rounded(samples.percentile(50) / floor) : 0;
  }
  print_line(line);
}

void print_value(std::string_view bench, std::string_view metric, double value, std::string_view unit,
                 double goal) {
  print_line({{"bench", bench},
              {"metric", metric},
              {"unit", unit},
              {"n", 1},
              {"p50", rounded(value)},
              {"goal", goal},
              {"met", value <= goal}});
}

void print_machine(std::string_view bench) {
  double load[3] = {};
  (void)getloadavg(load, 3);
  utsname host{};
  (void)uname(&host);
  print_line({{"bench", bench},
              {"metric", "machine"},
              {"processors", std::thread::hardware_concurrency()},
              {"load1", rounded(load[0])},
              {"load5", rounded(load[1])},
              {"kernel", host.release}});
}

}  // namespace space::bench
