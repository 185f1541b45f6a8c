#include "healing.h"

#include "updates.h"

#include <algorithm>

namespace penstock::chain {

using limits::kBlockBytes;

BlockSpan blocks_of(uint32_t begin, uint32_t length) {
  ASSERT(length > 0 && range_within(begin, length, limits::kChunkBytesMax));
  const uint64_t end = uint64_t{begin} + length;
  return {static_cast<uint32_t>(begin / kBlockBytes),
          static_cast<uint32_t>((end + kBlockBytes - 1) / kBlockBytes)};
}

struct Healing::Job {
  Number number = 0;
  // What is under way for an earlier round, or version, ends without effect.
  uint64_t round = 0;
  store::ChainChunk at;
  BlockSpan blocks;
  std::vector<Ended> ended;
  bool locks = false;
  bool has_lock = false;
  uint64_t version = 0;  // of the lock
  uint32_t starts = 0;   // how often it has begun from the front
  Pools::Held memory;

  // One step: so many blocks.
  BlockSpan step;
  UpdateName committed;
  // Of the step's blocks. The store reads into it also when nobody waits for the job any more.
  std::shared_ptr<std::vector<std::byte>> bytes;
  std::vector<std::byte> fetched;  // what a source says of some of them
  std::vector<uint32_t> damaged;   // here, and nobody has given them so far
  std::vector<uint32_t> good;      // damaged here, and given
  std::vector<Member> sources;
  size_t source = 0;
  uint32_t tries = 0;           // of this source
  std::set<TargetId> given_up;  // sources that do not answer, or have another update for long
  TargetId helper;              // the last that gave something

  uint32_t healed = 0;
  uint32_t lost = 0;
};

Healing::Healing(Core& core) : core_(core) {}
Healing::~Healing() = default;

Healing::Job& Healing::make(const store::ChainChunk& at, BlockSpan blocks,
                            std::vector<Ended> ended) {
  ASSERT(blocks.first < blocks.end && blocks.end <= limits::kChunkBytesMax / kBlockBytes);
  auto made = std::make_unique<Job>();
  Job& job = *made;
  job.number = ++last_;
  job.at = at;
  job.blocks = blocks;
  job.ended = std::move(ended);
  jobs_.emplace(job.number, std::move(made));
  return job;
}

// Null if the job has ended, or has begun anew.
Healing::Job* Healing::find(Number number, uint64_t round) {
  const auto found = jobs_.find(number);
  const bool is_it = found != jobs_.end() && found->second->round == round;
  return is_it ? found->second.get() : nullptr;
}

// Goes on with the job, if it is still the same.
template <class... Args>
std::function<void(Args...)> Healing::when(const Job& job, void (Healing::*then)(Job&, Args...)) {
  return [this, number = job.number, round = job.round, then](Args... args) {
    if (Job* const its = find(number, round)) (this->*then)(*its, std::forward<Args>(args)...);
  };
}

bool Healing::is_locked(const store::ChainChunk& at) const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [&](const auto& one) { return one.second->locks && one.second->at == at; });
}

void Healing::found(const store::ChainChunk& at, BlockSpan blocks, Ended ended) {
  const auto same = std::find_if(waiting_.begin(), waiting_.end(),
                                 [&](const Waiting& one) { return one.at == at; });
  const bool may_wait = !core_.failed && (core_.part.serves() || core_.part.syncs());
  if (!may_wait || (same == waiting_.end() && waiting_.size() >= limits::kHealsWaiting)) {
    if (ended) ended(false);
    return;
  }
  if (same == waiting_.end()) {
    waiting_.push_back({at, blocks, {}});
    if (ended) waiting_.back().ended.push_back(std::move(ended));
  } else {
    same->blocks = {std::min(same->blocks.first, blocks.first),
                    std::max(same->blocks.end, blocks.end)};
    if (ended) same->ended.push_back(std::move(ended));
  }
  begin_waiting();
}

void Healing::heal_now(const store::ChainChunk& at, BlockSpan blocks, Ended ended) {
  ASSERT(ended);
  begin(make(at, blocks, {std::move(ended)}));
}

// One of a chunk at a time.
void Healing::begin_waiting() {
  while (locking_ < limits::kHealsAtOnce) {
    const auto next = std::find_if(waiting_.begin(), waiting_.end(),
                                   [&](const Waiting& one) { return !is_locked(one.at); });
    if (next == waiting_.end()) return;
    Job& job = make(next->at, next->blocks, std::move(next->ended));
    waiting_.erase(next);
    job.locks = true;
    ++locking_;
    watch(job.number, core_.host.loop().now() + limits::kHealTime);
    begin(job);
  }
}

// Its turn may never come.
void Healing::watch(Number number, engine::Time until) {
  core_.after(limits::kReportPeriod, [this, number, until] {
    const auto found = jobs_.find(number);
    if (found == jobs_.end() || found->second->has_lock) return;
    if (core_.host.loop().now() >= until) return end(*found->second, false);
    watch(number, until);
  });
}

