// engine::Disk and Parker on io_uring.
#pragma once

#include "local_disk.h"
#include "ring.h"

#include <array>
#include <atomic>
#include <memory>
#include <sys/uio.h>
#include <vector>

namespace penstock::disk {

// submit() only fills a submission entry. The kernel is entered once per batch: when the loop goes
// to sleep (park() submits and waits in one call), or, while it has other work, in the second turn
// after the entry was made. A loop that is driven by this disk's completions thus costs one system
// call per batch, and a busy one delays a submission by at most one turn.
class UringDisk final : public LocalDisk, public engine::Parker {
 public:
  static Outcome<std::unique_ptr<UringDisk>> create(const std::string& root);
  ~UringDisk() override;

  void set_loop(engine::Loop& loop) { loop_ = &loop; }

  bool poll() override;
  void park(engine::Time deadline) override;
  void unpark() override;
  Status watch(int eventfd) override;
  uint64_t writes_seen() const override { return writes_seen_; }
  void forget(int eventfd) override;

  void submit(engine::DiskOp& op) override;
  Status register_buffer(engine::BufferId id, MutableBytes memory) override;
  void unregister_buffer(engine::BufferId id) override;

 private:
  // A registered buffer: slots of the ring's table, one for each GiB, as the kernel takes no more
  // at once. The first slot is the id itself.
  struct Buffer {
    MutableBytes memory;
    std::vector<unsigned> slots;
  };

  // An eventfd, every write to which ends park(); without one it is free for another.
  struct Watch {
    int fd = -1;
    uint64_t tag = 0;  // of the newest entry that watches it
    bool armed = false;
  };

  // Small writes that follow each other in a file and were submitted one after the other: one
  // operation for the kernel, which has as much work with it as with one of them.
  struct Run {
    static constexpr unsigned kWritesMax = 64;
    IntrusiveList<engine::DiskOp> writes;
    std::array<iovec, kWritesMax> spans;
    unsigned count = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    Run* next_free = nullptr;
  };
  // Without one of these writes go one by one.
  static constexpr size_t kRuns = 64;

  // The newest entry, while another write may still join it.
  struct Tail {
    io_uring_sqe* entry = nullptr;
    engine::DiskOp* last = nullptr;
    Run* run = nullptr;  // null: it is that of `last` alone
  };

  explicit UringDisk(const std::string& root);

  void on_open(uint32_t index) override;
  void on_close(uint32_t index) override;

  void own();
  Status fill_buffer(const Buffer& buffer);
  void empty_buffer(const Buffer& buffer);

  io_uring_sqe& next_entry();
  void start(engine::DiskOp& op);
  void prepare(io_uring_sqe& entry, engine::DiskOp& op, const File& file);
  bool may_join(const engine::DiskOp& op) const;
  bool join(engine::DiskOp& op);
  static void add(Run& run, engine::DiskOp& op);
  void end_run(Run& run, int64_t result);
  int fixed_slot(const engine::MemoryRef& memory, uint64_t offset, uint64_t length) const;
  void arm(uint32_t watch);
  void disarm(Watch& watch);
  void on_watched(const io_uring_cqe& completion);
  bool harvest();
  void handle(const io_uring_cqe& completion);
  void finish(engine::DiskOp& op, File& file);
  void entered(int result);

  engine::Loop* loop_ = nullptr;
  Ring ring_;
  UniqueFd wake_fd_;            // what unpark() writes
  std::vector<Watch> watches_;  // the first is that of wake_fd_
  uint32_t arms_ = 0;
  bool all_armed_ = false;
  int owner_ = 0;  // the thread (gettid) that polled last
  // Entries were left for the loop's next turn or its sleep.
  bool deferred_ = false;
  // Set by unpark() before it writes to wake_fd_, cleared by park(): spares further writes. The
  // exchanges are acquire-release, so a cleared signal means that what came before it is seen.
  std::atomic<bool> signalled_{false};

  std::vector<Buffer> buffers_;        // by BufferId
  std::vector<unsigned> spare_slots_;  // for the second and later GiB of a buffer
  IntrusiveList<engine::DiskOp> waiting_;
  std::unique_ptr<Run[]> runs_ = std::make_unique<Run[]>(kRuns);
  Run* free_runs_ = nullptr;
  Tail tail_;
  uint64_t writes_seen_ = 0;
  uint32_t in_flight_ = 0;
  uint32_t finished_ = 0;     // in this harvest
  uint64_t large_bytes_ = 0;  // prepared since the kernel was entered

  metrics::Counter enters_{"disk.enter"};
  metrics::Counter ops_{"disk.ops"};
  metrics::Counter joined_{"disk.joined"};
  metrics::Counter retries_{"disk.retry"};
  metrics::Counter refused_buffers_{"disk.buffer_refused"};
};

}  // namespace penstock::disk
