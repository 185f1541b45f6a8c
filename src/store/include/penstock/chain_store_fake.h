// A ChainStore in memory, for tests of chains: it takes its time, may be killed, and may lose
// power.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "penstock/chain_store.h"
#include "penstock/store.h"

namespace penstock::store {

// What is on the disk, and what is on its way there. Outlives the stores that work on it, one after
// the other.
class FakeChainImage {
 public:
  // What was not made durable is gone, but for what happens to be written: of each chunk a part of
  // it from the oldest on.
  void power_cut(engine::Random& random) {
    std::map<ChainChunk, uint64_t> left;
    for (const Applied& one : steps_) ++left[one.at];
    for (auto& [at, steps] : left) steps = random.below(steps + 1);
    for (Applied& one : steps_) {
      if (left[one.at] == 0) continue;
      --left[one.at];
      one.step(durable_);
    }
    steps_.clear();
    now_ = durable_;
  }

  struct Chunk {
    UpdateName committed;
    bool removed = false;
    std::string bytes;
    std::optional<PendingUpdate> pending;
    std::string pending_bytes;
    std::set<uint32_t> damaged;  // blocks
  };
  const std::map<ChainChunk, Chunk>& chunks() const { return now_.chunks; }

  // Silently. Nothing happens to a block that is not there; whether a power cut undoes it is
  // chance.
  void damage(const ChainChunk& at, uint32_t block) {
    if (!now_.chunks.contains(at)) return;
    apply(at, [at, block](Content& content) {
      Chunk& chunk = content.chunks[at];
      const size_t begin = block * limits::kBlockBytes;
      if (chunk.bytes.size() <= begin) return;
      const size_t length = std::min<size_t>(limits::kBlockBytes, chunk.bytes.size() - begin);
      std::fill_n(chunk.bytes.begin() + static_cast<ptrdiff_t>(begin), length, '\0');
      chunk.damaged.insert(block);
    });
  }

 private:
  friend class FakeChainStore;
  using SlotKey = std::tuple<ChainId, uint32_t, uint32_t>;
  struct Content {
    std::map<ChainChunk, Chunk> chunks;
    std::map<SlotKey, SlotRecord> slots;
  };
  using Step = std::function<void(Content&)>;
  struct Applied {
    uint64_t number = 0;
    ChainChunk at;
    Step step;
  };

  void apply(const ChainChunk& at, Step step) {
    step(now_);
    steps_.push_back({++applied_, at, std::move(step)});
  }
  // What a process left, and no power cut took, a new one makes durable before it shows it.
  void open() {
    durable_ = now_;
    steps_.clear();
  }
  // Everything that was done to the chunk, up to the step with this number, is on the disk.
  void make_durable(const ChainChunk& at, uint64_t number) {
    std::erase_if(steps_, [&](Applied& one) {
      const bool is_due = one.at == at && one.number <= number;
      if (is_due) one.step(durable_);
      return is_due;
    });
  }

  Content now_, durable_;
  std::deque<Applied> steps_;  // not durable, in their order
  uint64_t applied_ = 0;
};

class FakeChainStore final : public ChainStore {
 public:
  FakeChainStore(FakeChainImage& image, engine::Loop& loop) : image_(image), loop_(loop) {
    image_.open();
  }
  ~FakeChainStore() override { ASSERT(waiting_.empty()); }

  // How long an operation takes.
  engine::Duration delay_max = std::chrono::microseconds(300);
  engine::Duration stall{};  // and so much longer
  // What it holds, in whole blocks.
  uint64_t capacity = kTiB;
  // Decides the fate of the next prepare or replace.
  std::function<Status()> fault = [] { return Status(Code::ok); };

  // The process dies: what is under way ends with closed, and nothing has an effect any more. What
  // is asked for later ends so, too.
  void die() {
    dead_ = true;
    for (const auto& [op, waiting] : std::exchange(waiting_, {})) {
      loop_.cancel(waiting->timer);
      loop_.complete(*op, Code::closed);
    }
  }

