// api/openapi.yaml and the router's table name the same routes. The document keeps one form, so that reading
// two kinds of its lines is enough: a path at two spaces, a method at four.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "control/router.h"

namespace space::control {
namespace {

using Routes = std::set<std::pair<std::string, std::string>>;

Routes documented() {
  std::ifstream file(SPACE_SOURCE_DIR "/api/openapi.yaml");
  Routes routes;
  std::string path;
  bool in_paths = false;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.front() != ' ' && line.front() != '#') in_paths = line == "paths:";
    if (!in_paths || !line.ends_with(':')) continue;
    line.pop_back();
    if (line.starts_with("  /")) path = line.substr(2);
    for (std::string method : {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}) {
      std::string lower = method;
      std::ranges::transform(lower, lower.begin(), [](char c) { return static_cast<char>(c + 32); });
      if (line == "    " + lower) routes.emplace(method, path);
    }
  }
  return routes;
}

TEST(OpenApi, NamesTheRoutesThatExist) {
  Routes served;
  for (const RouteEntry& entry : api_routes())
    if (entry.action != Action::not_available) served.emplace(entry.method, entry.pattern);
  EXPECT_EQ(documented(), served);
}

}  // namespace
}  // namespace space::control
