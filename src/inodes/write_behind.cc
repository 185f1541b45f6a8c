#include "penstock/inodes/write_behind.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "penstock/inodes/open_file.h"

namespace penstock::inodes {
namespace {

metrics::Counter& taken_counter() {
  static metrics::Counter counter("client.behind.bytes");
  return counter;
}
metrics::Counter& written_counter() {
  static metrics::Counter counter("client.behind.writes");
  return counter;
}
metrics::Counter& lost_counter() {
  static metrics::Counter counter("client.behind.lost.bytes");
  return counter;
}

}  // namespace

Behind::Behind() = default;
Behind::~Behind() = default;

WriteBehind::WriteBehind(const Config& config, Put put, Lost lost)
    : config_(config), put_(std::move(put)), lost_(std::move(lost)) {}

void WriteBehind::halt() {
  open_.store(false, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  if (worker_.joinable()) worker_.join();
}

WriteBehind::~WriteBehind() {
  halt();
  while (Gathered* const left = gathered_.pop_front()) {
    // The inode holds the buffer, and the buffer the inode.
    const std::shared_ptr<Inode> inode = left->inode;
    Behind& behind = inode->behind;
    (behind.filling.get() == left ? behind.filling : behind.older).reset();
  }
}

void WriteBehind::start() {
  // Each buffer is in there once at most: loops and writers that add one never wait for memory.
  sealed_.reserve(config_.behind_bytes_max / limits::kBehindBufferBytes + 1);
  worker_ = engine::Thread("penstock-behind", [this] { run(); });
  open_.store(true, std::memory_order_relaxed);
}

void WriteBehind::stop() {
  {
    // begin() looks at it under the lock: no buffer is begun after this.
    const std::lock_guard lock(mutex_);
    open_.store(false, std::memory_order_relaxed);
  }
  flush_all();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  if (worker_.joinable()) worker_.join();
}

// Whether there is room on the disk for what gathers, as far as was seen a moment ago, and whether
// the last losses are long enough ago.
bool WriteBehind::may_gather() {
  if (!open_.load(std::memory_order_relaxed)) return false;
  const engine::Time now = clock().now();
  if (now < trouble_until_.load(std::memory_order_relaxed)) return false;
  if (!config_.space) return true;
  engine::Time seen = room_seen_.load(std::memory_order_relaxed);
  if (now - seen >= limits::kBehindRoomFor &&
      room_seen_.compare_exchange_strong(seen, now, std::memory_order_relaxed)) {
    const uint64_t kept = limits::kBehindRoomBytes + config_.behind_bytes_max;
    room_.store(config_.space().free_bytes >= kept, std::memory_order_relaxed);
  }
  return room_.load(std::memory_order_relaxed);
}

std::unique_ptr<Gathered> WriteBehind::begin(const FileRef& file, std::shared_ptr<Inode> inode,
                                             uint64_t offset) {
  auto made = std::make_unique<Gathered>();
  made->file = file;
  made->inode = std::move(inode);
  made->begin = offset;
  made->since = clock().now();
  const std::lock_guard lock(mutex_);
  if (!open_.load(std::memory_order_relaxed)) return nullptr;
  if ((buffers_ + 1) * limits::kBehindBufferBytes > config_.behind_bytes_max) {
    short_ = true;
    work_.notify_one();
    return nullptr;
  }
  if (!spare_.empty()) {
    made->memory = std::move(spare_.back());
    spare_.pop_back();
  } else {
    void* const memory = std::aligned_alloc(limits::kBlockBytes, limits::kBehindBufferBytes);
    if (memory == nullptr) return nullptr;
    made->memory = {static_cast<std::byte*>(memory), [](std::byte* bytes) { std::free(bytes); }};
  }
  ++buffers_;
  ++begun_;
  if (resting_) work_.notify_one();  // It looks at the time from now on.
  gathered_.push_back(*made);
  return made;
}

bool WriteBehind::take(const FileRef& file, std::shared_ptr<Inode> shared, uint64_t offset,
                       engine::MemoryRef memory, const meta::FileWriter* writer) {
  Inode& inode = *shared;
  Behind& behind = inode.behind;
  const bool may = may_gather();  // Asks loops, which may want the lock.
  Lock lock(behind.mutex);
  if (!may) return false;
  while (behind.filling != nullptr && behind.filling->length >= limits::kBehindBytes) {
    if (behind.older == nullptr) {
      seal(inode);
    } else {
      wait_or_help(inode, lock, false);
    }
  }
  // From here on the lock is kept; see Inode::privilege_changes.
  if (file->dropper(writer) != nullptr) return false;
  if (behind.filling == nullptr) {
    if (offset > inode.visible_length()) return false;  // It would leave a hole.
    behind.filling = begin(file, std::move(shared), offset);
    if (behind.filling == nullptr) return false;
  } else if (offset != behind.filling->end()) {
    return false;
  }
  Gathered& filling = *behind.filling;
  ASSERT(filling.begin % limits::kBlockBytes + filling.length + memory.length <=
         limits::kBehindBufferBytes);
  std::memcpy(filling.data() + filling.length, memory.data, memory.length);
  filling.length += memory.length;
  filling.taken = ++behind.taken;
  inode.modified.store(clock().wall(), std::memory_order_relaxed);
  inode.access_due.store(!inode.no_access_times.load(std::memory_order_relaxed),
                         std::memory_order_relaxed);
  behind.end.store(filling.end(), std::memory_order_release);
  behind.pending.store(true, std::memory_order_seq_cst);
  if (filling.length >= limits::kBehindBytes && behind.older == nullptr) seal(inode);
  taken_counter().add(memory.length);
  return true;
}

// The buffer takes nothing more, and a thread is asked to write it.
void WriteBehind::seal(Inode& inode) {
  Behind& behind = inode.behind;
  ASSERT(behind.older == nullptr && behind.filling != nullptr);
  behind.older = std::move(behind.filling);
  {
    const std::lock_guard lock(mutex_);
    sealed_.push_back(behind.older->inode);
  }
  work_.notify_one();
}

void WriteBehind::wait_or_help(Inode& inode, Lock& lock, bool durable) {
  Behind& behind = inode.behind;
  if (!behind.older->started) return carry_out(inode, lock, durable);
  const uint64_t landed = behind.landed;
  behind.moved.wait(lock, [&] { return behind.landed != landed; });
}

void WriteBehind::carry_out(Inode& inode, Lock& lock, bool durable) {
  Behind& behind = inode.behind;
  Gathered& going = *behind.older;
  ASSERT(!going.started);
  going.started = true;
  lock.unlock();
  const Status put = put_(going, durable);
  written_counter().add();
  lock.lock();
  ASSERT(behind.older.get() == &going && going.taken > behind.landed);
  const std::unique_ptr<Gathered> done = std::move(behind.older);
  give_back(*done);
  behind.landed = done->taken;
  if (!put.ok()) {
    behind.lost = put;
    behind.losses.fetch_add(1, std::memory_order_relaxed);
    trouble_until_.store(clock().now() + limits::kBehindTrouble, std::memory_order_relaxed);
  }
  behind.end.store(behind.filling ? behind.filling->end() : 0, std::memory_order_release);
  if (behind.filling == nullptr) behind.pending.store(false, std::memory_order_seq_cst);
  behind.moved.notify_all();
  lock.unlock();
  if (!put.ok()) {
    lost_counter().add(done->length);
    log::error("inode {}: {} bytes at {} were taken from a program and could not be written: {}",
               inode.id.value, done->length, done->begin, put.name());
    lost_(*done);
  }
  // What only the buffer has held open is closed without the lock.
  done->file = nullptr;
  lock.lock();
}

// Before it counts as landed: a flush does not find it among what is still to be written.
void WriteBehind::give_back(Gathered& done) {
  const std::lock_guard lock(mutex_);
  done.unlink();
  ASSERT(buffers_ > 0);
  --buffers_;
  if (spare_.size() < limits::kBehindSpareMax) spare_.push_back(std::move(done.memory));
}

void WriteBehind::flush(Inode& inode, bool durable) {
  Behind& behind = inode.behind;
  if (!behind.pending.load(std::memory_order_seq_cst)) return;
  Lock lock(behind.mutex);
  const uint64_t goal = behind.taken;
  while (behind.landed < goal) {
    if (behind.older == nullptr) behind.older = std::move(behind.filling);
    wait_or_help(inode, lock, durable);
  }
}

void WriteBehind::flush_all() {
  std::vector<std::shared_ptr<Inode>> inodes;
  {
    const std::lock_guard lock(mutex_);
    for (Gathered* one = gathered_.first(); one != nullptr; one = gathered_.next(*one)) {
      inodes.push_back(one->inode);
    }
  }
  for (const std::shared_ptr<Inode>& inode : inodes) flush(*inode);
}

void WriteBehind::flush_later(FlushRequest& request) {
  {
    const std::lock_guard lock(mutex_);
    if (!stop_) {
      requests_.push_back(request);
      work_.notify_one();
      return;
    }
  }
  // What was taken has landed before the end.
  request.loop->complete_remote(request, Code::ok);
}

// With the lock held. The inode whose buffer has waited long enough, or whose memory others need.
std::shared_ptr<Inode> WriteBehind::due() {
  if (std::exchange(short_, false)) wanted_ = buffers_ / 4 + 1;
  const Gathered* const oldest = gathered_.first();
  if (oldest == nullptr) {
    wanted_ = 0;
    return nullptr;
  }
  if (wanted_ > 0) {
    --wanted_;
  } else if (clock().now() - oldest->since < config_.behind_age) {
    return nullptr;
  }
  return oldest->inode;
}

// With the lock held. An inode with a buffer that is full.
std::shared_ptr<Inode> WriteBehind::full() {
  if (sealed_.empty()) return nullptr;
  std::shared_ptr<Inode> inode = std::move(sealed_.front());
  sealed_.erase(sealed_.begin());
  return inode;
}

void WriteBehind::write_older(Inode& inode) {
  Lock lock(inode.behind.mutex);
  const Gathered* const older = inode.behind.older.get();
  if (older != nullptr && !older->started) carry_out(inode, lock, false);
}

// One thing at a time, and before each what an operation waits for.
void WriteBehind::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (FlushRequest* const request = requests_.pop_front()) {
      lock.unlock();
      flush(*request->inode);
      request->loop->complete_remote(*request, Code::ok);
    } else if (stop_) {
      return;
    } else if (std::shared_ptr<Inode> inode = full()) {
      lock.unlock();
      write_older(*inode);
      inode.reset();
    } else if (inode = due(); inode != nullptr) {
      lock.unlock();
      flush(*inode);
      inode.reset();
    } else {
      wait_for_work(lock);
      continue;
    }
    lock.lock();
  }
}

void WriteBehind::wait_for_work(Lock& lock) {
  const auto called = [this] { return stop_ || short_ || !requests_.empty() || !sealed_.empty(); };
  // Who writes one small file after the other need not wake it for each.
  if (buffers_ == 0 && begun_ == seen_) {
    resting_ = true;
    work_.wait(lock, [&] { return called() || buffers_ > 0; });
    resting_ = false;
  } else {
    seen_ = begun_;
    work_.wait_for(lock, config_.behind_age / 4, called);
  }
}

}  // namespace penstock::inodes
