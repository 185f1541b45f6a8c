// Random work on a target over simulated disk and database, with crashes and faults, checked
// against a history of every byte. PENSTOCK_SEED and PENSTOCK_SEEDS choose the runs.
#include "history.h"
#include "rig.h"

#include <algorithm>
#include <set>

namespace penstock::store {
namespace {

constexpr uint32_t kChunkLength = 640 * kKiB;
constexpr uint32_t kDepthMax = 12;
const ChunkId kChunks[] = {
    {InodeId(1), 0}, {InodeId(1), 1}, {InodeId(2), 0}, {InodeId(2), 7}, {InodeId(300), 2}};
constexpr size_t kChunkCount = std::size(kChunks);

// What may go wrong in a run besides crashes.
enum class Weather { fair, tight, rough, breaking, silent, full };

class Simulation {
 public:
  Simulation(uint64_t seed, RigOptions options, Weather weather)
      : rig_(seed, options),
        weather_(weather),
        defragment_(options.defragment.enabled),
        histories_(kChunkCount, ChunkHistory(kChunkLength)) {
    rig_.kv_fills_up = weather == Weather::full;
    // Many things at the same instant.
    if (seed % 4 == 3) rig_.platter.faults.latency_max = rig_.platter.faults.latency_min;
    // Or a disk that is slow beside the database: blocks are freed and used again while one reads.
    if (seed % 4 == 1) rig_.platter.faults.latency_max = std::chrono::milliseconds(3);
    for (auto& slot : slots_) slot = std::make_unique<Slot>(*this);
    // Much for the log, and commits that take longer than many records.
    small_ = options.log_bytes != 0 && random().chance(1, 2);
    if (small_ && random().chance(1, 2)) {
      rig_.records.faults.delay_max = std::chrono::milliseconds(random().below(2) == 0 ? 3 : 20);
    }
  }

  std::string run(int lives);
  uint64_t trace_hash() const { return rig_.world.trace_hash(); }
  uint64_t operations() const { return operations_; }
  uint64_t failures() const { return failures_; }
  uint64_t moved() const { return moved_; }
  uint64_t logged() const { return logged_; }
  uint64_t records() const { return records_; }
  uint64_t replayed() const { return replayed_; }

 private:
  enum class Kind { read, write, clear, remove, sync, end_query, scrub };

  struct Slot {
    explicit Slot(Simulation& its) : simulation(its) {}
    Simulation& simulation;
    bool busy = false;
    Kind kind = Kind::read;
    uint64_t started = 0;
    // The updates of it: chunk and name.
    std::vector<std::pair<size_t, uint64_t>> updates;
    size_t chunk = 0;
    std::vector<std::byte> memory;
    ReadOp read;
    WriteOp write;
    ClearOp clear;
    RemoveOp remove;
    SyncOp sync;
    EndQueryOp end_query;
    ScrubOp scrub;
  };

  engine::Random& random() { return rig_.world.random(); }
  void set_faults(bool on);
  void refill();
  void start(Slot& slot);
  void start_write(Slot& slot);
  void start_read(Slot& slot);
  void start_clear(Slot& slot);
  void start_remove(Slot& slot);
  std::pair<uint32_t, uint32_t> pick_range();
  uint64_t pick_kind();
  std::byte* pick_memory(Slot& slot, uint32_t length);
  template <class Operation>
  void submit(Slot& slot, Operation& op);
  void on_end(Slot& slot, engine::Op& op);
  void on_read(Slot& slot, Status status);
  void on_update(Slot& slot, Status status, bool durable);
  void on_durable(InodeId inode, uint64_t time);
  bool work(uint64_t count);
  void read_after_failure();
  void crash();
  void verify_after_crash();
  bool come_to_rest();
  void verify_space();
  void verify_scrub();
  // Whether nothing may fail but for lack of space.
  bool calm() const {
    return weather_ == Weather::fair || weather_ == Weather::tight || weather_ == Weather::full;
  }
  void complain(const std::string& what) {
    if (complaint_.empty()) complaint_ = what;
  }

