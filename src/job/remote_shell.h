// One process that runs a command on another machine: ssh, mostly.
#pragma once

#include "connection.h"
#include "labels.h"
#include "loop.h"
#include "spawn.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/job/launcher.h"
#include "penstock/job/place.h"

namespace penstock::job {

// The words that start the launcher's part on a node.
std::vector<std::string> command_for(const NodeShare& node, const RemoteOptions& remote);
// For a shell, of whatever kind: one word, whatever is in it.
std::string quoted(const std::string& word);

// Of the thread that launches.
class RemoteShell {
 public:
  struct Calls {
    // Lines that it prints on standard error, with the host's name before.
    std::function<void(std::string_view)> say;
    // It ended; everything that it said was said before.
    std::function<void(const End&)> ended;
  };

  RemoteShell(Loop& loop, const std::string& host, Calls calls);
  // Kills it, and waits for that.
  ~RemoteShell();

  struct Start {
    std::vector<std::string> command;
    std::vector<std::byte> task;  // for its standard input, in a frame
    sigset_t signals{};           // as of Spawn
    rlimit files{};
  };
  Result<void, Failure> start(const Start& what);
  void kill() const;
  bool runs() const { return pid_ != 0 && !ended_; }

 private:
  void flush();
  bool read_errors();
  void take_end();

  Loop& loop_;
  const Calls calls_;
  Labeller labeller_;
  std::unique_ptr<Connection> input_;
  Loop::Token input_token_ = 0;
  UniqueFd errors_;
  Loop::Token errors_token_ = 0;
  size_t said_ = 0;  // bytes
  pid_t pid_ = 0;
  UniqueFd end_;  // a pidfd
  Loop::Token end_token_ = 0;
  bool ended_ = false;
};

}  // namespace penstock::job
