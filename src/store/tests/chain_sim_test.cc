// Random work on the chains of a target over simulated disk and database, with crashes and faults,
// against a history of each chunk's states. PENSTOCK_SEED and PENSTOCK_SEEDS choose the runs.
#include "chain_history.h"
#include "plain_writes.h"

#include <cstdlib>
#include <map>

namespace penstock::store {
namespace {

constexpr uint32_t kLength = 600 * kKiB;
constexpr size_t kDepth = 6;

class ChainSimulation {
 public:
  explicit ChainSimulation(uint64_t seed) : random_(mix64(seed)), rig_(seed, options()) {
    for (uint32_t i = 0; i < 5; ++i) {
      ChainHistory& history = histories_.emplace_back();
      history.at = {ChainId(1 + i / 3), {InodeId(1 + i), i}};
    }
    rough_ = random_.chance(1, 3);
    breaking_ = rough_ && random_.chance(1, 3);
    slow_ = random_.chance(1, 3);
    mixed_ = random_.chance(1, 2);
  }

  std::string run() {
    log::set_level(log::Level::off);
    if (!rig_.begin()) return rig_.refusal.message;
    for (int life = 0; life < 5 && complaint_.empty(); ++life) {
      set_faults(true);
      work(40 + random_.below(150));
      const bool power = random_.chance(1, 2);
      end_life(power);
      if (complaint_.empty()) verify_all();
    }
    if (complaint_.empty()) {
      work(100);
      rig_.world.run_until([&] { return under_way_ == 0 && plain_.idle(); });
      come_to_rest();
      note_log();
    }
    rig_.crash(true);
    log::set_level(log::Level::warning);
    return complaint_;
  }
  uint64_t trace_hash() const { return rig_.world.trace_hash(); }
  uint64_t updates() const { return updates_; }
  // Prepares and plain writes that went to the log, and records that openings brought back.
  uint64_t logged() const { return logged_; }
  uint64_t replayed() const { return replayed_; }

 private:
  struct Call {
    ChainSimulation* self = nullptr;
    ChainHistory* history = nullptr;
    std::string bytes;
    std::vector<std::byte> memory;
    std::vector<UpdatePart> parts;
    size_t step = 0;  // of the chunk, which state this leads to
    PrepareOp prepare;
    ReplaceOp replace;
    CopyReadOp read;
    LookOp look;
    ListOp list;
    ChainState seen;
    bool dead = false;
  };

  RigOptions options() {
    RigOptions options;
    options.map_cache_bytes = random_.chance(1, 3) ? kMiB : random_.chance(1, 2) ? 32 * kKiB : 1;
    options.capacity_bytes = random_.chance(1, 4) ? 6 * kMiB : 64 * kMiB;
    constexpr uint64_t kLogs[] = {0, 64 * kKiB, 256 * kKiB, kMiB};
    options.log_bytes = kLogs[random_.below(std::size(kLogs))];
    options.log_after = random_.chance(1, 2) ? 1 : 8;
    options.defragment.enabled = random_.chance(1, 2);
    options.defragment.wait = std::chrono::milliseconds(1);
    return options;
  }

  void set_faults(bool on) {
    const bool rough = on && rough_;
    rig_.platter.faults.read_error_permille = rough ? 5 : 0;
    rig_.platter.faults.write_error_permille = rough ? 5 : 0;
    rig_.records.faults.conflict_permille = rough ? 50 : 0;
    rig_.records.faults.unknown_commit_permille = rough ? 50 : 0;
    rig_.records.faults.read_error_permille = rough ? 5 : 0;
    rig_.platter.faults.sync_error_permille = on && breaking_ ? 10 : 0;
    if (slow_) rig_.records.faults.delay_max = std::chrono::milliseconds(on ? 5 : 1);
  }

  ChainStore& store() { return rig_.target().chains(); }
  void complain(const std::string& what) {
    if (complaint_.empty()) complaint_ = what;
  }

