// The loop: connections in, admitted calls to workers, answers out. One thread, never blocks in a verb.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "base/fd.h"
#include "noded/door.h"
#include "noded/seqpacket.h"
#include "noded/verbs.h"

namespace space::noded {

class Server {
 public:
  // `signals` is a signalfd of SIGTERM, SIGINT and SIGCHLD, which are blocked. Only `clients` may connect.
  Server(Fd listener, Fd signals, std::map<uid_t, Client> clients, Verbs& verbs)
      : listener_(std::move(listener)),
        signals_(std::move(signals)),
        clients_(std::move(clients)),
        verbs_(verbs) {}

  // Until SIGTERM or SIGINT. Workers still at work end with the process, launched VMs do not.
  Result<void> run();

 private:
  struct Connection {
    std::uint64_t number;  // never used twice
    Fd fd;
    Client client;
  };
  struct Work {
    std::uint64_t connection;
    Call call;
    std::vector<Fd> descriptors;
    Fd worker;  // pipe: one byte when it has answered; its end frees the id for the next call
    bool answered = false;
  };

  bool read_signals();  // false: stop
  void accept_client();
  void serve(Connection& connection);
  void handle(Connection& connection, Datagram datagram);
  void schedule(Work work);
  void start(Work work);
  [[noreturn]] void run_worker(Work work, Fd report, pid_t parent);
  void hear(Work& work);
  void start_waiting();
  bool is_busy(const Call& call) const;
  Connection* find(std::uint64_t number);
  void answer(std::uint64_t connection, const Call& call, Result<Answer> result);
  void refuse(Connection& connection, std::uint64_t sequence, const Error& error);
  void keep_only(std::uint64_t connection);

  Fd listener_, signals_;
  std::map<uid_t, Client> clients_;
  Verbs& verbs_;
  std::list<Connection> connections_;
  std::list<Work> working_;
  std::deque<Work> waiting_;  // for another call on the same id
  std::uint64_t connection_count_ = 0;
};

}  // namespace space::noded
