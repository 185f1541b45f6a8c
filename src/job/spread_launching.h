// One launch() over several nodes: a part on each, by ssh mostly, and what they say to one another.
#pragma once

#include "connection.h"
#include "ending.h"
#include "gathering.h"
#include "loop.h"
#include "own_limits.h"
#include "remote_shell.h"
#include "sink.h"
#include "sockets.h"
#include "streams.h"
#include "task.h"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/job/launcher.h"

namespace penstock::job {

// Why a node is lost of whose end nothing else is known.
inline constexpr const char* kPartHasEnded = "its part of the job has ended";

// Of the thread that launches.
class SpreadLaunching {
 public:
  explicit SpreadLaunching(const LaunchOptions& options);

  Result<void, Failure> prepare();
  // The exit code of the job, or why it did not begin.
  Outcome<int> run();

 private:
  enum class State {
    waiting,   // nothing was done for it yet
    reaching,  // its shell runs
    came,      // its part is connected
    ready,     // and has found the program
    done,      // all its ranks have ended
    lost,
  };
  struct Node {
    State state = State::waiting;
    uint32_t first = 0;  // its first rank
    std::unique_ptr<RemoteShell> shell;
    std::unique_ptr<Connection> control;  // none: it has not come, or is lost
    Loop::Token token = 0;
    Loop::Token patience = 0;
    std::string why;                      // it is lost soon
    Loop::Token losing = 0;               // the same
    std::array<size_t, kStreams> owed{};  // bytes that came and were not passed on yet
  };

  Result<void, Failure> open_port();
  Task task_for(uint32_t node) const;
  void accept_all();
  void listen_again();
  void reach_more();
  void reach(uint32_t node);
  // It is not being reached any more: the next one may be.
  void reached(uint32_t node);
  void take_part(uint32_t node, std::unique_ptr<Connection> control, std::vector<Frame> frames);
  void read(uint32_t node);
  void take_all(uint32_t node, const std::vector<Frame>& frames, Status status);
  // bad_message: it is no part of ours.
  Status act(uint32_t node, const Frame& frame);
  Status take_output(uint32_t node, const Frame& frame);
  Status take_ended(uint32_t node, const Frame& frame);
  Status take_input_word(const Frame& frame);
  void take_end_of_shell(uint32_t node, const End& end);
  void start_if_ready();
  void give_back(Stream stream);
  void shut(Stream stream);
  void lose(uint32_t node, const std::string& why);
  // In a moment, in which more may be heard of why.
  void lose_soon(uint32_t node, const std::string& why);
  void close(uint32_t node);
  void give_up(Failure failure);
  void take_signal(int number);
  void signal_all(int number);
  void look_for_silent();
  bool is_over() const;
  void finish();
  void dismiss_all();
  void turn_until(const std::function<bool()>& done, std::chrono::milliseconds patience);
  void send(uint32_t node, Kind kind, Bytes body = {}, uint64_t serial = 0);
  void flush(uint32_t node);
  void say(const std::string& text);
  Sink& sink_of(Stream stream) { return stream == Stream::output ? *output_ : *errors_; }
  // What reaches the node.
  std::string shell_of(uint32_t node) const;

  const LaunchOptions& options_;
  Loop loop_;
  FileLimit files_;
  CaughtSignals signals_;
  Ending ending_;
  std::unique_ptr<Sink> output_, errors_;
  std::unique_ptr<InputSource> input_;
  Secret secret_{};
  std::vector<HostAddress> addresses_;
  uint16_t port_ = 0;
  UniqueFd listener_;
  Loop::Token listening_ = 0;
  std::string directory_;
  Environment environment_;
  std::unique_ptr<Gathering> gathering_;
  std::vector<Node> nodes_;
  uint32_t next_ = 0;      // the first that nothing was done for
  uint32_t reaching_ = 0;  // how many are being reached
  Loop::Token reaching_more_ = 0;
  uint32_t ready_ = 0;
  uint32_t over_ = 0;  // done or lost
  bool complete_ = false;
  bool started_ = false;
  std::array<bool, kStreams> shut_{};  // nobody reads it
  std::optional<Failure> failure_;     // the job did not begin
  std::optional<int> ended_by_;        // a signal, before it began
  bool finishing_ = false;
  bool stopped_ = false;  // by a signal, when only output was left
  Loop::Token looking_ = 0;
};

}  // namespace penstock::job
