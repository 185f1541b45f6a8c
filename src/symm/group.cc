#include "limits.h"
#include "mapped.h"

#include <algorithm>

namespace penstock::symm {
namespace {

// Looks before a PE lets others run, some 50 us; where PEs are more than processors, just enough
// for what comes at once.
constexpr uint32_t kLooksAlone = 2000;
constexpr uint32_t kLooksCrowded = 20;
static_assert(kLooksCrowded >= 16, "where PEs are on other nodes there are a sixteenth as many");

uint32_t index_among(const std::vector<uint32_t>& ranks, uint32_t rank) {
  return static_cast<uint32_t>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

}  // namespace

uint32_t far_looks(bool is_crowded) {
  return (is_crowded ? kLooksCrowded : kLooksAlone) / 16;
}

Group::Group(job::Member& member, const GroupOptions& options, std::vector<uint32_t> ranks,
             std::unique_ptr<Mapped> mapped)
    : member_(member),
      name_(options.name),
      time_to_join_(join_time(options)),
      ranks_(std::move(ranks)),
      mapped_(std::move(mapped)),
      me_(index_among(ranks_, member.place().rank)),
      size_(static_cast<uint32_t>(ranks_.size())),
      all_near_(mapped_->far == nullptr ? size_ : 0),
      slots_(mapped_->far == nullptr ? nullptr : mapped_->slots.data()),
      is_crowded_(mapped_->is_crowded),
      memory_(mapped_->memory),
      data_(mapped_->data),
      heap_(sizeof(Control), memory_.bytes),
      waits_{this, options.clock != nullptr ? options.clock : &engine::system_clock(),
             is_crowded_ ? kLooksCrowded : kLooksAlone, mapped_->far.get()},
      teams_(kTeamsMax),
      far_(mapped_->far.get()) {
  const PeSet here = node_set();
  teams_[kWorldTeam] = make_team(kWorldTeam, {0, 1, size_}, me_);
  teams_[kNodeTeam] = make_team(kNodeTeam, here, *here.index_of(me_));
  if (mapped_->has_one_caller) {
    teams_[kActiveSetTeam] = make_team(kActiveSetTeam, {0, 1, size_}, me_);
    active_set_team_ = teams_[kActiveSetTeam].get();
  }
  waits_.is_alone =
      far_ != nullptr && std::count(mapped_->slots.begin(), mapped_->slots.end(), kNoSlot) + 1 ==
                             static_cast<ptrdiff_t>(size_);
}

uint64_t Group::heap_alignment() const {
  return alignment_of(memory_.bytes);
}

Group::~Group() {
  if (far_ != nullptr) far_->close();
}

Outcome<std::vector<job::Brought>> Group::exchange(const std::string& what,
                                                   const job::Bring& bring) {
  return member_.exchange({exchange_name(name_, what), ranks_}, bring,
                          std::chrono::steady_clock::now() + time_to_join_);
}

Fault Group::fault_of(const void* symmetric, uint64_t bytes, uint32_t pe) const {
  if (pe >= size_) return Fault::no_such_pe;
  if (memory_.holds(symmetric, bytes) || data_.holds(symmetric, bytes)) return Fault::none;
  const bool begins = memory_.holds(symmetric, 0) || data_.holds(symmetric, 0);
  return begins ? Fault::beyond_its_end : Fault::not_symmetric;
}

std::optional<uint32_t> Group::first_ended() const {
  for (const job::End& end : member_.ends()) {
    const uint32_t pe = index_among(ranks_, end.rank);
    if (pe < size_ && ranks_[pe] == end.rank) return pe;
  }
  return far_ != nullptr ? far_->broken() : std::nullopt;
}

std::optional<uint32_t> Group::first_gone() const {
  if (const auto ended = first_ended()) return ended;
  // Whom it reaches by loads and stores is missed only later: when waits end, or those of kernels.
  const uint32_t* const followed = followed_.load(std::memory_order_acquire);
  const bool is_told = followed != nullptr && __atomic_load_n(followed, __ATOMIC_ACQUIRE) != 0;
  if (far_ == nullptr && !is_told && left_at_.load(std::memory_order_relaxed) == kNotLeft)
    return std::nullopt;
  for (uint32_t pe = 0; pe < size_; ++pe) {
    if (member_.has_ended(ranks_[pe])) return pe;
  }
  return std::nullopt;
}

void Group::follow_trouble(uint32_t* word) {
  member_.follow(word, ranks_, limits::kAfterLeave);
  followed_.store(word, std::memory_order_release);
}

void Group::unfollow_trouble(uint32_t* word) {
  uint32_t* expected = word;
  followed_.compare_exchange_strong(expected, nullptr);
  member_.unfollow(word);
}

Status Group::is_there() {
  if (member_.departures().load(std::memory_order_acquire) != 0 && has_been_left())
    return Code::peer_gone;
  if (member_.trouble().load(std::memory_order_acquire) == 0)
    return has_been_cut_off() ? Status(Code::peer_gone) : Status();
  if (first_ended()) return Code::peer_gone;
  for (const job::End& end : member_.ends()) {
    if (end.how == job::How::aborted) return Code::cancelled;
  }
  return {};
}

// The time counts from the first question after one of its PEs has left.
bool Group::has_been_left() {
  const engine::Time now = waits_.clock->now();
  const engine::Duration since = left_at_.load(std::memory_order_relaxed);
  if (since != kNotLeft) return now.time_since_epoch() - since > limits::kAfterLeave;
  if (std::any_of(ranks_.begin(), ranks_.end(),
                  [this](uint32_t rank) { return member_.has_ended(rank); })) {
    left_at_.store(now.time_since_epoch(), std::memory_order_relaxed);
  }
  return false;
}

Status Group::sync(Team& team) {
  const uint64_t number = team.next_sync();
  if (team.size() == 1) return {};
  if (team.nodes() != nullptr) return sync_over_nodes(team, number);
  TRY(is_crowded_ ? sync_by_count(team, number) : sync_in_rounds(team, number));
  team.set_all_over();
  return {};
}

// In round r each PE tells the one 2^r further that it has come, and waits for the one 2^r before
// it: after the last round all have heard of all (Hensgen, Finkel and Manber, 1988). Words only
// grow, so that none is ever taken back.
Status Group::sync_in_rounds(Team& team, uint64_t number) {
  const uint32_t size = team.size();
  TeamControl& own = control(team);
  for (uint32_t round = 0; (uint64_t{1} << round) < size; ++round) {
    const uint32_t to = (team.index() + (uint32_t{1} << round)) % size;
    __atomic_store_n(&control(team, to).rounds[round].value, number, __ATOMIC_RELEASE);
    const uint64_t& word = own.rounds[round].value;
    TRY(wait([&] { return __atomic_load_n(&word, __ATOMIC_ACQUIRE) >= number; }));
  }
  return {};
}

// Where PEs share processors each waits once only: the last one that comes lets all go.
Status Group::sync_by_count(Team& team, uint64_t number) {
  TeamControl& first = control(team, 0);
  const uint64_t arrived = __atomic_add_fetch(&first.arrivals.value, 1, __ATOMIC_ACQ_REL);
  if (arrived == number * team.size()) {
    __atomic_store_n(&first.released.value, number, __ATOMIC_RELEASE);
    return {};
  }
  return wait([&] { return __atomic_load_n(&first.released.value, __ATOMIC_ACQUIRE) >= number; });
}

}  // namespace penstock::symm