  Rig rig_;
  const Weather weather_;
  const bool defragment_;
  bool small_ = false;  // mostly small durable writes
  std::vector<ChunkHistory> histories_;
  std::array<std::unique_ptr<Slot>, kDepthMax> slots_;
  uint32_t depth_ = 1;
  bool stopping_ = false;
  bool down_ = false;  // what ends now ended with the process
  uint64_t now_ = 1;
  uint64_t durable_since_ = 0;  // when something became durable last
  uint64_t next_id_ = 1;
  uint64_t operations_ = 0;
  uint64_t failures_ = 0;
  uint64_t moved_ = 0;  // blocks, by the defragmenter
  uint64_t logged_ = 0;
  uint64_t records_ = 0;
  uint64_t replayed_ = 0;
  std::string complaint_;
};

void Simulation::set_faults(bool on) {
  if (!on) rig_.kv_full = false;
  sim::SimDiskFaults& disk = rig_.platter.faults;
  sim::SimKvFaults& kv = rig_.records.faults;
  const bool rough = on && (weather_ == Weather::rough || weather_ == Weather::breaking);
  disk.read_error_permille = rough ? 10 : 0;
  disk.write_error_permille = rough ? 10 : 0;
  disk.flipped_read_permille = rough ? 20 : 0;
  kv.conflict_permille = rough ? 50 : 0;
  kv.unknown_commit_permille = rough ? 50 : 0;
  kv.read_error_permille = rough ? 5 : 0;
  const bool breaking = on && weather_ == Weather::breaking;
  disk.sync_error_permille = breaking ? 10 : 0;
  kv.unresolved_commit_permille = breaking ? 10 : 0;
  const bool silent = on && weather_ == Weather::silent;
  disk.lost_write_permille = silent ? 10 : 0;
  disk.misdirected_write_permille = silent ? 10 : 0;
}

std::pair<uint32_t, uint32_t> Simulation::pick_range() {
  const uint64_t bits = small_ && random().chance(9, 10) ? 14 : 19;
  uint64_t length = 1 + random().below(uint64_t{1} << random().below(bits));
  uint64_t begin = random().below(kChunkLength);
  // Favour blocks and maps and their borders.
  if (random().chance(1, 2)) begin = align_down(begin, 4096);
  if (random().chance(1, 8)) begin = align_down(begin, limits::kMapBytes);
  if (random().chance(1, 2)) length = align_up(length, 4096);
  length = std::min<uint64_t>(length, kChunkLength - begin);
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(begin + length)};
}

std::byte* Simulation::pick_memory(Slot& slot, uint32_t length) {
  slot.memory.resize(length + 8192);
  auto address = reinterpret_cast<uintptr_t>(slot.memory.data());
  std::byte* aligned = slot.memory.data() + (align_up(address, 4096) - address);
  constexpr uint32_t kSkews[] = {0, 0, 0, 512, 1, 4095};
  return aligned + kSkews[random().below(std::size(kSkews))];
}

template <class Operation>
void Simulation::submit(Slot& slot, Operation& op) {
  op.owner = &slot;
  op.completion = [](engine::Op& ended) {
    Slot& its = ended.owner_as<Slot>();
    its.simulation.on_end(its, ended);
  };
  rig_.target().submit(op);
}

void Simulation::start_write(Slot& slot) {
  const auto [begin, end] = pick_range();
  const uint64_t id = next_id_++;
  WriteOp& op = slot.write;
  op.chunk = kChunks[slot.chunk];
  op.offset = begin;
  op.source = {pick_memory(slot, end - begin), end - begin, engine::kNoBuffer,
               engine::MemoryKind::host};
  op.durable = small_ ? random().chance(9, 10) : random().chance(1, 3);
  fill_content(id, begin, op.source.bytes());
  Update update{id, begin, end, slot.started};
  slot.updates.emplace_back(slot.chunk, histories_[slot.chunk].begin(update));
  submit(slot, op);
}

void Simulation::start_read(Slot& slot) {
  const auto [begin, end] = pick_range();
  ReadOp& op = slot.read;
  op.chunk = kChunks[slot.chunk];
  op.offset = begin;
  op.destination = {pick_memory(slot, end - begin), end - begin, engine::kNoBuffer,
                    engine::MemoryKind::host};
  std::fill_n(op.destination.data, op.destination.length, std::byte{0xdd});
  submit(slot, op);
}

void Simulation::start_clear(Slot& slot) {
  const auto [begin, end] = pick_range();
  ClearOp& op = slot.clear;
  op.chunk = kChunks[slot.chunk];
  op.begin = begin;
  op.end = random().chance(1, 2) ? kWholeChunk : end;
  op.durable = random().chance(1, 3);
  Update update{0, begin, op.end == kWholeChunk ? kChunkLength : end, slot.started};
  slot.updates.emplace_back(slot.chunk, histories_[slot.chunk].begin(update));
  submit(slot, op);
}

void Simulation::start_remove(Slot& slot) {
  RemoveOp& op = slot.remove;
  op.inode = kChunks[slot.chunk].inode;
  op.first_chunk = static_cast<uint32_t>(random().below(2));
  op.durable = random().chance(1, 2);
  for (size_t i = 0; i < kChunkCount; ++i) {
    if (kChunks[i].inode != op.inode || kChunks[i].index < op.first_chunk) continue;
    slot.updates.emplace_back(i, histories_[i].begin({0, 0, kChunkLength, slot.started}));
  }
  submit(slot, op);
}

uint64_t Simulation::pick_kind() {
  // A clear, removal, sync or large write kicks a commit: seldom, for records to gather.
  const bool any = !small_ || random().chance(1, 8);
  return random().below(any ? 100 : 60);
}

void Simulation::start(Slot& slot) {
  // The database's disk fills up, and has room again.
  if (weather_ == Weather::full && random().chance(1, rig_.kv_full ? 6 : 12)) {
    rig_.kv_full = !rig_.kv_full;
  }
  slot.busy = true;
  slot.updates.clear();
  slot.started = now_++;
  slot.chunk = random().below(kChunkCount);
  const uint64_t draw = pick_kind();
  if (draw < 42) {
    slot.kind = Kind::write;
    start_write(slot);
  } else if (draw < 78) {
    slot.kind = Kind::read;
    start_read(slot);
  } else if (draw < 86) {
    slot.kind = Kind::clear;
    start_clear(slot);
  } else if (draw < 88) {
    slot.kind = Kind::remove;
    start_remove(slot);
  } else if (draw < 96) {
    slot.kind = Kind::sync;
    slot.sync.inode = random().chance(1, 2) ? kChunks[slot.chunk].inode : InodeId{};
    submit(slot, slot.sync);
  } else if (draw < 99) {
    slot.kind = Kind::end_query;
    slot.end_query.inode = kChunks[slot.chunk].inode;
    submit(slot, slot.end_query);
  } else {
    slot.kind = Kind::scrub;
    if (calm()) {
      slot.scrub.on_damage = [this](const Damage& damage) {
        if (!down_) complain(fmt::format("scrub found damage: block {}", damage.block));
      };
    }
    submit(slot, slot.scrub);
  }
}

void Simulation::on_end(Slot& slot, engine::Op& op) {
  slot.busy = false;
  ++operations_;
  const Status status = op.status;
  rig_.world.trace("end", static_cast<uint64_t>(slot.kind), static_cast<uint64_t>(status.code()));
  failures_ += status.ok() ? 0 : 1;
  const bool may_be_full = weather_ == Weather::tight || weather_ == Weather::full;
  if (calm() && !down_ && !status.ok() && !(may_be_full && status.code() == Code::no_space)) {
    complain(fmt::format("operation {} ended with {}", static_cast<int>(slot.kind), status.name()));
  }
  switch (slot.kind) {
    case Kind::read:
      on_read(slot, status);
      break;
    case Kind::write:
      on_update(slot, status, slot.write.durable);
      if (status.ok() && slot.write.durable) on_durable(slot.write.chunk.inode, slot.started);
      break;
    case Kind::clear:
      on_update(slot, status, slot.clear.durable);
      break;
    case Kind::remove:
      on_update(slot, status, slot.remove.durable);
      break;
    case Kind::sync:
      if (status.ok()) on_durable(slot.sync.inode, slot.started);
      break;
    case Kind::end_query:
    case Kind::scrub:
      break;
  }
  ++now_;
}

void Simulation::on_read(Slot& slot, Status status) {
  if (!status.ok()) return;
  const ReadOp& op = slot.read;
  if (!rig_.core().failed.ok()) {
    // What became durable while it was under way may or may not be in it.
    if (slot.started < durable_since_) return;
    const std::string older =
        histories_[slot.chunk].check_kept(op.offset, {op.destination.data, op.destination.length});
    if (!older.empty()) complain(fmt::format("read of a failed target: {}", older));
    return;
  }
  const std::string wrong = histories_[slot.chunk].check_read(
      op.offset, {op.destination.data, op.destination.length}, slot.started, now_);
  if (!wrong.empty()) complain(fmt::format("read of chunk {}: {}", slot.chunk, wrong));
}

void Simulation::on_update(Slot& slot, Status status, bool durable) {
  for (const auto& [chunk, name] : slot.updates) {
    ChunkHistory& history = histories_[chunk];
    if (status.ok()) {
      history.end(name, now_);
      if (durable) history.make_durable_one(name);
      if (durable) durable_since_ = now_;
    } else if (rig_.core().failed.ok() && !down_ && slot.kind != Kind::remove &&
               !(durable && weather_ == Weather::full)) {
      history.forget(name);
    }
    // Else it may have happened, now or at any time: it never ends.
  }
}

void Simulation::on_durable(InodeId inode, uint64_t time) {
  durable_since_ = now_;
  for (size_t i = 0; i < kChunkCount; ++i) {
    if (inode == InodeId{} || kChunks[i].inode == inode) histories_[i].make_durable(time);
  }
}

void Simulation::refill() {
  if (stopping_) return;
  for (uint32_t i = 0; i < depth_; ++i) {
    if (!slots_[i]->busy) start(*slots_[i]);
  }
}

// True if all is well and the target is still up.
bool Simulation::work(uint64_t count) {
  const uint64_t until = operations_ + count;
  stopping_ = false;
  depth_ = static_cast<uint32_t>(1 + random().below(kDepthMax));
  const bool came = rig_.world.run_until(
      [&] {
        if (operations_ >= until || !complaint_.empty() || !rig_.core().failed.ok()) return true;
        refill();
        return false;
      },
      std::chrono::minutes(10));
  if (!came) complain("no progress");
  stopping_ = true;
  return complaint_.empty() && rig_.core().failed.ok();
}

// A target that failed goes on reading for a while.
void Simulation::read_after_failure() {
  if (rig_.core().failed.ok() || !complaint_.empty()) return;
  rig_.world.run_until(
      [&] { return std::none_of(slots_.begin(), slots_.end(), [](auto& s) { return s->busy; }); });
  for (int i = 0; i < 20; ++i) {
    Slot& slot = *slots_[0];
    slot.busy = true;
    slot.kind = Kind::read;
    slot.updates.clear();
    slot.started = ++now_;
    slot.chunk = random().below(kChunkCount);
    start_read(slot);
    rig_.world.run_until([&] { return !slot.busy; });
  }
}

void Simulation::crash() {
  moved_ += rig_.core().defragmenter.moved();
  const Counters& counters = rig_.core().counters;
  logged_ += counters.logged.value();
  records_ += counters.log_records.value();
  replayed_ += counters.replayed.value();
  const uint64_t longest = random().chance(1, 2) ? 600'000 : 6'000'000;
  rig_.world.run_for(engine::Duration(static_cast<int64_t>(random().below(longest))));
  down_ = true;
  if (random().chance(1, 2)) {
    rig_.power_cut();
  } else {
    rig_.kill();
    // After a mere kill everything that was visible and committed is there; what was visible
    // and not committed is not.
  }
  for (const auto& slot : slots_) {
    if (slot->busy) complain("an operation never ended");
  }
  down_ = false;
}

void Simulation::verify_after_crash() {
  std::vector<std::byte> bytes(kChunkLength);
  for (size_t i = 0; i < kChunkCount && complaint_.empty(); ++i) {
    Status status;
    bytes = rig_.read(kChunks[i], 0, kChunkLength, &status);
    if (!status.ok()) {
      complain(fmt::format("chunk {} cannot be read: {}", i, status.name()));
      return;
    }
    const std::string wrong = histories_[i].check_crash(bytes);
    if (!wrong.empty()) complain(fmt::format("after a crash, chunk {}: {}", i, wrong));
    histories_[i].rebase();
  }
}

// Nobody moves blocks and everything is committed, until set_defragment(). False: a commit failed.
bool Simulation::come_to_rest() {
  rig_.target().set_defragment(false);
  if (!rig_.world.run_until([&] { return rig_.core().defragmenter.idle(); })) {
    complain("moving blocks does not end");
  }
  return rig_.sync().ok();
}

// Nothing in flight and everything committed: every block is free or in exactly one map.
void Simulation::verify_space() {
  Core& core = rig_.core();
  std::set<uint32_t> used;
  uint64_t scattered = 0;
  for (const auto& [key, record] : rig_.records.content()) {
    const auto map_key = decode_key(key);
    if (!map_key) continue;
    BlockMap map;
    if (!decode_map(*map_key, record, map).ok()) return complain("a record does not decode");
    scattered += core.defragmenter.measure(map);
    for (const BlockRef& ref : map.blocks) {
      if (ref.hole()) continue;
      if (!used.insert(ref.physical).second) return complain("a block is used twice");
      if (core.allocator.is_free(ref.physical)) return complain("a used block is free");
    }
  }
  if (core.reclaim.pending()) return complain("blocks wait for reads that have ended");
  const uint64_t free = core.allocator.free_blocks();
  if (free + used.size() != core.allocator.total_blocks()) {
    return complain(fmt::format("leak: {} free and {} used of {} blocks", free, used.size(),
                                core.allocator.total_blocks()));
  }
  if (core.mapped_blocks != used.size()) return complain("the count of used blocks is wrong");
  if (core.defragmenter.scattered() != scattered) {
    return complain(
        fmt::format("counted {} scattered blocks of {}", core.defragmenter.scattered(), scattered));
  }
  if (core.requests.taken() != 0) return complain("a context leaked");
  if (!core.allocator.consistent()) return complain("the allocator is inconsistent");
}

void Simulation::verify_scrub() {
  ScrubOp scrub;
  const Status status = rig_.run(scrub);
  if (!status.ok() || scrub.damaged_blocks != 0) {
    complain(fmt::format("scrub: {}, {} damaged blocks", status.name(), scrub.damaged_blocks));
  }
  if (scrub.verified_bytes != rig_.target().status().used_bytes) {
    complain(fmt::format("scrub verified {} of {} bytes", scrub.verified_bytes,
                         rig_.target().status().used_bytes));
  }
}

std::string Simulation::run(int lives) {
  for (int life = 0; life < lives && complaint_.empty(); ++life) {
    set_faults(false);
    // It dies while it opens, again and again.
    while (life > 0 && random().chance(1, 3)) {
      const engine::Duration soon(static_cast<int64_t>(random().below(3'000'000)));
      if (rig_.begin_or_crash(soon, random().chance(1, 2))) rig_.crash(random().chance(1, 2));
    }
    if (!rig_.begin()) return "cannot open: " + rig_.refusal.message;
    if (life > 0) {
      verify_after_crash();
      if (complaint_.empty()) verify_scrub();
      if (complaint_.empty() && come_to_rest()) verify_space();
      rig_.target().set_defragment(defragment_);
    }
    set_faults(true);
    bool up = complaint_.empty() && work(20 + random().below(60));
    if (up && random().chance(1, 2)) {
      // Let everything end, and check what only holds at rest.
      rig_.world.run_until([&] {
        return std::none_of(slots_.begin(), slots_.end(), [](auto& s) { return s->busy; });
      });
      set_faults(false);
      if (rig_.core().failed.ok()) {
        ++now_;
        const bool synced = come_to_rest();
        if (synced) on_durable(InodeId{}, now_++);
        if (weather_ != Weather::silent && synced) verify_space();
        rig_.target().set_defragment(defragment_);
      }
      set_faults(true);
      up = complaint_.empty() && rig_.core().failed.ok() && work(10 + random().below(20));
    }
    read_after_failure();
    crash();
    if (weather_ == Weather::silent) break;
  }
  return complaint_;
}

struct RunResult {
  std::string complaint;
  uint64_t trace_hash;
  uint64_t operations;
  uint64_t failures;
  uint64_t moved;
  uint64_t logged;
  uint64_t records;
  uint64_t replayed;
  int weather;
};

RunResult simulate(uint64_t seed) {
  engine::SeededRandom random(mix64(seed));
  constexpr Weather kWeathers[] = {Weather::fair,  Weather::fair,     Weather::tight,
                                   Weather::rough, Weather::breaking, Weather::silent,
                                   Weather::full};
  const Weather weather = kWeathers[random.below(std::size(kWeathers))];
  RigOptions options;
  options.capacity_bytes = weather == Weather::tight ? kMiB + random.below(3 * kMiB) : 32 * kMiB;
  // From "everything fits" to "nothing stays".
  options.map_cache_bytes = random.chance(1, 2) ? kMiB : 1;
  options.direct = !random.chance(1, 6);
  options.alignment = random.chance(1, 2) ? 4096 : 512;
  // Mostly on, as soon as anything is scattered, and now and then in the midst of the work.
  options.defragment.enabled = !random.chance(1, 4);
  options.defragment.wait = std::chrono::microseconds(100 + random.below(3000));
  options.defragment.breaks_min = random.chance(1, 4) ? 3 : 1;
  // From one that wraps every few writes to one that never does; and none.
  if (random.chance(4, 5)) options.log_bytes = (64 * kKiB) << random.below(5);
  options.log_after = static_cast<uint32_t>(1 + random.below(4));
  Simulation simulation(seed, options, weather);
  std::string complaint = simulation.run(3);
  return {complaint,
          simulation.trace_hash(),
          simulation.operations(),
          simulation.failures(),
          simulation.moved(),
          simulation.logged(),
          simulation.records(),
          simulation.replayed(),
          static_cast<int>(weather)};
}

class StoreSimulation : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("PENSTOCK_TRACE") == nullptr) log::set_level(log::Level::off);
  }
  void TearDown() override { log::set_level(log::Level::warning); }
};

