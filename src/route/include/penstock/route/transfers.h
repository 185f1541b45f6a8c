// Transfers: a mover, its loop, and the threads that drive it.
//
// The mover runs in a loop that no thread owns: the thread that holds the lock drives it. A thread
// that waits for its own transfer drives while it waits, so that a small transfer takes no step
// over another thread. A thread of this object drives when no other does, and sleeps when there is
// nothing to do.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "penstock/engine.h"
#include "penstock/route/gatherer.h"
#include "penstock/route/host_source.h"
#include "penstock/route/mover.h"
#include "penstock/route/peer.h"

namespace penstock::route {

class Transfers;

// A transfer of its caller, which keeps it until `ended` was called.
struct Transfer : TransferOp {
  // Runs in the thread that drives; must not block. Null for run().
  void (*ended)(Transfer&) = nullptr;
  Transfers* transfers = nullptr;  // set by submit() and run()
};

// A list of its caller, which keeps it, and its entries, until `ended` was called.
struct ListTransfer : GatherOp {
  void (*ended)(ListTransfer&) = nullptr;  // as Transfer's
  Transfers* transfers = nullptr;
};

class Transfers final : private engine::Parker, private engine::Poller {
 public:
  using MakeSource = std::function<std::unique_ptr<HostSource>(engine::Loop&)>;
  // `config.slots` is pinned here and stays the caller's, for longer than this object. The source
  // is made in the calling thread.
  static Outcome<std::unique_ptr<Transfers>> start(engine::DeviceMemory& devices,
                                                   const MakeSource& make_source,
                                                   MoverConfig config);
  // Ends what is in progress, with cancelled where it can be.
  ~Transfers() override;

  // What copies to the device cost is measured, at the first call for it: some milliseconds.
  // Without this the usual is assumed. Thread safe.
  void learn_costs(engine::DeviceId device);
  // Thread safe. Makes progress whether a thread waits or not. Of several that are submitted
  // together the small ones go together.
  void submit(std::span<Transfer* const> transfers);
  void submit(Transfer& transfer) {
    Transfer* const one = &transfer;
    submit({&one, 1});
  }
  void submit(ListTransfer& transfer);
  void submit(PeerTransfer& transfer);
  // As submit(), but the calling thread does nothing of the work: for one that keeps several of
  // these objects busy.
  void post(Transfer& transfer);
  void post(ListTransfer& transfer);
  void post(PeerTransfer& transfer);
  // A copy between pinned memory and a device's, beside the transfers. Thread safe; returns when it
  // has ended, with its status.
  void run(engine::CopyOp& copy);
  // Thread safe. Returns when the transfer has ended; the calling thread drives. Nothing is
  // allocated, and no other thread is woken if all goes by copies.
  void run(Transfer& transfer);
  // Thread safe; blocks while another thread drives. The transfer was submitted, and may have
  // ended.
  void cancel(Transfer& transfer);
  void cancel(ListTransfer& transfer);
  // Does what can be done now, unless another thread is doing it. For threads that call it again
  // and again while they wait: the transfers' own thread stands back meanwhile.
  void help();
  // Those threads have stopped calling help(), and go to sleep.
  void leave_alone();
  // Returns when every `ended` that had begun has returned.
  void quiesce() { DriveLock(*this).lock(); }

 private:
  explicit Transfers(engine::DeviceMemory& devices);
  void loop();
  // The right to drive the loop, which one thread has at a time.
  class DriveLock {
   public:
    explicit DriveLock(Transfers& transfers) : transfers_(transfers) {}
    ~DriveLock() { unlock(); }
    // False at once when another thread drives: many threads may ask again and again.
    bool try_lock();
    void lock();
    void unlock();
    bool held() const { return held_; }

   private:
    Transfers& transfers_;
    bool held_ = false;
  };

  void begin(Transfer& transfer);
  void begin(ListTransfer& transfer);
  void begin(PeerTransfer& transfer);
  bool is_allocated(const engine::DeviceSpan& span) const;
  template <class AnyTransfer>
  void hand_over(AnyTransfer& transfer);
  template <class AnyTransfer>
  void submit_one(AnyTransfer& transfer);
  template <class AnyTransfer>
  void post_one(AnyTransfer& transfer);
  bool drive();
  void drive_until(const std::atomic<bool>& done);
  void leave(bool quiet);
  void park(engine::Time deadline) override;
  // The last poller of a turn.
  bool poll() override;
  // False while a copy is about to end: its end wakes no thread, and a sleep would last longer.
  bool prepare_sleep() override;
  void unpark() override { source_->rouse(); }
  engine::Time rising_time(engine::Time now) const;
  engine::Time next_deadline() const;
  bool stands_by() const;
  void note_help();

  engine::DeviceMemory& devices_;
  MutableBytes slots_;  // pinned
  engine::SeededRandom random_;
  engine::Loop loop_;
  std::unique_ptr<HostSource> source_;
  std::unique_ptr<Mover> mover_;
  std::unique_ptr<Gatherer> gatherer_;
  // Held by the thread that is inside the loop, but not while the transfers' thread sleeps. Threads
  // that only try look at `driven_` first: its cache line stays shared, while attempts at the lock
  // would take the lock's line from its holder.
  std::mutex drive_;
  std::atomic<bool> driven_{false};
  std::atomic<uint32_t> waiters_{0};  // for the lock; a hint
  DriveLock own_drive_{*this};        // the thread's
  std::atomic<uint64_t> learnt_{0};   // devices, as bits
  std::thread thread_;
  // Under the lock. While the transfers' thread sleeps: whether it sleeps without regard to copies,
  // so that their ends would not be seen; and when it gets up by itself. At other times false, and
  // a time that has passed.
  bool asleep_ = false;
  engine::Time gets_up_{};
  // When a waiting thread last drove, nanoseconds; a hint.
  std::atomic<int64_t> helped_{0};
  std::atomic<bool> copying_{false};  // a hint, of the same moment
};

}  // namespace penstock::route
