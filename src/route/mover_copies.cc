// What a mover's copies are, and what they are verified against.
#include "piece.h"

#include <algorithm>

#include "penstock/route/mover.h"

namespace penstock::route {

using engine::CopyDirection;
using engine::CopyMeans;

void Mover::submit_copy(Piece& piece) {
  ASSERT(!piece.copies.empty() && piece.copies.size() <= engine::kCopyPiecesMax);
  ASSERT(piece.checks.size() <= engine::kCopyChecksMax);
  piece.copy.device = piece.op->memory.device;
  piece.copy.allocation = piece.op->memory.allocation;
  piece.copy.pieces = piece.copies;
  piece.copy.checks = piece.checks;
  piece.copy.owner = &piece;
  piece.copy.completion = [](engine::Op& op) {
    auto& done = op.owner_as<Piece>();
    done.mover.copy_done(done);
  };
  piece.began = loop_.now();
  lanes_->submit(piece.copy);
}

// Between the slot and device memory, in the direction of the transfer.
void Mover::copy_slot(Piece& piece) {
  ASSERT(piece.slot.data != nullptr);
  ASSERT(piece.file_offset() % kBlockBytes + piece.length <= piece.slot.length);
  const bool write = piece.op->write;
  std::byte* const device = device_address(piece);
  std::byte* const host = piece.slot.data + piece.file_offset() % kBlockBytes;
  piece.copies.clear();
  piece.copies.push_back({.source = write ? device : host,
                          .destination = write ? host : device,
                          .length = piece.length});
  piece.checks.clear();
  if (!write) verify_later(piece, host, piece.host.checksums);
  piece.copy.direction = write ? CopyDirection::from_device : CopyDirection::to_device;
  piece.copy.means = CopyMeans::copy_engine;
  submit_copy(piece);
}

void Mover::copy_resident(Piece& piece) {
  ASSERT(piece.resident.data != nullptr && piece.length <= piece.resident.length);
  const std::byte* const source = piece.resident.data;
  std::byte* const device = device_address(piece);
  piece.checks.clear();
  piece.copies.clear();
  if (piece.copy.means == CopyMeans::copy_engine) {
    piece.copies.push_back({.source = source, .destination = device, .length = piece.length});
    if (piece.resident.host_may_read) verify_later(piece, source, piece.resident.checksums);
  } else {
    // An entry for each block, which a warp copies and checks.
    const bool verifies = config_.verify && piece.resident.host_may_read;
    for_each_block(
        piece, source, piece.resident.checksums, verifies,
        [&](uint64_t at, uint64_t length, uint32_t crc) {
          piece.copies.push_back({source + at, device + at, length, crc, verifies ? 1U : 0U});
        });
  }
  piece.copy.direction = CopyDirection::to_device;
  submit_copy(piece);
}

// Calls `each` for every part of the piece that lies in one block of the file. Checksums are known
// for whole blocks, if at all; others are taken here from what is about to be copied. A part of a
// slot's block that was not verified yet is verified here with its whole block: if that is bad, the
// part gets a checksum that cannot match.
template <class Each>
void Mover::for_each_block(const Piece& piece, const std::byte* source, const uint32_t* checksums,
                           bool verifies, const Each& each) {
  uint64_t at = 0;
  uint64_t step = kBlockBytes - piece.file_offset() % kBlockBytes;
  for (uint64_t block = 0; at < piece.length; ++block) {
    step = std::min(step, piece.length - at);
    uint32_t crc = 0;
    if (verifies) {
      const bool known = checksums != nullptr;
      const bool whole = step == kBlockBytes;
      crc = known && whole ? checksums[block] : crc32c({source + at, step});
      if (known && !whole && !is_good_in_slot(piece, block)) crc = ~crc;
    }
    each(at, step, crc);
    at += step;
    step = kBlockBytes;
  }
}

// Whether the block of the piece's slot is as its checksum says; one that the file ends in was
// verified by the source, and what is in no slot was verified before.
bool Mover::is_good_in_slot(const Piece& piece, uint64_t block) {
  const uint64_t begin = block * kBlockBytes;
  if (piece.slot.data == nullptr || begin + kBlockBytes > piece.host.transferred) return true;
  return crc32c({piece.slot.data + begin, kBlockBytes}) == piece.host.checksums[block];
}

// By checks in device memory, or by the caller, which is told the checksum.
void Mover::verify_later(Piece& piece, const std::byte* source, const uint32_t* checksums) const {
  const bool by_caller = piece.op->without_kernels;
  if (!config_.verify && !by_caller) return;
  const std::byte* const device = device_address(piece);
  piece.crc32c = 0;
  for_each_block(piece, source, checksums, true, [&](uint64_t at, uint64_t length, uint32_t crc) {
    if (by_caller) {
      piece.crc32c = crc32c_join(piece.crc32c, crc, length);
    } else {
      piece.checks.push_back({device + at, static_cast<uint32_t>(length), crc});
    }
  });
}

// Whether bytes that did not verify were never verified on their way, so that the disk itself may
// have them wrong. The source then reads them again with care, and knows what to say.
bool Mover::may_be_the_disk(const Piece& piece) {
  return piece.slot.data != nullptr && !piece.host_verifies && piece.host.checksums != nullptr;
}

// Parts have landed in any order; what lies behind the end of the file does not count.
uint32_t Mover::sum_up(TransferOp& op) {
  std::ranges::sort(op.sums, {}, &TransferOp::PartSum::begin);
  uint32_t crc = 0;
  for (const TransferOp::PartSum& part : op.sums) {
    if (part.begin >= op.transferred) break;
    crc = crc32c_join(crc, part.crc32c, part.length);
  }
  return crc;
}

}  // namespace penstock::route
