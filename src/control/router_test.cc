#include "control/router.h"

#include <gtest/gtest.h>

namespace space::control {
namespace {

constexpr const char* id = "iabcdefghij012345678";

http::RequestHead head(std::string method, std::string target,
                       std::vector<std::pair<std::string, std::string>> fields = {
                           {"Host", "127.0.0.1:3000"}}) {
  http::RequestHead made;
  made.method = std::move(method);
  made.target = std::move(target);
  for (const auto& [name, value] : fields) made.fields.add(name, value);
  return made;
}

http::RequestHead steered(std::string host, std::string sandbox, std::string port) {
  return head("GET", "/health",
              {{"Host", std::move(host)},
               {"E2b-Sandbox-Id", std::move(sandbox)},
               {"E2b-Sandbox-Port", std::move(port)}});
}

DataPlaneRoute data_plane(const Route& route) {
  const auto* found = std::get_if<DataPlaneRoute>(&route);
  return found ? *found : DataPlaneRoute{"none", 0};
}
ApiRoute api(const Route& route) {
  const auto* found = std::get_if<ApiRoute>(&route);
  return found ? *found : ApiRoute{Action::not_available, "none"};
}
std::string invalid(const Route& route) {
  const auto* found = std::get_if<InvalidTarget>(&route);
  return found ? found->message : "none";
}
ApiError refused(const Route& route) {
  const auto* found = std::get_if<ApiError>(&route);
  return found ? *found : ApiError{0, "", "", ""};
}

TEST(Router, HeadersLeadToASandbox) {
  for (const char* host :
       {"127.0.0.1:3000", "localhost", "LOCALHOST:3000", "[::1]:3000", "sandbox.example.com"})
    EXPECT_EQ(data_plane(route(steered(host, id, "49983"))), (DataPlaneRoute{id, 49983})) << host;
  EXPECT_EQ(data_plane(route(steered("localhost", std::string(id) + "-6532622b", "8080"))),
            (DataPlaneRoute{id, 8080}));
}

TEST(Router, HeadersOfAnUnknownHostAreRefused) {
  for (const char* host :
       {"example.com", "api.example.com", "localhost.example.com", "1.2.3.4.example.com", ""})
    EXPECT_EQ(invalid(route(steered(host, id, "49983"))), "Invalid host") << host;
}

TEST(Router, HeadersAreChecked) {
  for (const char* port : {"0", "65536", "", "80x", "-1", "+80", " 80"})
    EXPECT_EQ(invalid(route(steered("localhost", id, port))), "Invalid sandbox port") << port;
  for (const char* sandbox : {"", "-x", "UPPER", "a/b", "a.b", "../x"})
    EXPECT_EQ(invalid(route(steered("localhost", sandbox, "80"))), "Invalid sandbox ID") << sandbox;
  EXPECT_EQ(invalid(route(head("GET", "/", {{"Host", "localhost"}, {"E2b-Sandbox-Id", id}}))),
            "missing header");
  EXPECT_EQ(invalid(route(head("GET", "/", {{"Host", "localhost"}, {"E2b-Sandbox-Port", "80"}}))),
            "missing header");
}

TEST(Router, HostNameLeadsToASandbox) {
  const auto of_host = [](std::string host) {
    return route(head("GET", "/v2/sandboxes", {{"Host", std::move(host)}}));
  };
  EXPECT_EQ(data_plane(of_host("8080-iabcdefghij012345678.example.com")), (DataPlaneRoute{id, 8080}));
  EXPECT_EQ(data_plane(of_host("8080-iabcdefghij012345678-x.localhost:3000")), (DataPlaneRoute{id, 8080}));
  EXPECT_EQ(api(of_host("127-0-0-1.example.com")).action, Action::sandbox_list);
  EXPECT_EQ(api(of_host("8080-iabcdefghij012345678")).action, Action::sandbox_list);
  EXPECT_EQ(api(of_host("0-iabcdefghij012345678.example.com")).action, Action::sandbox_list);
}

TEST(Router, HostNameWinsOverHeaders) {
  auto request = steered("8080-iabcdefghij012345678.localhost", "izzzzzzzzzzzzzzzzzzz", "49983");
  EXPECT_EQ(data_plane(route(request)), (DataPlaneRoute{id, 8080}));
}

TEST(Router, ApiRoutes) {
  EXPECT_EQ(api(route(head("POST", "/sandboxes"))), (ApiRoute{Action::sandbox_create_v1, ""}));
  EXPECT_EQ(api(route(head("POST", "/v2/sandboxes"))), (ApiRoute{Action::sandbox_create_v2, ""}));
  EXPECT_EQ(api(route(head("GET", "/v2/sandboxes?limit=1"))), (ApiRoute{Action::sandbox_list, ""}));
  EXPECT_EQ(api(route(head("POST", "/v2/sandboxes/i1/connect"))),
            (ApiRoute{Action::sandbox_connect_v2, "i1"}));
  EXPECT_EQ(api(route(head("POST", "/sandboxes/i1-client/connect"))),
            (ApiRoute{Action::sandbox_connect_v1, "i1"}));
  EXPECT_EQ(api(route(head("DELETE", "/sandboxes/i1"))), (ApiRoute{Action::sandbox_delete, "i1"}));
  EXPECT_EQ(api(route(head("DELETE", "/v1/templates/my-base%3A1"))),
            (ApiRoute{Action::template_remove, "my-base:1"}));
  EXPECT_EQ(api(route(head("POST", "/sandboxes/i1/pause"))), (ApiRoute{Action::sandbox_pause, "i1"}));
  EXPECT_EQ(api(route(head("PUT", "/v1/pools/base"))), (ApiRoute{Action::pool_set, "base"}));
  EXPECT_EQ(api(route(head("POST", "/v1/sandboxes/i1-c/snapshots"))),
            (ApiRoute{Action::sandbox_checkpoint, "i1"}));
  EXPECT_EQ(api(route(head("DELETE", "/v1/sandboxes/i1-c/snapshots/12"))),
            (ApiRoute{Action::snapshot_remove, "i1", "12"}));
  EXPECT_EQ(api(route(head("PATCH", "/v1/sandboxes/i1/snapshots/%31"))),
            (ApiRoute{Action::snapshot_change, "i1", "1"}));
  EXPECT_EQ(api(route(head("GET", "/v1/sandboxes/i1/diff?from=1&to=2"))),
            (ApiRoute{Action::sandbox_diff, "i1"}));
  EXPECT_EQ(api(route(head("POST", "/sandboxes/i1-c/fork"))), (ApiRoute{Action::sandbox_fork, "i1"}));
  EXPECT_EQ(api(route(head("POST", "/sandboxes/i1/snapshots"))), (ApiRoute{Action::snapshot_publish, "i1"}));
  EXPECT_EQ(api(route(head("GET", "/snapshots?limit=2"))), (ApiRoute{Action::published_list, ""}));
  EXPECT_EQ(api(route(head("DELETE", "/templates/team%2Fmy-name%3Av1"))),
            (ApiRoute{Action::published_remove, "team/my-name:v1"}));
  EXPECT_EQ(api(route(head("PUT", "/sandboxes/i1-c/network"))),
            (ApiRoute{Action::sandbox_set_network, "i1"}));
  EXPECT_EQ(api(route(head("GET", "/v1/sandboxes/i1/egress/log?after=2"))),
            (ApiRoute{Action::egress_log, "i1"}));
  EXPECT_EQ(api(route(head("POST", "/v1/sandboxes/i1/egress/rules"))), (ApiRoute{Action::egress_edit, "i1"}));
  EXPECT_EQ(api(route(head("POST", "/sandboxes/i1/refreshes"))).action, Action::not_available);
}

TEST(Router, UnknownPathsAndMethods) {
  for (const char* path : {"/", "/sandboxes/", "/sandboxes//connect", "/v1/sandboxes/i1/snapshots/",
                           "/v1/sandboxes/i1/snapshots/1/2", "/v1/sandboxes//snapshots/1", "/sandboxes/a/b",
                           "/v2/sandboxes/i1", "/sandboxes/i1/connect/", "/x"})
    EXPECT_EQ(refused(route(head("GET", path))).status, 404) << path;
  const auto wrong_method = refused(route(head("PATCH", "/sandboxes/i1")));
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_EQ(wrong_method.allow, "GET, DELETE");
}

TEST(Router, FilesWithoutASandboxAreLookedUpByTheirSignature) {
  for (const char* method : {"GET", "HEAD", "POST", "OPTIONS"})
    EXPECT_EQ(api(route(head(method, "/files?path=a&signature=v1_x"))).action, Action::signed_file) << method;
  EXPECT_EQ(refused(route(head("DELETE", "/files?path=a&signature=v1_x"))).status, 405);
  const auto named = head("GET", "/files?path=a&signature=v1_x",
                          {{"Host", "localhost"}, {"E2b-Sandbox-Id", id}, {"E2b-Sandbox-Port", "49983"}});
  EXPECT_EQ(data_plane(route(named)), (DataPlaneRoute{id, 49983}));
}

TEST(Router, InternalPathsHoweverTheyAreSpelt) {
  for (const char* path : {"/init", "/%69nit", "//init", "/init/", "/freeze", "/upgrade"})
    EXPECT_TRUE(is_internal_path(path)) << path;
  for (const char* path : {"/", "/files", "/initial", "/health"})
    EXPECT_FALSE(is_internal_path(path)) << path;
}

}  // namespace
}  // namespace space::control