void Healing::begin(Job& job) {
  job.step = {job.blocks.first, job.blocks.first};
  job.lost = 0;
  job.given_up.clear();
  if (!job.locks || job.has_lock) return next_step(job);
  job.version = core_.part.version();
  core_.updates->lock(job.at, [this, at = job.at, number = job.number, round = job.round,
                               version = job.version](const UpdateName&) {
    if (version != core_.part.version()) return;  // so the lock is gone
    Job* const its = find(number, round);
    if (its == nullptr) return core_.updates->unlock(at);
    its->has_lock = true;
    next_step(*its);
  });
}

void Healing::next_step(Job& job) {
  if (core_.failed) return end(job, false);
  const uint32_t first = job.step.end;
  if (first >= job.blocks.end) return end(job, job.lost == 0);
  if (job.memory == nullptr) {
    job.memory =
        core_.host.pools.take(Pools::kHealing, 2 * uint64_t{limits::kHealBlocks} * kBlockBytes);
    if (job.memory == nullptr) {
      return core_.after(limits::kPeerRetry, when(job, &Healing::next_step));
    }
  }
  job.step = {first, std::min(first + limits::kHealBlocks, job.blocks.end)};
  read(job);
}

// What is damaged of the step, and under which update.
void Healing::read(Job& job) {
  job.bytes =
      std::make_shared<std::vector<std::byte>>((job.step.end - job.step.first) * kBlockBytes);
  auto& read = core_.task<store::CopyReadOp>([this, number = job.number, round = job.round,
                                              bytes = job.bytes,
                                              memory = job.memory](Task<store::CopyReadOp>& done) {
    Job* const its = find(number, round);
    if (its == nullptr) return;
    if (!done.status.ok()) return end(*its, false);
    its->damaged = std::move(done.damaged);
    its->good.clear();
    if (its->damaged.empty()) return next_step(*its);
    its->committed = done.state.committed;
    its->sources.clear();
    for (const Member& member : core_.part.view().members) {
      const bool has_part =
          member.standing == Standing::serving || member.standing == Standing::syncing;
      if (!has_part || member.target == core_.part.target()) continue;
      if (!its->given_up.contains(member.target)) its->sources.push_back(member);
    }
    its->source = its->tries = 0;
    ask(*its);
  });
  read.at = job.at;
  read.begin = static_cast<uint32_t>(job.step.first * kBlockBytes);
  read.destination = {job.bytes->data(), job.bytes->size()};
  read.list_damage = true;
  core_.host.store().submit(read);
}

// Asks the next source for what nobody has given so far.
void Healing::ask(Job& job) {
  if (core_.failed) return end(job, false);
  if (job.damaged.empty() || job.source == job.sources.size()) return write(job);
  const BlockSpan asked{job.damaged.front(), job.damaged.back() + 1};
  const size_t length = (asked.end - asked.first) * kBlockBytes;
  auto& call = core_.task<PeerCall>(
      [this, asked, number = job.number, round = job.round](Task<PeerCall>& done) {
        if (Job* const its = find(number, round)) answered(*its, done, asked);
      });
  wire::ChainCopyRequest request{.header = core_.header(job.at.chunk, wire::Traffic::repair),
                                 .committed = job.committed};
  request.first_block = asked.first;
  request.blocks = asked.end - asked.first;
  call.say(wire::ChainMethod::copy, request);
  call.expose(std::vector<std::byte>(length), engine::Access::place);
  core_.call(job.sources[job.source], call);
}

void Healing::answered(Job& job, Task<PeerCall>& done, BlockSpan asked) {
  const bool may_change = done.status == Code::stale || done.status == Code::busy ||
                          done.status == Code::moved || done.status == Code::not_serving;
  const Member& source = job.sources[job.source];
  // A syncing one has another update for as long as repair has not come to this chunk.
  const bool once = source.standing == Standing::syncing && done.status == Code::stale;
  if (may_change && !once && ++job.tries < limits::kHealTries) {
    return core_.after(limits::kPeerRetry, when(job, &Healing::ask_again));
  }
  wire::ChainCopyResponse response;
  if (done.status.ok() && done.response_length == sizeof response) {
    std::memcpy(&response, done.answer.data(), sizeof response);
    std::erase_if(job.damaged, [&](uint32_t block) {
      if ((response.damaged >> (block - asked.first) & 1) != 0) return false;
      std::memcpy(job.bytes->data() + (block - job.step.first) * kBlockBytes,
                  done.exposed[0].data() + (block - asked.first) * kBlockBytes, kBlockBytes);
      job.good.push_back(block);
      job.helper = source.target;
      return true;
    });
  } else {
    job.given_up.insert(source.target);
  }
  ++job.source;
  job.tries = 0;
  ask(job);
}

