// A real space-noded as root over folders and a pool of its own, and a client that waits for its answers.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/noded.h"
#include "base/bytes.h"
#include "base/fd.h"
#include "base/ids.h"

namespace space::noded {

struct Got {
  std::optional<Code> failed;  // nullopt = done
  std::string message;
  std::array<std::uint64_t, values_count> values{};
  Fd fd;
  std::vector<Fd> more;  // descriptors after the first
  bool done() const { return !failed; }
};

class Client {
 public:
  explicit Client(const std::string& socket);
  bool connected() const { return static_cast<bool>(fd_); }
  Got call(Verb verb, const std::string& sandbox = "", const std::string& digest = "",
           std::vector<std::uint64_t> values = {}, std::vector<int> fds = {});
  Got restore(const std::string& sandbox, const std::string& source, std::uint64_t number);  // disk_restore
  void send_bytes(const std::string& bytes);
  Got receive();  // unavailable at the end of the connection, deadline after 20 s
  void send(const Request& request, const std::vector<int>& fds);
  static void print_times();  // of every call so far, of all clients: from its sending to its answer
  static Request request(Verb verb, const std::string& sandbox, const std::string& digest,
                         const std::vector<std::uint64_t>& values);

 private:
  Got exchange(Request request, const std::vector<int>& fds);

  static std::map<Verb, std::vector<double>> times_;
  Fd fd_;
  std::uint64_t sequence_ = 0;
};

// Two listening sockets as the sandbox manager makes them.
struct Listeners {
  explicit Listeners(const std::string& folder, const std::string& id);
  Fd connect_qmp() const;
  std::string command(const std::string& word) const;  // to the stand-in; what it answers
  std::string qmp_path;
  Fd qmp, channel;
};

class NodedTest : public testing::Test {
 protected:
  NodedTest();
  ~NodedTest() override;

  void start_noded(const std::vector<std::string>& more = {"--sandboxd-uid", "0"});
  int stop_noded(int signal);                                      // its wait status
  int run_noded(const std::vector<std::string>& arguments) const;  // to its end; its exit status
  Client client() const { return Client(run_ + "/noded/noded.sock"); }
  std::string path_of(const char* beside_the_test) const;

  // A template of 64 MiB whose kernel is `kernel`.
  std::string make_image(const std::string& kernel = "kernel");
  Got import(const std::string& digest);
  std::string make_sandbox(const std::string& digest);  // disk of 512 MiB and slot
  // Of 128 MiB. Done when the program was executed: its loader may still open and map files.
  Got launch(const std::string& id, const Listeners& listeners, bool restored = false);
  // The stand-in is past that and waits for commands: what /proc says of it stays as it is.
  Got launch_started(const std::string& id, const Listeners& listeners, bool restored = false);
  std::string log_of(const std::string& id) const;  // what it printed so far
  std::vector<ListRecord> list();
  bool lists(Kind kind, const std::string& id);
  Got await_exit(const std::string& id);
  void forget_all(const std::string& id);

  pid_t spawn_noded(const std::vector<std::string>& more) const;
  // Everything of this instance that a machine can run out of, counted where it really is.
  std::string leak_table() const;

  std::string root_, state_, run_;
  std::string program_ = path_of("integration/noded_stand_in");
  pid_t noded_ = 0;
};

bool await(const std::function<bool()>& condition);  // up to 20 s
bool ends(const Fd& pidfd);                          // up to 20 s
std::string text_of(const Fd& fd);
// 16-bit code that halts, behind the header of a Linux kernel image.
std::string halting_kernel();

}  // namespace space::noded
