// Sessions of a simulated node, and applications that have them: packets and rings without sockets.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <vector>

#include "penstock/ring.h"
#include "penstock/sessions.h"
#include "penstock/sim.h"
#include "penstock/testing.h"

namespace penstock::sessions {

// Carries nothing: the test is the application, too.
struct FakeHost final : SessionHost {
  void end_session(uint64_t id) override { ended.push_back(id); }
  Status watch(int eventfd, uint32_t) override {
    ++watched[eventfd];
    return Code::ok;
  }
  void forget(int eventfd) override { --watched[eventfd]; }

  std::vector<uint64_t> ended;
  std::map<int, int> watched;
};

// What a node with one shard has for its sessions, as long as it lives.
class SimSessions {
 public:
  // All outlive this.
  SimSessions(sim::SimLoop& loop, client::FileSystem& files);
  // No session is there any more.
  ~SimSessions();

  std::unique_ptr<Session> make_session();
  // As the server does when an application has written a ring's eventfd.
  void wake() { loop_.parker().unpark(); }

  SessionNode node;
  FakeHost host;

 private:
  sim::SimLoop& loop_;
  client::Terms terms_;
  uint64_t last_session_ = 0;
};

// An application with one session: a region, and a ring with one lane. Any thread of the
// simulation, one at a time.
class SimApplication {
 public:
  static constexpr uint64_t kRegionBytes = 64 * kKiB;

  SimApplication(sim::SimWorld& world, SimSessions& sessions);
  // Ends the session, and waits for what is in flight.
  ~SimApplication();

  // One packet with its descriptors, and the one that answers it.
  ReplyPacket send(wire::RequestBody body, const std::vector<int>& descriptors = {});
  wire::Reply ask(wire::RequestBody body, const std::vector<int>& descriptors = {});

  // Greets, registers the region as 0 and the ring as 0; the first reply that is not ok.
  Status introduce();
  // Opens or makes the file of that path as 0.
  Status open(const std::string& path);
  // Submits to the ring; and waits for the completion: bytes or a negative error number.
  void submit(const ring::Submission& entry);
  int64_t wait();
  int64_t run(const ring::Submission& entry) {
    submit(entry);
    return wait();
  }

  MutableBytes region() const { return region_.bytes(); }
  Session& session() { return *session_; }

 private:
  sim::SimWorld& world_;
  SimSessions& sessions_;
  const std::unique_ptr<Session> session_;
  const test::SharedMemory region_{kRegionBytes, F_SEAL_SHRINK};
  const ring::Geometry geometry_{8, 1};
  const test::SharedMemory ring_{align_up(geometry_.total_bytes(), 4096), F_SEAL_SHRINK};
  const UniqueFd wake_;
  ring::AppLane lane_;
  uint64_t last_request_ = 0;
};

}  // namespace penstock::sessions
