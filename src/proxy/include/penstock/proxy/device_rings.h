// A session's rings for kernels, and the thread that serves them all.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "penstock/engine.h"
#include "penstock/lanes.h"
#include "penstock/proxy/device_ring.h"

namespace penstock::proxy {

// For how long the thread of idle rings sleeps before it looks again.
engine::Duration sleep_after(engine::Duration idle);

// Thread safe. The thread starts with the first ring. It polls while kernels ask; when they have
// not for a while it sleeps, longer and longer, and looks in between, since no GPU can wake it.
class DeviceRings final : private engine::Poller, private engine::Parker {
 public:
  // The session outlives this object.
  explicit DeviceRings(lanes::Session& session);
  // Ends all of them. A ring that a kernel still uses is left behind, with its memory.
  ~DeviceRings() override;

  lanes::Session& session() const { return session_; }
  // What copies for the rings; there is one when the first region of GPU memory was made.
  route::Transfers& transfers() const;

  // A ring for a region of GPU memory.
  Outcome<DeviceRing*> make(engine::DeviceMemory& devices, connection::Region& region,
                            uint32_t entries, const DeviceRing::MakeService& make_service);
  // The ring is served no more; it stays. Twice is no error.
  void close(DeviceRing& ring);
  // Closes it; its memory goes when no kernel uses it any more, or stays. Of several threads that
  // close or destroy a ring each waits for those before it.
  void destroy(DeviceRing& ring);
  // Says that kernels are about to ask: the thread stays awake for a while.
  void announce();
  // Processor time of the thread.
  uint64_t thread_nanoseconds();

 private:
  Outcome<void> start();
  void destroy_all();
  // Waits until no other thread ends the ring. False when it is gone then.
  bool begin_ending(DeviceRing& ring);
  void done_ending(const DeviceRing& ring);
  void stop_serving(DeviceRing& ring);
  std::unique_ptr<DeviceRing> take_out(const DeviceRing& ring);
  bool drain(DeviceRing& ring, engine::Time deadline);
  bool poll() override;
  void park(engine::Time deadline) override;
  void unpark() override;
  bool has_work() const;

  lanes::Session& session_;
  engine::SeededRandom random_;
  engine::Loop loop_;
  engine::FutexParker parker_;
  std::atomic<bool> unparked_{false};    // release and acquire: what the loop was given is seen
  std::atomic<int64_t> awake_until_{0};  // relaxed: nanoseconds on the clock; a hint
  std::vector<DeviceRing*> served_;      // the thread's

  DeviceRingMemories memories_;  // before the rings, which give theirs back

  std::mutex mutex_;
  std::thread thread_;
  std::set<std::unique_ptr<DeviceRing>> rings_;
  std::set<const DeviceRing*> open_;    // those that are served
  std::set<const DeviceRing*> ending_;  // those that a thread closes or destroys
  std::condition_variable ended_;       // one of them less
};

}  // namespace penstock::proxy