  // What it leads to, and all of its chunk before that, cannot be taken back by a crash any more.
  static void note_durable(const Call& done) {
    done.history->durable = std::max(done.history->durable, done.step);
  }

  Call& call(ChainHistory& history) {
    Call& made = *calls_.emplace_back(std::make_unique<Call>());
    made.self = this;
    made.history = &history;
    ++under_way_;
    return made;
  }

  std::string some_bytes(size_t length) {
    std::string bytes(length, '\0');
    const uint64_t salt = random_.next();
    for (size_t i = 0; i < length; ++i) {
      bytes[i] = static_cast<char>(1 + (salt >> (i / 512 % 7 * 8)) % 250 + i / 4096 % 5);
    }
    return bytes;
  }

  // Which way a read takes depends on the address, and must not on the allocator's mood.
  engine::MemoryRef memory(std::vector<std::byte>& buffer, size_t length) {
    constexpr uint32_t kSkews[] = {0, 0, 512, 1};
    buffer.assign(length + 8192, std::byte{'?'});
    const auto address = reinterpret_cast<uintptr_t>(buffer.data());
    const uint64_t skew = kSkews[random_.below(std::size(kSkews))];
    return {buffer.data() + (align_up(address, 4096) - address) + skew, length, engine::kNoBuffer,
            engine::MemoryKind::host};
  }

  std::vector<UpdatePart> some_parts() {
    std::vector<UpdatePart> parts;
    for (uint64_t i = 1 + random_.below(3); i > 0; --i) {
      const uint64_t most = uint64_t{1} << random_.below(18);
      auto begin = static_cast<uint32_t>(random_.below(kLength - 1));
      if (random_.chance(1, 2)) begin = static_cast<uint32_t>(align_down(begin, 4096));
      auto end =
          static_cast<uint32_t>(std::min<uint64_t>(kLength, begin + 1 + random_.below(most)));
      const RequestId request = {1, ++sequence_, 9, static_cast<uint32_t>(random_.below(6))};
      const uint64_t kind = random_.below(12);
      if (kind == 0) {
        parts.push_back(remove_part(request));
      } else if (kind < 4) {
        parts.push_back(clear_part(begin, random_.chance(1, 2) ? kWholeChunk : end, request));
      } else {
        parts.push_back(write_part(begin, end, request));
      }
    }
    return parts;
  }

  template <class Operation>
  void submit(Call& call, Operation& op, void (*ended)(Call&, Status)) {
    op.owner = &call;
    call.seen = call.history->now();
    completions_[&op] = {&call, ended};
    op.completion = [](engine::Op& done) {
      Call& its = done.owner_as<Call>();
      const auto found = its.self->completions_.extract(&done);
      --its.self->under_way_;
      if (!its.dead) found.mapped().second(its, done.status);
    };
    store().submit(op);
  }

  void prepare(ChainHistory& history) {
    Call& its = call(history);
    const bool drops_it = history.now().removed && random_.chance(1, 2);
    its.parts = drops_it ? std::vector{drop_part({1, ++sequence_, 9, 51})} : some_parts();
    its.bytes = some_bytes(update_bytes(its.parts));
    const UpdateName name{5, ++history.counter, its.parts[0].request};
    ChainState& next = history.next();
    next.pending = PendingUpdate{history.at, name, its.parts};
    next.pending_bytes = its.bytes;
    its.step = history.states.size() - 1;
    history.busy = true;
    its.prepare.at = history.at;
    its.prepare.name = name;
    its.prepare.parts = its.parts;
    its.prepare.bytes = memory_of(its.bytes);
    submit(its, its.prepare,
           [](Call& done, Status status) { done.self->on_prepared(done, status); });
  }
  void on_prepared(Call& done, Status status) {
    ChainHistory& history = *done.history;
    history.busy = false;
    ++updates_;
    if (status.ok()) return note_durable(done);
    if (rig_.target().status().failed) return;
    if (!rough_ && status.code() != Code::no_space) {
      complain(fmt::format("a prepare ended with {}", status.name()));
    }
    ChainState& next = history.next();
    next.pending.reset();
    next.pending_bytes.clear();
  }

