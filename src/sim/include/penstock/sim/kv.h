// SimKv: engine::Kv in memory, with conflicts, delays, unknown commits and power cuts.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/sim/world.h"

namespace penstock::sim {

// Faults are off unless set. Permille are per attempt of a transaction, of any mode but read where
// a commit is meant.
struct SimKvFaults {
  // Before a submitted body runs, between body and commit (others may commit in between, and the
  // attempt then conflicts as it would on a real backend), and between commit and completion.
  Duration delay_min = std::chrono::microseconds(5);
  Duration delay_max = std::chrono::microseconds(100);

  uint32_t conflict_permille = 0;  // the attempt is thrown away and the body runs again
  // The backend cannot tell whether the commit happened; it did or did not, by chance, and is
  // resolved by looking again: ok, or another attempt.
  uint32_t unknown_commit_permille = 0;
  // As above, but the backend is gone for good: may_have_happened.
  uint32_t unresolved_commit_permille = 0;
  uint32_t read_error_permille = 0;  // get() and scan() fail with io_error
};

class SimKv;
class SimKvTransaction;

// What is committed: outlives the SimKvs that work on it.
class SimKvImage {
 public:
  explicit SimKvImage(SimWorld& world) : world_(world) {}
  ~SimKvImage();
  SimKvImage(const SimKvImage&) = delete;
  SimKvImage& operator=(const SimKvImage&) = delete;

  SimKvFaults faults;

  // Both end the "process": every SimKv of this image becomes a ghost, whose transactions, in
  // flight or later, end with Code::closed and change nothing any more. What had committed without
  // its completion having run stays committed.
  //
  // Power is cut: of the commits since the last durable one, a random number of the newest is lost.
  void power_cut();
  // The process is killed: nothing that is committed is lost.
  void kill();

  // For tests.
  std::map<std::string, std::string> content() const;
  uint64_t commits() const { return commits_; }
  uint64_t volatile_commits() const { return undo_.size(); }

  SimWorld& world() { return world_; }

 private:
  friend class SimKv;
  friend class SimKvTransaction;
  struct Value {
    std::string bytes;
    uint64_t version = 0;  // the commit that wrote it
  };
  using Map = std::map<std::string, Value, std::less<>>;
  using Writes = std::map<std::string, std::optional<std::string>, std::less<>>;

  void commit(Writes& writes, bool durable);
  void end_instances();

  SimWorld& world_;
  Map map_;
  // How to take each commit back that a power cut may still lose, oldest first.
  std::vector<std::vector<std::pair<std::string, std::optional<Value>>>> undo_;
  uint64_t commits_ = 0;
  std::vector<SimKv*> instances_;
};

class SimKv final : public engine::Kv {
 public:
  explicit SimKv(SimKvImage& image);
  ~SimKv() override;  // nothing may be in flight (a power cut or kill ends what is)

  void submit(engine::KvOp& op) override;
  using engine::Kv::run;
  // The calling thread sleeps as long as the steps take.
  Status run(engine::KvOp& op) override;
  Status sync() override;

 private:
  friend class SimKvImage;
  struct InFlight;

  void later(engine::KvOp& op, std::string_view label, void (SimKv::*step)(engine::KvOp&));
  void run_body(engine::KvOp& op);
  void try_commit(engine::KvOp& op);
  std::optional<Status> attempt_commit(engine::KvOp& op, SimKvTransaction& transaction);
  void finish(engine::KvOp& op);
  Status pause(const char* what);
  void become_ghost();

  SimKvImage& image_;
  int pausing_ = 0;                    // threads in run() or sync()
  IntrusiveList<engine::KvOp> order_;  // in flight, in the order of submission
  std::map<engine::KvOp*, std::unique_ptr<InFlight>> in_flight_;
  bool ghost_ = false;
};

}  // namespace penstock::sim
