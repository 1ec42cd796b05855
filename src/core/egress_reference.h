// The slow, obvious reading of an egress policy, for tests only: every rule is looked at, nothing is
// compiled.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/egress_matcher.h"

namespace space::reference {

struct Request {
  std::string_view method, path;
};

EgressVerdict name(const EgressPolicy& policy, std::string_view name, std::uint16_t port,
                   EgressProtocol protocol, std::optional<Request> request = {});
EgressVerdict address(const EgressPolicy& policy, const IpAddress& to, std::uint16_t port,
                      EgressProtocol protocol, std::optional<Request> request = {});
EgressVerdict resolve(const EgressPolicy& policy, std::string_view name);
EgressProtocol expected(const EgressPolicy& policy, const IpAddress& to, std::uint16_t port,
                        std::span<const std::string> names);

// Policies and questions made of bytes, from a small world in which rules meet each other.
class Sample {
 public:
  explicit Sample(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  EgressPolicy policy();  // not checked: contradictions and odd rules too
  std::string name();
  IpAddress address();
  std::uint16_t port();
  EgressProtocol protocol();
  std::string_view method();
  std::string_view path();

 private:
  std::size_t below(std::size_t count);
  EgressRule rule(bool allow);

  std::span<const std::uint8_t> bytes_;
};

// Asks `matcher` and the reference the same; nullopt when they agree, else what was asked and both answers.
std::optional<std::string> disagreement(const EgressMatcher& matcher, Sample& sample);

}  // namespace space::reference
