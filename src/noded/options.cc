#include "noded/options.h"

#include <getopt.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "priv/jail.h"
#include "priv/pool.h"

namespace space::noded {
namespace {

constexpr const char* usage =
    "usage: space-noded [--state DIR] [--run DIR] --sandboxd-uid UID [--netd-uid UID] [--volumed-uid UID]\n"
    "                   [--pool-mib MIB] [--vmm-program FILE] [--allow-missing LAYER]...\n"
    "       space-noded [--state DIR] [--run DIR] --unmount-pool [--kill-vms]\n"
    "  --allow-missing  run VMs without this layer of the jail where the kernel has none: landlock, user "
    "namespace";

constexpr const char* default_may_miss = "user namespace";

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// A layer misspelt would be one that nobody may miss, found out by the first sandbox.
bool is_layer(std::string_view name) {
  return std::ranges::find(priv::jail_layers(), name, [](const priv::JailLayer& layer) {
           return std::string_view(layer.name);
         }) != priv::jail_layers().end();
}

}  // namespace

Result<Options> parse_options(int argc, char** argv) {
  static const option known[] = {{"state", required_argument, nullptr, 's'},
                                 {"run", required_argument, nullptr, 'r'},
                                 {"sandboxd-uid", required_argument, nullptr, 'u'},
                                 {"netd-uid", required_argument, nullptr, 'n'},
                                 {"volumed-uid", required_argument, nullptr, 'o'},
                                 {"pool-mib", required_argument, nullptr, 'p'},
                                 {"vmm-program", required_argument, nullptr, 'v'},
                                 {"allow-missing", required_argument, nullptr, 'm'},
                                 {"unmount-pool", no_argument, nullptr, 'd'},
                                 {"kill-vms", no_argument, nullptr, 'k'},
                                 {}};
  Options options;
  options.settings.pool_mib_max = priv::pool_mib_default;
  options.settings.may_miss = {default_may_miss};
  bool understood = true;
  const auto take = [&understood]<class Number>(Number& to) {
    const auto number = number_of<Number>(optarg);
    understood = understood && number;
    to = number.value_or(Number{});
  };
  const auto take_client = [&](Client client) {
    uid_t uid = 0;
    take(uid);
    // One uid, one daemon: who may do what would not be told apart otherwise.
    understood = understood && options.clients.emplace(uid, client).second;
  };
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
        take_client(Client::sandboxd);
        break;
      case 'n':
        take_client(Client::netd);
        break;
      case 'o':
        take_client(Client::volumed);
        break;
      case 'p':
        take(options.settings.pool_mib_max);
        break;
      case 'v':
        options.settings.vmm_program = optarg;
        break;
      case 'm':
        options.settings.may_miss.emplace_back(optarg);
        understood = understood && is_layer(optarg);
        break;
      case 'd':
        options.unmount_pool = true;
        break;
      case 'k':
        options.kill_vms = true;
        break;
      default:
        understood = false;
    }
  }
  if (!understood || optind != argc || (options.clients.empty() && !options.unmount_pool) ||
      (options.kill_vms && !options.unmount_pool))
    return fail(Code::invalid_argument, "{}", usage);
  if (!options.layout.state.starts_with('/') || !options.layout.run.starts_with('/'))
    return fail(Code::invalid_argument, "--state and --run must be absolute paths");
  return options;
}

}  // namespace space::noded
