#include "bench/bench_main.h"

#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <cstdlib>

#include "bench/report.h"

namespace space::bench {

int bench_main(int argc, char** argv, const char* name, int default_rounds, Measure measure) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s_bench TEMPLATE_FOLDER [ROUNDS]\n", name);
    return 2;
  }
  print_machine(name);
  boost::asio::io_context loop;
  Result<void> result;
  const auto store = [](Task<Result<void>> measuring, Result<void>& out) -> Task<void> {
    out = co_await std::move(measuring);
  };
  spawn(loop.get_executor(), "bench",
        store(measure(argv[1], argc > 2 ? std::atoi(argv[2]) : default_rounds), result));
  loop.run();
  if (!result) std::fprintf(stderr, "%s: %s\n", name, result.error().message.c_str());
  return result ? 0 : 1;
}

}  // namespace space::bench
