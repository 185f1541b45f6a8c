// NodePart: what of a launcher is on another node. It starts the ranks of that node, has their
// room, and ends with the launcher.
#pragma once

#include "connection.h"
#include "loop.h"
#include "own_limits.h"
#include "processes.h"
#include "room.h"
#include "streams.h"
#include "task.h"
#include "uplink.h"

#include <memory>
#include <string>

#include "penstock/base.h"

namespace penstock::job {

// Of the thread that launches.
class NodePart {
 public:
  // `input` is that over which the task came: at its end this part is to end, too.
  NodePart(Task task, UniqueFd input);

  // Connects to the launcher, twice: for the room, and for the rest.
  Result<void, Failure> reach();
  // The exit code of this process.
  int run();

 private:
  Result<void, Failure> prepare();
  Result<void, Failure> prepare_streams(UniqueFd* input, UniqueFd* output, UniqueFd* errors);
  void refuse(const Failure& why);
  void watch_input();
  void read();
  // bad_message: this is no launcher of ours.
  Status act(const Frame& frame);
  Status take_start();
  Status take_took(const Frame& frame);
  Status take_closed(const Frame& frame);
  OutputStream* stream_of(uint64_t serial);
  void take_end(const End& end);
  void failed(const End& end);
  void finish();
  void send(Kind kind, Bytes body = {}, uint64_t serial = 0);
  void flush();

  const Task task_;
  const UniqueFd input_;
  Loop loop_;
  FileLimit files_;
  CaughtSignals signals_;
  std::unique_ptr<Connection> launcher_;
  Loop::Token token_ = 0;
  std::unique_ptr<Uplink> uplink_;
  std::unique_ptr<Room> room_;
  std::unique_ptr<OutputStream> output_, errors_;
  std::unique_ptr<InputStream> first_input_;  // of rank 0, where it is here
  std::unique_ptr<Processes> processes_;
  bool started_ = false;
  bool done_ = false;       // and said so
  bool dismissed_ = false;  // the job is over
  bool gone_ = false;       // the launcher is
};

}  // namespace penstock::job
