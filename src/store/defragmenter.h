// Brings the blocks of maps together again that updates have scattered over the disk, in the
// background: docs/decisions/0027-defragmenting.md says why it is done like this.
//
// It goes through the committed maps in passes. A piece, the scattered ones among four neighbouring
// maps, is read and verified, written to free blocks that lie together, and then replaced in the
// maps at one instant, as an update would. It takes no locks: an update does not wait for it,
// and what changed meanwhile stays as the writer left it. Checksums move along with their blocks,
// so damage stays what it was.
#pragma once

#include "request.h"
#include "scatter.h"

namespace penstock::store {

struct Core;

class Defragmenter {
 public:
  explicit Defragmenter(Core& core);
  ~Defragmenter();
  bool valid() const { return static_cast<bool>(memory_); }

  // Part of every change of a map: its scattered blocks before and after. Also tells it that there
  // may be something to do.
  uint32_t measure(const BlockMap& map) const;
  void note(uint32_t before, uint32_t after);
  uint64_t scattered() const { return scattered_; }
  uint64_t moved() const { return moved_; }

  void enable(bool enabled);
  // The target closes: nothing begins any more.
  void stop();
  // Nothing is under way, nor is a timer.
  bool idle() const { return stage_ == Stage::idle; }
  // Its request has waited for maps.
  void step(Request& request);

 private:
  enum class Stage : uint8_t { idle, waiting, scanning, holding, reading, writing };

  // A block on its way.
  struct Moved {
    uint32_t index = 0;  // of the request's blocks
    BlockRef from;
    BlockNumber to = 0;
    bool intact = false;  // what was read of it verifies
  };
  // Reads neighbouring old blocks, or writes neighbouring new ones.
  struct Io : engine::DiskOp {
    uint32_t first = 0;  // index into blocks_
    uint32_t count = 0;
  };

  bool may_work() const;
  void wake();
  bool worth_a_pass() const;
  bool others_worked();
  void wait(engine::Duration time);
  void on_timer();
  void begin_pass();
  void end_pass();
  void scan();
  void on_scanned();
  void next_piece();
  void begin_piece();
  void end_piece();
  void take_a_break();

  bool undisturbed() const;
  void pick_blocks();
  void pick_quarter(uint32_t i, uint32_t quarter);
  bool has_room(uint32_t count) const;
  bool allocate();
  bool grow();
  void begin_move();
  void read_more();
  void write();
  void submit(engine::DiskOpKind kind, uint32_t first, uint32_t count, BlockNumber physical);
  void on_io(Io& io);
  void verify(const Io& io);
  void apply();
  void give_back(BlockNumber block);
  void end_move(bool apply_it);

  Core& core_;
  Stage stage_ = Stage::idle;
  bool enabled_;
  bool closed_ = false;  // the disk or the KV store said so
  bool in_pass_ = false;
  uint64_t scattered_ = 0;
  uint64_t moved_ = 0;
  engine::Timer timer_;
  engine::Duration wait_;  // before the next pass
  engine::Time pass_began_{};
  uint64_t moved_before_pass_ = 0;

  ScatterScan scan_;
  uint32_t next_key_ = 0;

  Request request_;
  engine::Op unused_;  // what the request names as its operation
  engine::Time piece_began_{};
  uint64_t requests_seen_ = 0;  // of others, ended when last looked
  uint32_t reads_max_ = 0;
  uint8_t epoch_ = 0;
  uint32_t count_ = 0;  // of blocks_
  uint32_t next_read_ = 0;
  bool written_ = false;  // all writes succeeded so far
  std::array<Moved, limits::kMoveBlocks> blocks_;
  MappedMemory memory_;
  std::array<Io, limits::kMoveReads> ios_;
  std::array<Io*, limits::kMoveReads> idle_ios_{};
  uint32_t idle_io_count_ = 0;
};

}  // namespace penstock::store
