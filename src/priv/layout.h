// Where the things of one instance lie. Pure text; every folder below belongs to root.
#pragma once

#include <string>

namespace space::priv {

struct Layout {
  std::string state;  // absolute, survives a reboot
  std::string run;    // absolute, does not

  std::string pool_image() const { return state + "/pool.img"; }
  std::string pool() const { return state + "/pool"; }
  std::string images(const std::string& digest) const { return state + "/images/" + digest; }
  std::string home() const { return run + "/noded"; }
  std::string bundles() const { return state + "/vmm"; }
  std::string bundle(const std::string& name) const { return bundles() + "/" + name; }
  std::string socket() const { return home() + "/noded.sock"; }
  std::string lock() const { return home() + "/lock"; }
  std::string slots() const { return home() + "/netns"; }
  std::string slot(const std::string& id) const { return slots() + "/" + id; }
  std::string vmms() const { return home() + "/vm"; }
  std::string vmm(const std::string& id) const { return vmms() + "/" + id; }
};

}  // namespace space::priv
