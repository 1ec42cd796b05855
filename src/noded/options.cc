#include "noded/options.h"

#include <getopt.h>

#include <charconv>
#include <optional>

#include "priv/pool.h"

namespace space::noded {
namespace {

constexpr const char* usage =
    "usage: space-noded [--state DIR] [--run DIR] --sandboxd-uid UID [--pool-mib MIB] [--vmm-program FILE]\n"
    "       space-noded [--state DIR] [--run DIR] --unmount-pool [--kill-vms]";

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

Result<Options> parse_options(int argc, char** argv) {
  static const option known[] = {
      {"state", required_argument, nullptr, 's'},        {"run", required_argument, nullptr, 'r'},
      {"sandboxd-uid", required_argument, nullptr, 'u'}, {"pool-mib", required_argument, nullptr, 'p'},
      {"vmm-program", required_argument, nullptr, 'v'},  {"unmount-pool", no_argument, nullptr, 'd'},
      {"kill-vms", no_argument, nullptr, 'k'},           {}};
  Options options;
  std::optional<uid_t> client;
  std::optional<std::uint64_t> pool_mib = priv::pool_mib_default;
  opterr = 0;
  for (int option = 0; (option = ::getopt_long(argc, argv, "", known, nullptr)) != -1;) {
    switch (option) {
      case 's':
        options.layout.state = optarg;
        break;
      case 'r':
        options.layout.run = optarg;
        break;
      case 'u':
        client = number_of<uid_t>(optarg);
        break;
      case 'p':
        pool_mib = number_of<std::uint64_t>(optarg);
        break;
      case 'v':
        options.vmm_program = optarg;
        break;
      case 'd':
        options.unmount_pool = true;
        break;
      case 'k':
        options.kill_vms = true;
        break;
      default:
        return fail(Code::invalid_argument, "{}", usage);
    }
  }
  if (optind != argc || !pool_mib || (!client && !options.unmount_pool) ||
      (options.kill_vms && !options.unmount_pool))
    return fail(Code::invalid_argument, "{}", usage);
  if (!options.layout.state.starts_with('/') || !options.layout.run.starts_with('/'))
    return fail(Code::invalid_argument, "--state and --run must be absolute paths");
  options.client = client.value_or(0);
  options.pool_mib_max = *pool_mib;
  return options;
}

}  // namespace space::noded
