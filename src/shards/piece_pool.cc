#include "piece_pool.h"

namespace penstock::shards {

PiecePool::PiecePool(engine::Op::Completion completion)
    : completion_(completion), pieces_(new Piece[limits::kSharedPieces]) {
  for (uint32_t i = 0; i < limits::kSharedPieces; ++i) {
    prepare(pieces_[i]);
    pieces_[i].next_free = free_;
    free_ = &pieces_[i];
  }
}

PiecePool::~PiecePool() {
  ASSERT(taken_ == 0);
}

void PiecePool::prepare(Piece& piece) const {
  piece.completion = completion_;
  piece.request = wire::as_wire(piece.message);
}

Piece* PiecePool::idle_of(Operation& op) {
  if (!op.own.busy) return &op.own;
  if (free_ == nullptr || op.shared_count == op.shared.size()) return nullptr;
  Piece* const piece = std::exchange(free_, free_->next_free);
  ASSERT(!piece->busy);
  ++taken_;
  piece->operation = &op;
  op.shared[op.shared_count++] = piece;
  return piece;
}

void PiecePool::put(Piece& piece) {
  ASSERT(!piece.busy && taken_ > 0);
  --taken_;
  piece.next_free = free_;
  free_ = &piece;
}

void PiecePool::give_back(Operation& op, Piece& piece) {
  if (&piece == &op.own) return;
  ASSERT(op.shared_count > 0 && op.shared[op.shared_count - 1] == &piece);
  --op.shared_count;
  put(piece);
}

void PiecePool::give_back_all(Operation& op) {
  ASSERT(!op.own.busy && op.in_flight == 0);
  for (uint32_t i = 0; i < op.shared_count; ++i) put(*op.shared[i]);
  op.shared_count = 0;
}

}  // namespace penstock::shards
