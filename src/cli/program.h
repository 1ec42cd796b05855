// Program: what every command shares while the command line is parsed: the flags that come before it, and the
// exit code it leaves. Each group of commands has a file *_cli.cc of its own, the only files that know CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>

#include "cli/options.h"

namespace space::cli {

struct Program {
  Program();

  CLI::App app;
  CommonOptions common;
  int code = 0;

  // The command's options live as long as its callback, which CLI11 keeps.
  template <typename Options>
  void on_call(CLI::App* command, const std::shared_ptr<Options>& options,
               int (*run)(const CommonOptions&, const Options&)) {
    command->callback([this, options, run] { code = run(common, *options); });
  }
  // The same for one that works on this machine: directories that were not said are the configuration file's.
  template <typename Options>
  void on_call_here(CLI::App* command, const std::shared_ptr<Options>& options,
                    int (*run)(const CommonOptions&, const Options&)) {
    command->callback([this, command, options, run] {
      code = find_directories(command, options->config, options->directories);
      if (code == 0) code = run(common, *options);
    });
  }

 private:
  static int find_directories(const CLI::App* command, const std::string& config, Directories& directories);
};

// --state and --run.
void add_directories(CLI::App* command, Directories& directories);
void add_config(CLI::App* command, std::string& path);
// NAME=VALUE, once or many times.
void add_pairs(CLI::App* command, const std::string& flag, std::map<std::string, std::string>& pairs,
               const std::string& help);
// Flags of a command that runs a program in a sandbox.
void add_exec_flags(CLI::App* command, ExecOptions& options);
// --life SECONDS|never
void add_life(CLI::App* command, std::string& life);
// --egress, --allow, --deny: what a new sandbox may connect to.
void add_egress_flags(CLI::App* command, EgressFlags& flags);
// The first argument of most commands.
void add_sandbox_id(CLI::App* command, std::string& sandbox);

// Groups of commands, in the order of `space --help`.
void add_platform(Program& program);     // up, down
void add_sandboxes(Program& program);    // run, create, ls, info, kill
void add_moves(Program& program);        // pause, resume, stop, start, pool
void add_snapshots(Program& program);    // snapshot, fork, rollback, history, diff
void add_protection(Program& program);   // schedule, recovery
void add_egress(Program& program);       // egress show|allow|deny|remove|set|test|log
void add_processes(Program& program);    // exec, shell, attach, ps, kill-process
void add_files(Program& program);        // cp, watch
void add_ports(Program& program);        // port-forward, url
void add_observation(Program& program);  // logs, top
void add_templates(Program& program);    // template build|ls|rm
void add_doctor(Program& program);
void add_completion(Program& program);

}  // namespace space::cli
