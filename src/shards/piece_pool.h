// The pieces that the operations of one client share.
#pragma once

#include "operation.h"

#include <memory>

namespace penstock::shards {

// Owner thread of the client's loop only. Every operation has one piece of its own, so that it
// always gets on; up to limits::kPiecesPerOp - 1 more come from here. Nothing is allocated after
// the start.
class PiecePool {
 public:
  // `completion` is that of every piece's call.
  explicit PiecePool(engine::Op::Completion completion);
  ~PiecePool();

  // Once, for the piece that an operation owns.
  void prepare(Piece& piece) const;
  // A piece of the operation that is not under way; null if there is none.
  Piece* idle_of(Operation& op);
  // The piece that idle_of() gave last, and that was not used after all.
  void give_back(Operation& op, Piece& piece);
  // All of them: none is under way.
  void give_back_all(Operation& op);

 private:
  void put(Piece& piece);

  const engine::Op::Completion completion_;
  std::unique_ptr<Piece[]> pieces_;
  Piece* free_ = nullptr;
  uint32_t taken_ = 0;
};

}  // namespace penstock::shards