  void submit(PrepareOp& op) override {
    if (dead_) return loop_.complete(op, Code::closed);
    if (const Status status = fault(); !status.ok()) return later(op, [status] { return status; });
    PendingUpdate update{op.at, op.name, {op.parts.begin(), op.parts.end()}};
    std::string bytes(reinterpret_cast<const char*>(op.bytes.data), op.bytes.length);
    ASSERT(bytes.size() == update_bytes(update.parts));
    ASSERT(!image_.now_.chunks[op.at].pending.has_value());
    if (bytes.size() > room()) return later(op, [] { return Status(Code::no_space); });
    if (!op.keep_damage && keeps_damaged(image_.now_.chunks[op.at], update.parts)) {
      return later(op, [] { return Status(Code::corrupt); });
    }
    change(op, op.at, [update, bytes](FakeChainImage::Content& content) {
      FakeChainImage::Chunk& chunk = content.chunks[update.at];
      chunk.pending = update;
      chunk.pending_bytes = bytes;
    });
  }

  void submit(LookOp& op) override {
    const auto found = image_.now_.chunks.find(op.at);
    op.state = found == image_.now_.chunks.end() ? ChunkState{} : state_of(found->second);
    later(op, [] { return Status(Code::ok); });
  }

  void submit(CopyReadOp& op) override {
    const auto found = image_.now_.chunks.find(op.at);
    std::string bytes = found == image_.now_.chunks.end() ? "" : found->second.bytes;
    const uint64_t end = op.begin + op.destination.length;
    const bool has_hole = bytes.size() < end;
    op.damaged.clear();
    op.state = {};
    if (found != image_.now_.chunks.end()) {
      op.state = state_of(found->second);
      op.damaged = damaged_in(found->second, op.begin, static_cast<uint32_t>(end));
    }
    if (has_hole && op.refuse_holes) return later(op, [] { return Status(Code::no_data); });
    if (!op.damaged.empty() && !op.list_damage) {
      return later(op, [] { return Status(Code::corrupt); });
    }
    bytes.resize(std::max<uint64_t>(bytes.size(), end));
    for (const uint32_t block : op.damaged) {
      const size_t at = block * limits::kBlockBytes;
      bytes.replace(at, std::min<size_t>(limits::kBlockBytes, bytes.size() - at),
                    std::min<size_t>(limits::kBlockBytes, bytes.size() - at), '\0');
    }
    later(op, [&op, bytes] {
      std::memcpy(op.destination.data, bytes.data() + op.begin, op.destination.length);
      return Status(Code::ok);
    });
  }

  void submit(PendingReadOp& op) override {
    const auto found = image_.now_.chunks.find(op.at);
    if (found == image_.now_.chunks.end() || !found->second.pending) {
      return later(op, [] { return Status(Code::not_found); });
    }
    const std::string& bytes = found->second.pending_bytes;
    ASSERT(bytes.size() == op.destination.length);
    if (!bytes.empty()) std::memcpy(op.destination.data, bytes.data(), bytes.size());
    later(op, [] { return Status(Code::ok); });
  }

  void submit(ListOp& op) override {
    op.entries.clear();
    const auto& chunks = image_.now_.chunks;
    for (auto it = chunks.lower_bound(op.from); it != chunks.end(); ++it) {
      if (it->first.chain != op.from.chain || op.entries.size() == op.limit) break;
      op.entries.push_back({it->first.chunk, state_of(it->second)});
    }
    later(op, [] { return Status(Code::ok); });
  }

  void submit(ReplaceOp& op) override {
    if (dead_) return loop_.complete(op, Code::closed);
    if (const Status status = fault(); !status.ok()) return later(op, [status] { return status; });
    ASSERT(op.bytes.length == op.state.length);
    std::string bytes(reinterpret_cast<const char*>(op.bytes.data), op.bytes.length);
    std::vector<SlotRecord> slots(op.slots.begin(), op.slots.end());
    const std::set<uint32_t> damaged(op.damaged.begin(), op.damaged.end());
    change(op, op.at,
           [at = op.at, state = op.state, bytes, slots, damaged](FakeChainImage::Content& content) {
             if (state.committed == UpdateName{}) {
               content.chunks.erase(at);
             } else {
               content.chunks[at] = {state.committed, state.removed, bytes, std::nullopt, "",
                                     damaged};
             }
             for (const SlotRecord& slot : slots) keep(content, slot);
           });
  }

