// Launcher: starts the processes of a job, on this machine or on several, and stays until the last
// one has ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base.h"
#include "penstock/job/hosts.h"

namespace penstock::job {

// How other machines are reached.
struct RemoteOptions {
  // The program and words that run a command on another machine: HOST and one word, for a shell
  // there, follow. To ssh it is said, too, that it must not ask anybody for a password.
  std::vector<std::string> shell = {"ssh"};
  // The program that has serve_node(), and the word for it: here, and elsewhere.
  std::string program;
  std::string remote_program;
  std::string word = "run-node";
  std::string version;  // of it: both sides must have one
  // Where other machines reach this one: an address, or names of interfaces begin so. Empty: all
  // its addresses, in the order in which they are to be tried.
  std::string address;
  // Variables of this process that go to other machines: names, and beginnings of names with a '*'
  // at the end. Where one is not set, the other machine's own stays.
  std::vector<std::string> passed;
  std::chrono::milliseconds until_reached{120'000};  // each
};

struct LaunchOptions {
  uint32_t size = 1;
  std::vector<std::string> command;                              // the program and its arguments
  std::vector<std::pair<std::string, std::string>> environment;  // besides the launcher's own
  std::string directory;                                         // where they run; empty: here
  bool label = false;       // output in whole lines, each with its rank before it
  bool keep_going = false;  // a rank's end does not end the others
  // After a rank has failed, the others have this long to end by themselves; then they are asked to
  // (SIGTERM), and a while later made to (SIGKILL).
  std::chrono::milliseconds until_asked{500};
  std::chrono::milliseconds until_killed{2000};
  int input = 0;        // standard input of rank 0; the others have /dev/null
  int output = 1;       // lent: standard output of all
  int errors = 2;       // lent: standard error of all, and of what the launcher says
  bool signals = true;  // passes on INT, TERM, HUP, QUIT, USR1, USR2, TSTP, CONT that it gets
  // Where the ranks are, `size` of them in all; empty: all here, without a process between.
  std::vector<NodeShare> nodes;
  RemoteOptions remote;
};

// Runs the job in the calling thread, which must not end before it returns (the processes are
// killed with the thread that started them). The exit code: 0, or that of the rank that failed
// first, 128 + N for signal N. It fails, with nothing started or all that was started ended, when
// the job cannot be started: not_found (the program, exit code 127), access_denied (126), busy (too
// few processes or open files; the message says how to raise the limit).
//
// With `nodes` each node has a process of its own between the launcher and its ranks, by ssh where
// it is another machine. Nothing of the program runs before all of them were reached and have found
// it; peer_gone: one is not reached, or was lost before. One that is lost later ends the job, with
// exit code 1. When the launcher ends, however that be, so do the ranks of all nodes: at once where
// the network says so, within 9 s where it says nothing any more.
//
// With `signals` they are blocked in the calling thread meanwhile: other threads must block them.
Outcome<int> launch(const LaunchOptions& options);

// What a launcher starts on another node: reads from `input`, the read end of a pipe or a socket,
// what is to be done, starts the ranks of this node, and stays until the launcher dismisses it, or
// is gone. For main() of a program that does nothing else. It fails before it has reached the
// launcher, which shows the message; wrong_version where that one is another than `version`.
Outcome<int> serve_node(int input, const std::string& version);

}  // namespace penstock::job