  void commit(ChainHistory& history) {
    ChainState& next = history.next();
    size_t taken = 0;
    const PendingUpdate update = *std::exchange(next.pending, std::nullopt);
    for (const UpdatePart& part : update.parts) {
      perform(next, part, next.pending_bytes, taken);
    }
    next.done = update.parts;
    next.committed = update.name;
    next.pending_bytes.clear();
    if (drops(update.parts)) {
      next = ChainState{};
      history.counter = 0;
    }
    store().commit(history.at);
  }
  void forget(ChainHistory& history) {
    ChainState& next = history.next();
    next.pending.reset();
    next.pending_bytes.clear();
    store().forget(history.at);
  }

  void replace(ChainHistory& history) {
    Call& its = call(history);
    ChainState& next = history.next();
    next = ChainState{};
    if (!random_.chance(1, 5)) {
      next.committed = {6, ++history.counter, {1, ++sequence_, 9, 50}};
      next.removed = random_.chance(1, 4);
      if (!next.removed) next.bytes = some_bytes(random_.below(kLength));
    }
    its.bytes = next.bytes;
    its.step = history.states.size() - 1;
    history.busy = true;
    its.replace.at = history.at;
    its.replace.state = {next.committed, next.removed, static_cast<uint32_t>(next.bytes.size())};
    its.replace.bytes = memory_of(its.bytes);
    submit(its, its.replace,
           [](Call& done, Status status) { done.self->on_replaced(done, status); });
  }
  // One that failed may have happened or not; the chunk is not used before the next life.
  void on_replaced(Call& done, Status status) {
    if (status.ok()) {
      done.history->busy = false;
      return note_durable(done);
    }
    if (!rough_ && status.code() != Code::no_space && !rig_.target().status().failed) {
      complain(fmt::format("a replacement ended with {}", status.name()));
    }
  }