  void submit(HealOp& op) override {
    if (dead_) return loop_.complete(op, Code::closed);
    if (const Status status = fault(); !status.ok()) return later(op, [status] { return status; });
    ASSERT(op.bytes.length == op.blocks.size() * limits::kBlockBytes);
    const auto found = image_.now_.chunks.find(op.at);
    const bool same = found != image_.now_.chunks.end() && found->second.committed == op.committed;
    if (!same) return later(op, [] { return Status(Code::stale); });
    const std::vector<uint32_t> blocks(op.blocks.begin(), op.blocks.end());
    const std::string bytes(reinterpret_cast<const char*>(op.bytes.data), op.bytes.length);
    change(op, op.at, [at = op.at, blocks, bytes](FakeChainImage::Content& content) {
      FakeChainImage::Chunk& chunk = content.chunks[at];
      for (size_t i = 0; i < blocks.size(); ++i) {
        const size_t begin = blocks[i] * limits::kBlockBytes;
        if (begin >= chunk.bytes.size()) continue;
        const size_t length = std::min<size_t>(limits::kBlockBytes, chunk.bytes.size() - begin);
        chunk.bytes.replace(begin, length, bytes, i * limits::kBlockBytes, length);
        chunk.damaged.erase(blocks[i]);
      }
    });
  }

  uint64_t room() const override {
    uint64_t used = 0;
    for (const auto& [at, chunk] : image_.now_.chunks) {
      used += align_up(chunk.bytes.size(), limits::kBlockBytes);
      used += align_up(chunk.pending_bytes.size(), limits::kBlockBytes);
    }
    return used < capacity ? capacity - used : 0;
  }

  void set_healer(Healer healer) override { healer_ = std::move(healer); }
  // Tells the healer of all that is damaged, as a scrub does; `ended` runs when it has been heard
  // of everything.
  void scrub(std::function<void()> ended) {
    auto left = std::make_shared<size_t>(1);
    const auto one_less = [left, ended = std::move(ended)](bool) {
      if (--*left == 0) ended();
    };
    std::vector<std::pair<ChainChunk, uint32_t>> all;
    for (const auto& [at, chunk] : image_.now_.chunks) {
      for (const uint32_t block : chunk.damaged) all.emplace_back(at, block);
    }
    for (const auto& [at, block] : all) {
      ++*left;
      healer_ ? healer_(at, block, one_less) : one_less(false);
    }
    one_less(false);
  }

  void commit(const ChainChunk& at) override {
    if (dead_) return;
    ASSERT(image_.now_.chunks.at(at).pending.has_value());
    image_.apply(at, [at](FakeChainImage::Content& content) {
      FakeChainImage::Chunk& chunk = content.chunks[at];
      const PendingUpdate update = *std::exchange(chunk.pending, std::nullopt);
      if (drops(update.parts)) {
        content.chunks.erase(at);
        return;
      }
      size_t taken = 0;
      for (const UpdatePart& part : update.parts) {
        mend(chunk, part);
        perform(chunk, part, chunk.pending_bytes, taken);
        keep(content, {part.request, at, update.name});
      }
      chunk.pending_bytes.clear();
      chunk.committed = update.name;
    });
  }

  void forget(const ChainChunk& at, engine::Op* durable = nullptr) override {
    const auto step = [at](FakeChainImage::Content& content) {
      content.chunks[at].pending.reset();
      content.chunks[at].pending_bytes.clear();
    };
    if (durable != nullptr) {
      if (dead_) return loop_.complete(*durable, Code::closed);
      return change(*durable, at, step);
    }
    if (!dead_) image_.apply(at, step);
  }

  std::vector<PendingUpdate> pending(ChainId chain) const override {
    std::vector<PendingUpdate> all;
    for (const auto& [at, chunk] : image_.now_.chunks) {
      if (at.chain == chain && chunk.pending) all.push_back(*chunk.pending);
    }
    return all;
  }
  std::optional<SlotRecord> slot(ChainId chain, NodeId node, uint32_t slot) const override {
    const auto found = image_.now_.slots.find({chain, node.value, slot});
    if (found == image_.now_.slots.end()) return std::nullopt;
    return found->second;
  }
  std::vector<SlotRecord> slots_of(const ChainChunk& at) const override {
    std::vector<SlotRecord> found;
    for (const auto& [key, record] : image_.now_.slots) {
      if (record.at == at) found.push_back(record);
    }
    return found;
  }

 private:
  struct Waiting {
    engine::Timer timer;
    std::function<Status()> then;
    FakeChainStore* store = nullptr;
    engine::Op* op = nullptr;
  };

  static ChunkState state_of(const FakeChainImage::Chunk& chunk) {
    return {chunk.committed, chunk.removed, static_cast<uint32_t>(chunk.bytes.size())};
  }

