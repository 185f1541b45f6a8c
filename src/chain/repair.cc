#include "repair.h"

#include "healing.h"
#include "updates.h"

namespace penstock::chain {
namespace {

// A peer says so, and the cursor goes by it.
bool is_in_order(store::ChainChunk least, const std::vector<wire::ListedChunk>& listed) {
  for (const wire::ListedChunk& one : listed) {
    const store::ChainChunk at{least.chain, {InodeId{one.inode}, one.chunk}};
    if (at < least) return false;
    least = after(at);
  }
  return true;
}

}  // namespace

void Repair::part_changed() {
  const Member* const follower = core_.part.follower();
  to_do_.clear();
  there_.clear();
  stop();
  const bool goes_on = began_ != 0 && follower != nullptr && follower->target == follower_ &&
                       follower->incarnation == follower_incarnation_;
  if (goes_on) return;
  follower_ = follower != nullptr ? follower->target : TargetId{};
  follower_incarnation_ = follower != nullptr ? follower->incarnation : 0;
  began_ = 0;
  if (follower != nullptr) begin_anew();
}

void Repair::stop() {
  turn_ = nullptr;
  core_.host.pace.forget(this);
}

void Repair::begin_anew() {
  began_ = core_.part.version();
  finished_ = false;
  cursor_ = {core_.chain, {}};
}

void Repair::start() {
  ASSERT(core_.part.follower() != nullptr && core_.part.active);
  if (finished_) return all_done();
  next_list();
}

bool Repair::begin(const store::ChainChunk& at) {
  if (finished_ || at < cursor_) return true;
  // It may be in no list: one was made before it began.
  to_do_.insert(at);
  return false;
}

// What both have from the cursor on.
void Repair::next_list() {
  auto& list =
      core_.task<store::ListOp>([this, version = core_.part.version()](Task<store::ListOp>& done) {
        if (version != core_.part.version() || core_.failed) return;
        if (!done.status.ok()) return core_.fail();
        list_there(std::move(done.entries));
      });
  list.from = cursor_;
  list.limit = limits::kRepairList;
  core_.host.store().submit(list);
}

void Repair::list_there(std::vector<store::ListEntry> here) {
  const Member& to = *core_.part.follower();
  auto& call = core_.peer_task(to, [this, here = std::move(here)](Task<PeerCall>& done) {
    wire::ChainListResponse response;
    if (done.status.ok() && done.response_length == sizeof response) {
      std::memcpy(&response, done.answer.data(), sizeof response);
      const auto listed = structs_of<wire::ListedChunk>(done.exposed[0]);
      if (response.count <= listed.size()) {
        const std::vector<wire::ListedChunk> there(listed.begin(), listed.begin() + response.count);
        if (is_in_order(cursor_, there)) return merge(here, there);
      }
    }
    core_.retry([this] { next_list(); });
  });
  wire::ChainListRequest request{.header = core_.header(cursor_.chunk, wire::Traffic::repair),
                                 .limit = limits::kRepairList};
  call.say(wire::ChainMethod::list, request);
  call.expose(std::vector<std::byte>(limits::kRepairList * sizeof(wire::ListedChunk)),
              engine::Access::place);
  core_.call(to, call);
}

void Repair::merge(const std::vector<store::ListEntry>& here,
                   const std::vector<wire::ListedChunk>& there) {
  horizon_.reset();
  const auto bound = [this](const store::ChainChunk& last) {
    if (!horizon_.has_value() || after(last) < *horizon_) horizon_ = after(last);
  };
  if (here.size() == limits::kRepairList) bound(core_.at(here.back().chunk));
  if (there.size() == limits::kRepairList) {
    bound(core_.at({InodeId{there.back().inode}, there.back().chunk}));
  }
  const auto within = [this](const store::ChainChunk& at) {
    return !horizon_.has_value() || at < *horizon_;
  };
  for (const store::ListEntry& entry : here) {
    if (within(core_.at(entry.chunk))) to_do_.insert(core_.at(entry.chunk));
  }
  for (const wire::ListedChunk& listed : there) {
    const store::ChainChunk at = core_.at({InodeId{listed.inode}, listed.chunk});
    if (!within(at)) continue;
    there_[at] = listed.committed;
    to_do_.insert(at);
  }
  next_chunk();
}

void Repair::next_chunk() {
  const bool has_next = !to_do_.empty() && (!horizon_.has_value() || *to_do_.begin() < *horizon_);
  if (has_next) {
    const store::ChainChunk at = *to_do_.begin();
    ASSERT(!(at < cursor_));
    cursor_ = at;
    return core_.updates->lock(
        at, [this, at, version = core_.part.version()](const UpdateName& committed) {
          if (version == core_.part.version() && !core_.failed) compare(at, committed);
        });
  }
  if (!horizon_.has_value()) return all_done();
  cursor_ = *horizon_;
  next_list();
}

// Whether so much may be copied now. Where not, the chunk is unlocked meanwhile, and looked at
// anew: clients write to it.
bool Repair::has_turn(const store::ChainChunk& at, uint64_t bytes) {
  if (turn_ != nullptr) return true;
  RepairPace::Answer answer = core_.host.pace.ask(this, bytes);
  turn_ = std::move(answer.turn);
  if (turn_ != nullptr) return true;
  leave(at);
  core_.after(answer.wait, [this, version = core_.part.version()] {
    if (version == core_.part.version() && !core_.failed) next_chunk();
  });
  return false;
}

void Repair::leave(const store::ChainChunk& at) {
  turn_ = nullptr;
  core_.updates->unlock(at);
}

void Repair::compare(const store::ChainChunk& at, const UpdateName& here) {
  const auto listed = there_.find(at);
  const UpdateName there = listed == there_.end() ? UpdateName{} : listed->second;
  if (here == there) return chunk_done(at);
  copy(at);
}

void Repair::copy(const store::ChainChunk& at, bool was_healed) {
  auto& look = core_.task<store::LookOp>(
      [this, at, was_healed, version = core_.part.version()](Task<store::LookOp>& done) {
        if (version != core_.part.version() || core_.failed) return;
        if (!done.status.ok()) return core_.fail();
        if (!has_turn(at, done.state.length)) return;
        core_.hold(done.state.length, [this, at, state = done.state, was_healed](auto held) {
          if (state.length == 0) return send(at, state, {}, {}, held);
          read_copy(at, state, was_healed, held);
        });
      });
  look.at = at;
  core_.host.store().submit(look);
}

// What is damaged here is healed first; what no replica has goes along as damaged.
void Repair::read_copy(const store::ChainChunk& at, const store::ChunkState& state, bool was_healed,
                       const Pools::Held& held) {
  auto bytes = std::make_shared<std::vector<std::byte>>(state.length);
  auto& read =
      core_.task<store::CopyReadOp>([this, at, bytes, state, was_healed, held,
                                     version = core_.part.version()](Task<store::CopyReadOp>& had) {
        if (version != core_.part.version() || core_.failed) return;
        if (!had.status.ok()) return core_.fail();
        if (had.damaged.empty() || was_healed) {
          return send(at, state, std::move(*bytes), had.damaged, held);
        }
        const BlockSpan blocks{had.damaged.front(), had.damaged.back() + 1};
        core_.healing->heal_now(at, blocks, [this, at, version](bool) {
          if (version == core_.part.version() && !core_.failed) copy(at, true);
        });
      });
  read.at = at;
  read.destination = {bytes->data(), bytes->size()};
  read.list_damage = true;
  core_.host.store().submit(read);
}

void Repair::send(const store::ChainChunk& at, const store::ChunkState& state,
                  std::vector<std::byte> bytes, const std::vector<uint32_t>& damaged,
                  const Pools::Held& held) {
  const Member& to = *core_.part.follower();
  std::vector<wire::CopiedSlot> slots;
  for (const store::SlotRecord& slot : core_.host.store().slots_of(at)) {
    slots.push_back({slot.request, slot.name});
  }
  core_.host.repaired.add();
  core_.host.repaired_bytes.add(bytes.size());
  auto& call = core_.peer_task(to, [this, at, held](Task<PeerCall>& done) {
    if (done.status.ok()) return chunk_done(at);
    leave(at);
    // It has another name by now than it listed: what was under way in the last version, perhaps.
    if (done.status == Code::stale) return list_again();
    core_.retry([this] { next_chunk(); });
  });
  const auto listed = there_.find(at);
  wire::ChainReplaceRequest request{
      .header = core_.header(at.chunk, wire::Traffic::repair),
      .expected = listed == there_.end() ? UpdateName{} : listed->second,
      .committed = state.committed};
  request.length = state.length;
  request.removed = state.removed ? 1 : 0;
  request.slots = static_cast<uint32_t>(slots.size());
  request.damaged = static_cast<uint32_t>(damaged.size());
  call.say(wire::ChainMethod::replace, request);
  call.expose(bytes_of(std::span<const wire::CopiedSlot>(slots)), engine::Access::fetch);
  if (!bytes.empty()) call.expose(std::move(bytes), engine::Access::fetch);
  if (!damaged.empty()) {
    call.expose(bytes_of(std::span<const uint32_t>(damaged)), engine::Access::fetch);
  }
  core_.call(to, call);
}

void Repair::list_again() {
  there_.clear();
  core_.retry([this] { next_list(); });
}

void Repair::chunk_done(const store::ChainChunk& at) {
  cursor_ = after(at);
  to_do_.erase(at);
  there_.erase(at);
  leave(at);
  next_chunk();
}

void Repair::all_done() {
  finished_ = true;
  core_.keep_reporting(Report::Kind::repaired, follower_);
}

}  // namespace penstock::chain
