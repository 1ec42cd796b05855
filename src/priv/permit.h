// Permits: proof that the gate let a call through, and for which thing. What acts on a sandbox or a template
// takes a permit and no name, and nobody but the gate can make one: going round it does not compile.
#pragma once

#include <string>

namespace space::noded {
class Gate;
}

namespace space::priv {

class SandboxPermit {
 public:
  const std::string& id() const { return id_; }

 private:
  friend class noded::Gate;
  explicit SandboxPermit(std::string id) : id_(std::move(id)) {}

  std::string id_;
};

class TemplatePermit {
 public:
  const std::string& digest() const { return digest_; }

 private:
  friend class noded::Gate;
  explicit TemplatePermit(std::string digest) : digest_(std::move(digest)) {}

  std::string digest_;
};

}  // namespace space::priv