  void read(ChainHistory& history) {
    Call& its = call(history);
    const auto begin = static_cast<uint32_t>(random_.below(kLength - 1));
    const uint64_t length = 1 + random_.below(std::min<uint64_t>(kLength - begin, 100'000));
    its.read.at = history.at;
    its.read.begin = begin;
    its.read.destination = memory(its.memory, length);
    submit(its, its.read, [](Call& done, Status status) { done.self->on_read(done, status); });
  }
  void on_read(Call& done, Status status) {
    if (!status.ok()) {
      if (!rough_) complain(fmt::format("a read ended with {}", status.name()));
      return;
    }
    std::string expected = done.seen.bytes;
    const engine::MemoryRef memory = done.read.destination;
    expected.resize(std::max<size_t>(expected.size(), done.read.begin + memory.length));
    if (std::memcmp(memory.data, expected.data() + done.read.begin, memory.length) != 0) {
      complain("a read shows what was not committed when it was asked");
    }
  }

  void look(ChainHistory& history) {
    Call& its = call(history);
    its.look.at = history.at;
    submit(its, its.look, [](Call& done, Status status) {
      if (!status.ok()) return done.self->expect_rough(status);
      done.self->compare(done.seen, done.look.state);
    });
  }
  void compare(const ChainState& expected, const ChunkState& seen) {
    const bool same = seen.committed == expected.committed && seen.removed == expected.removed &&
                      seen.length == expected.bytes.size();
    if (!same) {
      complain(fmt::format("a look shows counter {} and length {}, not {} and {}",
                           seen.committed.counter, seen.length, expected.committed.counter,
                           expected.bytes.size()));
    }
  }
  void expect_rough(Status status) {
    if (!rough_) complain(fmt::format("an operation ended with {}", status.name()));
  }

  void step() {
    if (mixed_ && random_.chance(1, 4)) return plain_.step(rig_.target(), random_);
    ChainHistory& history = histories_[random_.below(histories_.size())];
    if (history.busy) return;
    const bool pending = history.now().pending.has_value();
    switch (random_.below(12)) {
      case 0:
      case 1:
        return read(history);
      case 2:
        return look(history);
      case 3:
        return random_.chance(1, 4) ? replace(history) : look(history);
      default:
        if (!pending) return prepare(history);
        return random_.chance(1, 5) ? forget(history) : commit(history);
    }
  }

  void work(uint64_t steps) {
    for (uint64_t i = 0; i < steps && complaint_.empty(); ++i) {
      if (rig_.target().status().failed) return;
      step();
      rig_.world.run_until([&] { return under_way_ < kDepth; });
      if (random_.chance(1, 3)) {
        rig_.world.run_for(std::chrono::microseconds(random_.below(2000)));
      }
    }
  }

  void end_life(bool power) {
    for (const auto& its : calls_) its->dead = true;
    set_faults(false);
    note_log();
    rig_.crash(power);
    plain_.crashed();
    calls_.clear();
    completions_.clear();
    under_way_ = 0;
    for (int opening = 0; opening < 3; ++opening) {
      const engine::Duration most = std::chrono::microseconds(1 + random_.below(3000));
      if (random_.chance(1, 2) && rig_.begin_or_crash(most, power)) return;
    }
    if (!rig_.begin()) complain(rig_.refusal.message);
  }

  void note_log() {
    logged_ += rig_.core().counters.logged.value();
    replayed_ += rig_.core().counters.replayed.value();
  }

  template <class Operation>
  Status run_one(Operation& op) {
    bool done = false;
    op.owner = &done;
    op.completion = [](engine::Op& ended) { ended.owner_as<bool>() = true; };
    store().submit(op);
    rig_.world.run_until([&] { return done; });
    return op.status;
  }

  // Each chunk is what it was after some step, and none that was durable is missing.
  void verify_all() {
    for (ChainHistory& history : histories_) verify(history);
    if (const std::string wrong = plain_.verify(rig_); !wrong.empty()) complain(wrong);
  }
  void verify(ChainHistory& history) {
    LookOp look;
    look.at = history.at;
    if (!run_one(look).ok()) return complain("a look failed after a crash");
    std::optional<PendingUpdate> pending;
    for (PendingUpdate& one : store().pending(history.at.chain)) {
      if (one.at == history.at) pending = std::move(one);
    }
    for (size_t i = history.states.size(); i-- > history.durable;) {
      const ChainState& state = history.states[i];
      const bool same_pending = state.pending.has_value() == pending.has_value() &&
                                (!pending || pending->name == state.pending->name);
      if (!same_pending || state.committed != look.state.committed ||
          state.removed != look.state.removed || state.bytes.size() != look.state.length) {
        continue;
      }
      const ChainState found = state;
      verify_bytes(history, found);
      verify_slots(history, found);
      history.states = {found};
      history.durable = 0;
      history.busy = false;
      return;
    }
    complain(fmt::format(
        "after a crash inode {} has counter {}, {} bytes and pending {}: not one of its steps from "
        "{} to {}",
        history.at.chunk.inode.value, look.state.committed.counter, look.state.length,
        pending ? pending->name.counter : 0, history.durable, history.states.size() - 1));
  }
  // The requests of an update last as it does, unless its slots have newer ones.
  void verify_slots(const ChainHistory& history, const ChainState& state) {
    for (const UpdatePart& part : state.done) {
      const auto slot = store().slot(history.at.chain, NodeId(9), part.request.slot);
      if (!slot || slot->request.sequence < part.request.sequence) {
        return complain("a slot does not know the request of a committed update");
      }
      if (slot->request.sequence > sequence_) complain("a slot knows a request of nobody");
      if (slot->request == part.request && slot->name != state.committed) {
        complain("a slot has another name than the update of its request");
      }
    }
  }
  void verify_bytes(const ChainHistory& history, const ChainState& state) {
    std::vector<std::byte> bytes;
    CopyReadOp read;
    read.at = history.at;
    read.destination = memory(bytes, kLength);
    if (!run_one(read).ok()) return complain("a read failed after a crash");
    std::string expected = state.bytes;
    expected.resize(kLength);
    if (std::memcmp(read.destination.data, expected.data(), kLength) != 0)
      complain("the bytes after a crash are not those of the name");
    if (!state.pending) return;
    std::vector<std::byte> buffer;
    PendingReadOp op;
    op.at = history.at;
    op.destination = memory(buffer, state.pending_bytes.size());
    if (!run_one(op).ok()) return complain("a pending update cannot be read");
    const std::string pending(reinterpret_cast<const char*>(op.destination.data),
                              op.destination.length);
    // Bytes that a later part hides may be anything: what counts is the effect.
    ChainState one = state, other = state;
    size_t taken = 0, taken_too = 0;
    for (const UpdatePart& part : state.pending->parts) {
      perform(one, part, pending, taken);
      perform(other, part, state.pending_bytes, taken_too);
    }
    if (one.bytes != other.bytes) complain("a pending update has other bytes than it was given");
  }

  void come_to_rest() {
    SyncOp sync;
    bool done = false;
    sync.owner = &done;
    sync.completion = [](engine::Op& ended) { ended.owner_as<bool>() = true; };
    rig_.target().set_defragment(false);
    rig_.target().submit(sync);
    rig_.world.run_until([&] { return done; });
    rig_.world.run_for(std::chrono::milliseconds(500));
    verify_all();
    const Core& core = rig_.core();
    const uint64_t used = core.allocator.total_blocks() - core.allocator.free_blocks();
    if (used != core.mapped_blocks) {
      complain(fmt::format("{} blocks are taken, and {} have a name", used, core.mapped_blocks));
    }
    verify_lists();
  }
  void verify_lists() {
    for (const uint32_t chain : {1, 2}) {
      ListOp list;
      list.from = {ChainId(chain), {}};
      list.limit = 100;
      if (!run_one(list).ok()) return complain("a list failed");
      std::map<ChunkId, UpdateName> expected;
      for (ChainHistory& one : histories_) {
        if (one.at.chain.value == chain && one.now().committed != UpdateName{}) {
          expected[one.at.chunk] = one.now().committed;
        }
      }
      std::map<ChunkId, UpdateName> seen;
      for (const ListEntry& one : list.entries) seen[one.chunk] = one.state.committed;
      if (seen != expected) complain("a list names other chunks than there are");
    }
  }

  engine::SeededRandom random_;
  Rig rig_;
  bool rough_ = false;
  bool breaking_ = false;
  bool slow_ = false;
  bool mixed_ = false;  // with plain writes
  PlainWrites plain_{3};
  std::deque<ChainHistory> histories_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::map<engine::Op*, std::pair<Call*, void (*)(Call&, Status)>> completions_;
  size_t under_way_ = 0;
  uint64_t sequence_ = 0;
  uint64_t updates_ = 0;
  uint64_t logged_ = 0;
  uint64_t replayed_ = 0;
  std::string complaint_;
};

uint64_t number_from(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(ChainSim, shows_whole_updates_whatever_happens) {
  const uint64_t first = number_from("PENSTOCK_SEED", 1);
  const uint64_t count = number_from("PENSTOCK_SEEDS", 60);
  uint64_t updates = 0, logged = 0, replayed = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    ChainSimulation simulation(seed);
    EXPECT_EQ(simulation.run(), "") << "PENSTOCK_SEED=" << seed << " PENSTOCK_SEEDS=1";
    updates += simulation.updates();
    logged += simulation.logged();
    replayed += simulation.replayed();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(updates, count * 20) << "prepares that ended";
  if (count < 20) return;
  EXPECT_GT(logged, count * 20);
  EXPECT_GT(replayed, count * 5);
}

TEST(ChainSim, is_the_same_for_the_same_seed) {
  const auto hash = [] {
    const auto simulation = std::make_unique<ChainSimulation>(77);
    EXPECT_EQ(simulation->run(), "");
    return simulation->trace_hash();
  };
  EXPECT_EQ(hash(), hash());
}

}  // namespace
}  // namespace penstock::store