TEST_F(StoreSimulation, keeps_its_promises_whatever_happens) {
  const sim::SeedRange range = sim::seed_range(1000);
  uint64_t operations = 0;
  uint64_t failures = 0;
  uint64_t moved = 0;
  uint64_t logged = 0, records = 0, replayed = 0;
  for (uint64_t i = 0; i < range.count; ++i) {
    const uint64_t seed = range.first + i;
    const RunResult outcome = simulate(seed);
    ASSERT_EQ(outcome.complaint, "")
        << "PENSTOCK_SEED=" << seed << " PENSTOCK_SEEDS=1, weather " << outcome.weather;
    operations += outcome.operations;
    failures += outcome.failures;
    moved += outcome.moved;
    logged += outcome.logged;
    records += outcome.records;
    replayed += outcome.replayed;
  }
  fmt::print(
      "{} seeds, {} operations, {} of them failed as they should, {} blocks moved; {} logged in {} "
      "records, {} of these replayed\n",
      range.count, operations, failures, moved, logged, records, replayed);
  if (range.count >= 100) {
    EXPECT_GT(moved, range.count) << "the defragmenter was not tried";
    EXPECT_GT(logged, range.count) << "the log was not tried";
    EXPECT_GT(replayed, range.count / 4) << "the log was not tried";
  }
}

TEST_F(StoreSimulation, repeats_itself_for_the_same_seed) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    EXPECT_EQ(simulate(seed).trace_hash, simulate(seed).trace_hash) << seed;
  }
  EXPECT_NE(simulate(1).trace_hash, simulate(2).trace_hash);
}

}  // namespace
}  // namespace penstock::store
