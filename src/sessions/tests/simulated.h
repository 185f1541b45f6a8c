// Sessions of a simulated node, and applications that have them: packets and rings without sockets.
#pragma once

#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include "penstock/arena.h"
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
  // All outlive this. With a node cache of so many bytes, whose thread is one of the simulation; 0:
  // none.
  SimSessions(sim::SimLoop& loop, client::FileSystem& files, uint64_t cache_bytes = 0);
  // No session is there any more.
  ~SimSessions();

  std::unique_ptr<Session> make_session(uint32_t uid);
  // As the server does when an application has written a ring's eventfd.
  void wake() { loop_.parker().unpark(); }

  SessionNode node;
  FakeHost host;

 private:
  void between_turns(const std::function<void()>& act);
  void start_cache(uint64_t bytes);

  sim::SimLoop& loop_;
  client::Terms terms_;
  std::optional<sim::SimLoop> cache_loop_;
  std::unique_ptr<node_cache::NodeCache> cache_;
  uint64_t last_session_ = 0;
};

// An application with one session: a region, a ring with one lane, and the node cache where there
// is one. Any thread of the simulation, one at a time.
class SimApplication {
 public:
  static constexpr uint64_t kRegionBytes = 64 * kKiB;

  SimApplication(sim::SimWorld& world, SimSessions& sessions, uint32_t uid = ::geteuid());
  // Ends the session, and waits for what is in flight.
  ~SimApplication();

  // One packet with its descriptors, and the one that answers it.
  ReplyPacket send(wire::RequestBody body, const std::vector<int>& descriptors = {});
  wire::Reply ask(wire::RequestBody body, const std::vector<int>& descriptors = {});

  // The same, for a request that is answered with a descriptor, which is put into `given`.
  wire::Reply ask_for(wire::RequestBody body, UniqueFd* given);

  // Greets, registers the region as 0 and the ring as 0; the first reply that is not ok.
  Status introduce();
  // Opens or makes the file of that path as 0.
  Status open(const std::string& path);
  // Submits to the ring; and waits for the next completion: bytes or a negative error number.
  void submit(const ring::Submission& entry);
  ring::Completion next();
  bool is_answered() const { return lane_.ready() > 0; }
  int64_t wait() { return next().result; }
  int64_t run(const ring::Submission& entry) {
    submit(entry);
    return wait();
  }

  // Maps the node cache, or what it has grown by.
  Status map_cache();
  // What the mapped cache has of [offset, offset + length) of the file, in one extent: fewer bytes
  // where the file ends, and nothing where it has not all of them. Copies as applications do, and
  // lets others go on between one step and the next.
  std::optional<std::string> look(uint64_t offset, uint32_t length);

  MutableBytes region() const { return region_.bytes(); }
  Session& session() { return *session_; }

 private:
  wire::Reply decode(const ReplyPacket& packet) const;
  // Others go on, for a while or not at all.
  void pause();

  sim::SimWorld& world_;
  SimSessions& sessions_;
  const std::unique_ptr<Session> session_;
  const test::SharedMemory region_{kRegionBytes, F_SEAL_SHRINK};
  const ring::Geometry geometry_{8, 1};
  const test::SharedMemory ring_{align_up(geometry_.total_bytes(), 4096), F_SEAL_SHRINK};
  const UniqueFd wake_;
  ring::AppLane lane_;
  std::unique_ptr<arena::Reader> cache_;
  InodeId inode_;
  uint64_t last_request_ = 0;
};

}  // namespace penstock::sessions
