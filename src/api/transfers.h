// A session's transfers between files and GPU memory.
//
// They run in a loop that no thread owns: whoever holds the lock drives it. A thread that waits for
// its own transfer drives while it waits, so that a small transfer takes no step over another
// thread; a thread of this object drives what nobody waits for, and sleeps otherwise.
#pragma once

#include "ring_source.h"

#include <memory>
#include <mutex>
#include <thread>

#include "penstock/engine.h"
#include "penstock/route.h"

namespace penstock::api {

class Transfers;

// A transfer of its caller, who keeps it until `ended` was called.
struct Transfer : route::TransferOp {
  // Runs in the thread that drives; must not block.
  void (*ended)(Transfer&) = nullptr;
  Transfers* transfers = nullptr;  // set by submit()
};

class Transfers final : private engine::Parker {
 public:
  static Outcome<std::unique_ptr<Transfers>> start(Session& session, engine::DeviceMemory& devices);
  // Ends what is in progress, with cancelled where it can be.
  ~Transfers() override;

  // Thread safe. Makes progress whether somebody waits or not.
  void submit(Transfer& transfer);
  // Thread safe; blocks while another thread drives. The transfer was submitted, and may have
  // ended.
  void cancel(Transfer& transfer);
  // Does what can be done now, if nobody else is at it.
  void help();
  // Returns when every `ended` that had begun has returned.
  void settle() { const std::lock_guard lock(drive_); }

 private:
  Transfers(Session& session, engine::DeviceMemory& devices);
  Outcome<void> make();
  void run();
  void begin(Transfer& transfer);
  void drive();
  void park(engine::Time deadline) override;
  void unpark() override;

  Session& session_;
  engine::DeviceMemory& devices_;
  engine::SeededRandom random_;
  engine::Loop loop_;
  Region* slots_ = nullptr;
  bool pinned_ = false;
  std::unique_ptr<RingSource> source_;
  std::unique_ptr<route::Mover> mover_;
  // Held by whoever is inside the loop. Not while its thread sleeps.
  std::mutex drive_;
  // The thread sleeps without a deadline: copies would end unseen. Under the lock.
  bool asleep_ = false;
  std::thread thread_;
};

}  // namespace penstock::api