  static void keep(FakeChainImage::Content& content, const SlotRecord& record) {
    const RequestId& request = record.request;
    SlotRecord& known = content.slots[{record.at.chain, request.node, request.slot}];
    const std::pair age(request.incarnation, request.sequence);
    if (std::pair(known.request.incarnation, known.request.sequence) < age) known = record;
  }

  static void perform(FakeChainImage::Chunk& chunk, const UpdatePart& part,
                      const std::string& bytes, size_t& taken) {
    if (part.kind == UpdateKind::remove) {
      chunk.bytes.clear();
      chunk.removed = true;
      return;
    }
    chunk.removed = false;
    if (part.kind == UpdateKind::write) {
      chunk.bytes.resize(std::max<size_t>(chunk.bytes.size(), part.end));
      chunk.bytes.replace(part.begin, part.end - part.begin, bytes, taken, part.end - part.begin);
      taken += part.end - part.begin;
    } else if (part.begin < chunk.bytes.size()) {
      if (part.end == kWholeChunk) return chunk.bytes.resize(part.begin);
      const size_t end = std::min<size_t>(part.end, chunk.bytes.size());
      std::fill(chunk.bytes.begin() + part.begin, chunk.bytes.begin() + static_cast<ptrdiff_t>(end),
                '\0');
    }
  }

  static std::vector<uint32_t> damaged_in(const FakeChainImage::Chunk& chunk, uint32_t begin,
                                          uint32_t end) {
    const auto first = static_cast<uint32_t>(begin / limits::kBlockBytes);
    const auto last = static_cast<uint32_t>((end - 1) / limits::kBlockBytes);
    return {chunk.damaged.lower_bound(first), chunk.damaged.upper_bound(last)};
  }

  // Whether a part of the block stays as it was when [begin, end) is new.
  static bool stays_partly(uint32_t block, uint64_t begin, uint64_t end) {
    const uint64_t first = block * limits::kBlockBytes;
    const uint64_t last = first + limits::kBlockBytes;
    return first < end && last > begin && (first < begin || last > end);
  }
  static std::pair<uint64_t, uint64_t> range_of(const UpdatePart& part) {
    const bool all = takes_all(part.kind);
    return {all ? 0 : part.begin, all || part.end == kWholeChunk ? UINT64_MAX : part.end};
  }
  static bool keeps_damaged(const FakeChainImage::Chunk& chunk,
                            const std::vector<UpdatePart>& parts) {
    for (const uint32_t block : chunk.damaged) {
      for (const UpdatePart& part : parts) {
        const auto [begin, end] = range_of(part);
        if (stays_partly(block, begin, end)) return true;
      }
    }
    return false;
  }
  // What is new as a whole is damaged no more.
  static void mend(FakeChainImage::Chunk& chunk, const UpdatePart& part) {
    const auto [begin, end] = range_of(part);
    std::erase_if(chunk.damaged, [&, begin = begin, end = end](uint32_t block) {
      const uint64_t first = block * limits::kBlockBytes;
      return begin <= first && first + limits::kBlockBytes <= end;
    });
  }

  // On its way at once, and durable after a while, with all that was done to the chunk before.
  void change(engine::Op& op, const ChainChunk& at, FakeChainImage::Step step) {
    image_.apply(at, std::move(step));
    later(op, [this, at, number = image_.applied_] {
      image_.make_durable(at, number);
      return Status(Code::ok);
    });
  }

  void later(engine::Op& op, std::function<Status()> then) {
    if (dead_) return loop_.complete(op, Code::closed);
    auto waiting = std::make_unique<Waiting>();
    waiting->then = std::move(then);
    waiting->store = this;
    waiting->op = &op;
    waiting->timer.owner = waiting.get();
    waiting->timer.completion = [](engine::Op& due) {
      auto& self = due.owner_as<Waiting>();
      const auto mine = self.store->waiting_.extract(self.op);
      mine.mapped()->op->status = mine.mapped()->then();
      mine.mapped()->op->completion(*mine.mapped()->op);
    };
    const int64_t most = delay_max.count();
    const engine::Duration delay =
        stall + engine::Duration(loop_.random().below(static_cast<uint64_t>(most) + 1));
    loop_.start(waiting->timer, loop_.now() + delay);
    waiting_.emplace(&op, std::move(waiting));
  }

  FakeChainImage& image_;
  engine::Loop& loop_;
  std::map<engine::Op*, std::unique_ptr<Waiting>> waiting_;
  bool dead_ = false;
  Healer healer_;
};

}  // namespace penstock::store