void Healing::ask_again(Job& job) {
  ask(job);
}

void Healing::write(Job& job) {
  job.lost += static_cast<uint32_t>(job.damaged.size());
  if (job.good.empty()) return next_step(job);
  std::sort(job.good.begin(), job.good.end());
  auto bytes = std::make_shared<std::vector<std::byte>>();
  for (const uint32_t block : job.good) {
    const auto at =
        job.bytes->begin() + static_cast<ptrdiff_t>((block - job.step.first) * kBlockBytes);
    bytes->insert(bytes->end(), at, at + static_cast<ptrdiff_t>(kBlockBytes));
  }
  auto blocks = std::make_shared<std::vector<uint32_t>>(job.good);
  auto& heal = core_.task<store::HealOp>([then = when(job, &Healing::written), bytes, blocks](
                                             Task<store::HealOp>& done) { then(done.status); });
  heal.at = job.at;
  heal.committed = job.committed;
  heal.blocks = *blocks;
  heal.bytes = {bytes->data(), bytes->size()};
  core_.host.store().submit(heal);
}

void Healing::written(Job& job, Status status) {
  if (status == Code::stale && ++job.starts < limits::kHealTries) {
    ++job.round;
    return begin(job);
  }
  if (!status.ok()) return end(job, false);
  job.healed += static_cast<uint32_t>(job.good.size());
  next_step(job);
}

void Healing::end(Job& job, bool whole) {
  const auto mine = jobs_.extract(job.number);
  ASSERT(!mine.empty());
  core_.host.healed.add(job.healed);
  core_.host.unhealed.add(job.lost);
  if (job.healed > 0) {
    log::warning("chain {}: chunk {} of inode {}: {} damaged blocks healed from target {}",
                 core_.chain.value, job.at.chunk.index, job.at.chunk.inode.value, job.healed,
                 job.helper.value);
  }
  if (job.lost > 0) {
    log::error(
        "chain {}: chunk {} of inode {}: {} damaged blocks, of which no replica that can be "
        "asked has a good copy",
        core_.chain.value, job.at.chunk.index, job.at.chunk.inode.value, job.lost);
  }
  if (job.locks) {
    ASSERT(locking_ > 0);
    --locking_;
    if (*core_.alive && job.has_lock && job.version == core_.part.version())
      core_.updates->unlock(job.at);
  }
  for (const Ended& ended : job.ended) ended(whole);
  begin_waiting();
}

// Locks are gone with the old version, and there may be others to ask.
void Healing::part_changed() {
  if (!core_.part.serves() && !core_.part.syncs()) return stop();
  std::vector<Number> all;
  for (const auto& [number, job] : jobs_) all.push_back(number);
  for (const Number number : all) {
    const auto found = jobs_.find(number);
    if (found == jobs_.end()) continue;
    Job& job = *found->second;
    ++job.round;
    job.has_lock = false;
    begin(job);
  }
}

void Healing::stop() {
  for (auto& waiting : std::exchange(waiting_, {})) {
    for (const Ended& ended : waiting.ended) ended(false);
  }
  while (!jobs_.empty()) {
    Job& job = *jobs_.begin()->second;
    end(job, false);
  }
}

void Healing::on_copy(engine::IncomingCall& call, const wire::ChainCopyRequest& request) {
  const uint64_t length = uint64_t{request.blocks} * kBlockBytes;
  if (call.exposure_count != 1 || call.exposure_length(0) != length) {
    return call.reply(Code::bad_message, {});
  }
  if (core_.failed) return core_.refuse(call);
  const Pools::Held memory = core_.host.pools.take(Pools::kSource, length);
  if (memory == nullptr) return call.reply(Code::busy, {});
  auto bytes = std::make_shared<std::vector<std::byte>>(length);
  auto& read = core_.task<store::CopyReadOp>(
      [this, &call, request, bytes, memory](Task<store::CopyReadOp>& done) {
        if (!done.status.ok()) return call.reply(done.status, {});
        if (done.state.committed != request.committed) return call.reply(Code::stale, {});
        wire::ChainCopyResponse response;
        for (const uint32_t block : done.damaged) {
          response.damaged |= uint64_t{1} << (block - request.first_block);
        }
        auto& place = core_.task<engine::TransferOp>(
            [&call, response, bytes, memory](Task<engine::TransferOp>& placed) {
              call.reply(placed.status, wire::as_wire(response));
            });
        place.call = &call;
        place.local = {bytes->data(), bytes->size()};
        call.place(place);
      });
  read.at = core_.at(request.header.chunk_id());
  read.begin = static_cast<uint32_t>(request.first_block * kBlockBytes);
  read.destination = {bytes->data(), bytes->size()};
  read.list_damage = true;
  core_.host.store().submit(read);
}

}  // namespace penstock::chain
