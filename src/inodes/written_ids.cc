#include "penstock/inodes/written_ids.h"

#include <algorithm>
#include <cstring>

#include "penstock/inodes/limits.h"

namespace penstock::inodes {
namespace {

constexpr uint64_t kMagic = 0x5344494e45545257;  // "WRTENIDS" as bytes
constexpr uint32_t kVersion = 1;

}  // namespace

// One block, chunk 0 of kRecordsInode on the first target. Numbers are little-endian.
struct WrittenIds::Record {
  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t clean = 0;  // 1: closed in order, nothing to look for
  uint64_t base = 0;   // what was created with a lower number is durable
  uint64_t up_to = 0;  // no file with a higher number has chunks
};

Status WrittenIds::recover() {
  alignas(limits::kBlockBytes) std::byte block[limits::kBlockBytes];
  static_assert(sizeof(Record) == 32 && std::is_trivially_copyable_v<Record>);
  const Status read = targets_.read_record({block, sizeof block});
  if (read == Code::no_data) return Code::ok;  // a new store
  const bool lost = read == Code::corrupt || read == Code::io_error;
  if (!lost) TRY(read);
  Record record;
  std::memcpy(&record, block, sizeof record);
  const bool damaged = lost || record.magic != kMagic || record.clean > 1 ||
                       record.base > record.up_to || record.up_to >= kRecordsInode.value;
  if (damaged) {
    log::error(
        "file system: the record of written files on the first target is damaged: if this follows "
        "a power cut, some space may stay taken by files that were lost in it");
    return Code::ok;
  }
  if (record.version != kVersion) return Code::wrong_version;
  if (record.clean == 1) return Code::ok;
  TRY(sweep(InodeId{record.base + 1}, InodeId{record.up_to}));
  // It stays true: the next life looks there again, and further if this one goes further.
  recorded_ = true;
  base_ = record.base;
  up_to_.store(record.up_to, std::memory_order_relaxed);
  return Code::ok;
}

Status WrittenIds::hold(InodeId first) {
  ASSERT(first.value > 0);
  const std::lock_guard lock(mutex_);
  held_.insert(first.value);
  if (!recorded_ || first.value > base_) return Code::ok;
  // Others have gone far ahead since it got its number.
  const Status put_back =
      put({.base = first.value - 1, .up_to = up_to_.load(std::memory_order_relaxed)});
  if (put_back.ok()) {
    base_ = first.value - 1;
  } else {
    held_.erase(held_.find(first.value));
  }
  return put_back;
}

void WrittenIds::let_go(InodeId first) {
  const std::lock_guard lock(mutex_);
  const auto held = held_.find(first.value);
  ASSERT(held != held_.end());
  held_.erase(held);
}

void WrittenIds::leave_to_next_life() {
  const std::lock_guard lock(mutex_);
  left_some_ = true;
}

// Each chain says which of them it has: numbers are many, and chains, and hardly any of one has
// chunks on the other.
Status WrittenIds::sweep(InodeId from, InodeId up_to) {
  while (from <= up_to) {
    TRY_ASSIGN(TargetCalls::Listed listed, targets_.with_chunks(from, up_to));
    std::vector<TargetCalls::Removed> unknown;
    for (TargetCalls::Removed& file : listed.files) {
      const Result<Attributes> found = meta_.attributes(file.inode);
      if (found) continue;
      if (found.error() != Code::not_found) return found.error();
      unknown.push_back(std::move(file));
    }
    TRY(targets_.remove(unknown));
    if (listed.next == InodeId{}) break;
    from = listed.next;
  }
  return Code::ok;
}

Status WrittenIds::extend(InodeId inode) {
  const std::lock_guard lock(mutex_);
  if (inode.value <= up_to_.load(std::memory_order_relaxed)) return Code::ok;
  // Creations up to now become durable; those under way have numbers not far below.
  TRY(meta_.sync());
  uint64_t base = inode.value > step_ ? inode.value - step_ : 0;
  if (!held_.empty()) base = std::min(base, *held_.begin() - 1);
  ASSERT(base < inode.value);
  TRY(put({.base = base, .up_to = inode.value + step_}));
  recorded_ = true;
  base_ = base;
  up_to_.store(inode.value + step_, std::memory_order_release);
  return Code::ok;
}

Status WrittenIds::close() {
  const std::lock_guard lock(mutex_);
  if (!recorded_ || left_some_ || !held_.empty()) return Code::ok;
  TRY(put({.clean = 1}));
  recorded_ = false;
  up_to_.store(0, std::memory_order_relaxed);
  return Code::ok;
}

Status WrittenIds::put(const Record& record) {
  // What recover() demands.
  ASSERT(record.base <= record.up_to && record.clean <= 1);
  alignas(limits::kBlockBytes) std::byte block[limits::kBlockBytes] = {};
  std::memcpy(block, &record, sizeof record);
  return targets_.write_record({block, sizeof block});
}

}  // namespace penstock::inodes
