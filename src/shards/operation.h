// The state of one IoOp under way in a Client.
#pragma once

#include "scheduler.h"

#include <array>

#include "penstock/inodes.h"
#include "penstock/shards.h"
#include "penstock/wire.h"

namespace penstock::shards {

using inodes::AccessTimes;
using inodes::DropQueue;
using inodes::FlushRequest;
using inodes::Inode;
using inodes::OpenFile;
using inodes::Placement;
using inodes::RoomRequest;
using inodes::SettleRequest;
using inodes::WriteBehind;
using inodes::WriteGate;

static_assert(kIoOpsMax + limits::kBehindOperations + limits::kSharedPieces <=
                  wire::kCallsOfClientMax,
              "a target has room for all calls of a busy shard");

class ShardClient;
struct Operation;

// One call to a target: a part of a read or write within one chunk, or the sync of one target.
struct Piece : engine::CallOp {
  Operation* operation = nullptr;
  Piece* next_free = nullptr;
  uint64_t at = 0;  // offset in the file; of a sync: the number of the target
  uint32_t length = 0;
  bool busy = false;
  UnderWay under_way;
  wire::ChunkRequest message;
  wire::ChunkIoResponse answer;
};

enum class Stage : uint8_t {
  idle,
  behind,    // waits for bytes that were taken before it to be in the targets
  queued,    // its turn has not come yet
  holding,   // waits for a hold of the inode
  fitting,   // has one, and waits for what this process knows of the inode to be renewed
  dropping,  // a write that waits for the file's set-id bits to be taken away
  gated,     // a write that waits for a cut of the file to end
  growing,   // a write that waits to hear whether quotas let its file become so long
  widening,  // a write that waits for the file's record to tell of chains that it is about to use
  moving,    // pieces are under way
  room,      // a write that waits for removed files to be collected, as the disk is full
  settling,  // the length becomes durable
  telling,   // observers let the change through
};

struct Operation : ListNode {
  ShardClient* client = nullptr;
  IoOp* io = nullptr;  // null when it was ended early while a later stage went on
  Inode* inode = nullptr;
  FileRef kept;  // keeps `inode` when `io` is null
  Flow* flow = nullptr;
  IoClass io_class = IoClass::small;
  IoKind kind = IoKind::read;
  Stage stage = Stage::idle;
  bool timed = false;
  bool is_behind = false;
  Status ending = Code::ok;  // why it is to end early
  Status error;              // of the first piece that failed
  engine::Route route = engine::Route::none;

  // Units are bytes of the file, or targets of a sync.
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t next = 0;       // not handed to pieces yet
  uint64_t sent_end = 0;   // where what was handed to pieces ends, whatever became of them
  uint64_t failed_at = 0;  // the lowest unit that failed; `end` if none
  uint32_t in_flight = 0;
  uint32_t cuts = 0;  // of the inode when a read began
  uint32_t restarts = 0;
  uint64_t changes = 0;     // of the inode when it began; a sync makes them durable
  bool is_settled = false;  // sync: meta has nothing that is wanted

  uint32_t shared_count = 0;
  Piece own;
  std::array<Piece*, limits::kPiecesPerOp - 1> shared{};
  engine::Timer deadline;
  holds::Holding::Waiter hold_waiter;
  holds::Ticket ticket;
  bool has_ticket = false;
  engine::Timer hold_deadline;
  bool hold_timed = false;
  engine::Time hold_until = engine::kNever;  // counted from its first wait for a hold
  inodes::FitRequest fit;
  WriteGate::Waiter gate_waiter;
  inodes::Change change;         // under way while a write is inside the gate and moves
  uint32_t privileges_seen = 0;  // of the inode, when a write asked for them to be taken away
  SettleRequest settle;
  FlushRequest flush;
  RoomRequest room;
  bool asked_for_room = false;
  engine::Op told;
  engine::Op ended;  // of an early end while nothing is under way
};

}  // namespace penstock::shards
