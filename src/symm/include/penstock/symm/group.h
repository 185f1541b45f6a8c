// A group: PEs that can reach one another's memory.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "penstock/job.h"
#include "penstock/symm/far.h"
#include "penstock/symm/heap.h"
#include "penstock/symm/patience.h"
#include "penstock/symm/rdma.h"
#include "penstock/symm/team.h"
#include "penstock/symm/window.h"
#include "penstock/symm/words.h"

namespace penstock::symm {

struct GroupOptions {
  // Groups of the same ranks that are joined at the same time have different names.
  std::string name = "world";
  // Of the job, ascending, with the own one; PE numbers are places in this list. Empty: all.
  std::vector<uint32_t> ranks = {};
  uint64_t heap_bytes = 0;  // of each PE; 0: the machine's memory, divided by the PEs of the node.
                            // Taken as it is touched.
  // The program's global and static variables are symmetric, too. Asked for by all or none of a
  // group; moves them onto shared memory at the first time, when no other thread of the program may
  // run.
  bool has_program_data = false;
  // What all PEs of a team or an active set do together is called by one thread of this PE at a
  // time, whichever team or set it is: team_of_all() is there where all say so.
  bool has_one_caller = false;
  std::chrono::nanoseconds time_to_join{0};  // 0: a minute
  // By which PEs of other nodes reach this one (job::is_interface_of()). Empty: all.
  std::string interface = {};
  RdmaChoice rdma = {};            // and whether by RDMA
  engine::Clock* clock = nullptr;  // null: the machine's
};

// Thread sanitizers know of no fences; a word that is changed for nothing does at least as much.
template <std::memory_order kOrder>
void fence_of() {
#if defined(__SANITIZE_THREAD__)
  static std::atomic<uint32_t> word{0};
  word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(kOrder);
#endif
}

// Why an address cannot be reached; for messages.
enum class Fault : uint8_t { none, no_such_pe, not_symmetric, beyond_its_end };

enum class SignalOp : uint8_t { set, add };

// Types of one machine word, as processors change them at once.
template <class T>
concept Word = std::is_trivially_copyable_v<T> &&(sizeof(T) == 4 || sizeof(T) == 8);

// Objects, not a singleton: a process may have several, and leaves them in any order. Memory calls
// (put to fetch_xor) are thread safe. So are the others, but that those which all PEs of a team
// make together are made by one thread of each at a time, and that the heap is one thread's at a
// time. Nothing here ends the process. When a PE has ended, waits of the groups it was in end with
// peer_gone: such a group is left, and the remaining ranks may join a new one.
class Group final : private Company {
 public:
  // Together with all its ranks. `member` outlives the group.
  static Outcome<std::unique_ptr<Group>> join(job::Member& member, const GroupOptions& options);
  ~Group() override;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  uint32_t me() const { return me_; }
  uint32_t size() const { return size_; }
  uint32_t rank_of(uint32_t pe) const { return ranks_[pe]; }
  // Which of the job's nodes a PE is on.
  uint32_t node_of(uint32_t pe) const { return member_.node_of(ranks_[pe]); }

  Team& world() { return *teams_[kWorldTeam]; }
  // Those that reach one another by loads and stores. Where the PEs of a node are no row with equal
  // steps, each is in a team of its own.
  Team& node() { return *teams_[kNodeTeam]; }
  // A second team of all PEs, for active sets that are all PEs: their own words serve one call
  // after the other, and cost two syncs. Null where some PEs call from several threads.
  Team* team_of_all(const PeSet& set) const {
    return active_set_team_ != nullptr && set == active_set_team_->set() ? active_set_team_
                                                                         : nullptr;
  }
  // `part`: places within the parent. Together with all of the parent; null for those who are not
  // in the part. Parts of one call may differ, if they have no PE in common. busy: no team is free
  // any more, of 256.
  Outcome<Team*> split(Team& parent, const PeSet& part);
  // Together with all of the team.
  Status destroy(Team& team);
  // For PEs that find one another without a parent team. Which numbers are free here: bit i of word
  // i / 64. And the team of a number that is free at all of them, this one among them: used when
  // all have made it.
  std::array<uint64_t, kTeamWords> free_team_numbers() const;
  Team& make_team_of(const PeSet& set, uint32_t number);

  Heap& heap() { return heap_; }
  // What a place on the heap that is a multiple of it is a multiple of as an address, too. More
  // fits into no heap of up to a gigabyte.
  uint64_t heap_alignment() const;
  std::byte* heap_address(uint64_t offset) const { return memory_.own + offset; }
  uint64_t heap_offset(const void* address) const { return memory_.offset_of(address); }

  // Whether some of its PEs are on other nodes.
  bool has_far() const { return far_ != nullptr; }
  bool is_near(uint32_t pe) const { return slot_of(pe) != kNoSlot; }

  // The address of a PE's instance of what this process knows at `symmetric`, for loads and stores.
  // Null: the PE is on another node; else see fault_of().
  std::byte* at(const void* symmetric, uint64_t bytes, uint32_t pe) const {
    if (pe >= all_near_) [[unlikely]]
      return at_slot(symmetric, bytes, pe);
    if (memory_.holds(symmetric, bytes)) return memory_.at(symmetric, pe);
    if (data_.holds(symmetric, bytes)) return data_.at(symmetric, pe);
    return nullptr;
  }
  Fault fault_of(const void* symmetric, uint64_t bytes, uint32_t pe) const;

  // Bytes from here into the PE's memory, and back. When put returns, `source` may change; what it
  // wrote is there for others once a quiet has ended, and before what is put after a fence.
  // peer_gone: the PE is on another node, and is not reached.
  Status put(void* dest, const void* source, uint64_t bytes, uint32_t pe) {
    std::byte* const there = at(dest, bytes, pe);
    if (there == nullptr) [[unlikely]]
      return put_far(dest, source, bytes, pe);
    copy_for_others(there, source, bytes);
    return {};
  }
  Status get(void* dest, const void* source, uint64_t bytes, uint32_t pe) {
    const std::byte* const there = at(source, bytes, pe);
    if (there == nullptr) [[unlikely]]
      return get_far(dest, source, bytes, pe);
    copy_from_others(dest, there, bytes);
    return {};
  }
  // As get(), but `dest` has the bytes only when finish() has ended, which is called for each
  // answer before it goes away (class Gets does it): several are on their way at once.
  Status start_get(void* dest, const void* source, uint64_t bytes, uint32_t pe, FarAnswer* answer) {
    const std::byte* const there = at(source, bytes, pe);
    if (there == nullptr) [[unlikely]]
      return start_get_far(dest, source, bytes, pe, answer);
    copy_from_others(dest, there, bytes);
    return {};
  }
  Status finish(FarAnswer* answer) { return far_ == nullptr ? answer->status : finish_far(answer); }
  // As get(), but `dest` has the bytes only after a quiet().
  Status get_later(void* dest, const void* source, uint64_t bytes, uint32_t pe) {
    const std::byte* const there = at(source, bytes, pe);
    if (there == nullptr) [[unlikely]]
      return get_later_far(dest, source, bytes, pe);
    copy_from_others(dest, there, bytes);
    return {};
  }
  // The bytes, and then the signal: who sees the signal sees the bytes.
  Status put_signal(void* dest, const void* source, uint64_t bytes, uint64_t* signal,
                    uint64_t value, SignalOp op, uint32_t pe) {
    std::byte* const word = at(signal, sizeof *signal, pe);
    if (word == nullptr) [[unlikely]]
      return put_signal_far(dest, source, bytes, signal, value, op, pe);
    if (bytes != 0) TRY(put(dest, source, bytes, pe));
    auto* const there = reinterpret_cast<uint64_t*>(word);
    if (op == SignalOp::set) {
      __atomic_store_n(there, value, __ATOMIC_RELEASE);
    } else {
      __atomic_fetch_add(there, value, __ATOMIC_RELEASE);
    }
    return {};
  }

  // What is put after it is there no earlier than what was put before it, at each PE.
  void fence() { fence_of<std::memory_order_release>(); }
  // What this process has put is there for all. peer_gone: some of it went to a PE of another node
  // that is not reached any more.
  Status quiet() {
    fence_of<std::memory_order_seq_cst>();
    return far_ == nullptr ? Status() : quiet_far();
  }
  // What it has put into one PE's memory.
  Status quiet(uint32_t pe) {
    fence_of<std::memory_order_seq_cst>();
    return is_near(pe) ? Status() : quiet_far(pe);
  }

  // Puts and gets of rows, and words that change at once, where at() finds nothing, because the PE
  // is on another node or for a reason that fault_of() tells. What calls of near PEs do with
  // addresses, see atomics.h and collectives.h.
  Status put_row_far(void* dest, const FarRow& row, const void* source, uint64_t source_stride,
                     uint32_t pe);
  Status get_row_far(void* dest, uint64_t dest_stride, const void* source, const FarRow& row,
                     uint32_t pe);
  Result<uint64_t> fetch_far(const void* word, const Change& change, uint32_t pe) const;
  // What was there is written to `dest`, of the word's width, before a quiet ends.
  Status fetch_later_far(void* dest, const void* word, const Change& change, uint32_t pe) const;
  Status change_far(void* word, const Change& change, uint32_t pe) const;

  // How a PE of another node is reached, as it is known now.
  FarWay far_way(uint32_t pe) const {
    return far_ == nullptr || pe >= size_ || is_near(pe) ? FarWay() : far_->way(pe);
  }
  // Lets what PEs of other nodes have sent arrive. For who looks at memory and does not wait.
  void progress() const {
    if (far_ != nullptr) far_->progress();
  }
  // Sets a PE's instance of a word by which PEs wait for each other, or adds to it: who sees it
  // sees what was put there before. No quiet waits for it.
  Status tell(uint64_t* word, uint64_t value, uint32_t pe, SignalOp op = SignalOp::set);

  // As job::Member::exchange(), among the group's ranks, in its time to join. All of them; `what`
  // names it.
  Outcome<std::vector<job::Brought>> exchange(const std::string& what, const job::Bring& bring);

  // As job::Member::follow(): a word that is not 0 once somebody of the group has ended, or left so
  // long ago that waits end.
  void follow_trouble(uint32_t* word);
  void unfollow_trouble(uint32_t* word);

  // Whether the group can still do anything: peer_gone, when one of its PEs has ended, or left some
  // time ago; cancelled, when the job was aborted.
  Status health() { return is_there(); }
  // The first of its PEs that has ended; or that has left, if none has.
  std::optional<uint32_t> first_gone() const;

  const WaitSettings& waits() const { return waits_; }
  template <class Ready>
  Status wait(Ready&& is_ready, engine::Time deadline = engine::kNever) {
    return symm::wait(waits_, std::forward<Ready>(is_ready), deadline);
  }

  // Returns when all of the team have called it. What was stored before is there for them after.
  Status sync(Team& team);
  // The same, where what was put before, too, is there for them after. Stores and the word that
  // tells of them keep their order, so among PEs of one node a sync does it.
  Status barrier(Team& team) {
    if (far_ != nullptr) TRY(quiet_far());
    return sync(team);
  }

  // This PE's part in a team: symmetric, as all of a group's memory; and that of another one, which
  // is near.
  TeamControl& control(const Team& team) const { return control_of(me_).teams[team.id()]; }
  TeamControl& control(const Team& team, uint32_t index) const {
    return control_of(team.set().pe(index)).teams[team.id()];
  }

 private:
  struct Mapped;  // what was mapped for it, and is unmapped with it
  static constexpr uint32_t kWorldTeam = 0;
  static constexpr uint32_t kNodeTeam = 1;
  static constexpr uint32_t kActiveSetTeam = kTeamsMax - 1;

  static constexpr uint32_t kNoSlot = UINT32_MAX;
  // Where a PE's memory is mapped, among those of this node.
  uint32_t slot_of(uint32_t pe) const {
    if (pe < all_near_) [[likely]]
      return pe;
    return slots_ != nullptr && pe < size_ ? slots_[pe] : kNoSlot;
  }

  Group(job::Member& member, const GroupOptions& options, std::vector<uint32_t> ranks,
        std::unique_ptr<Mapped> mapped);

  Status is_there() override;
  bool has_been_left();
  std::optional<uint32_t> first_ended() const;
  Control& control_of(uint32_t pe) const {
    return *reinterpret_cast<Control*>(memory_.peers + slot_of(pe) * memory_.stride);
  }
  // at(), where some PEs are on other nodes, or there is no such PE.
  std::byte* at_slot(const void* symmetric, uint64_t bytes, uint32_t pe) const;
  std::unique_ptr<Team> make_team(uint32_t id, const PeSet& set, uint32_t index) const;
  PeSet node_set() const;
  std::optional<FarPlace> far_place(const void* symmetric, uint64_t bytes, uint32_t pe) const;
  Status told_of(Status status, uint32_t pe) const;
  Status put_far(void* dest, const void* source, uint64_t bytes, uint32_t pe);
  Status get_far(void* dest, const void* source, uint64_t bytes, uint32_t pe);
  Status start_get_far(void* dest, const void* source, uint64_t bytes, uint32_t pe,
                       FarAnswer* answer);
  Status finish_far(FarAnswer* answer);
  Status get_later_far(void* dest, const void* source, uint64_t bytes, uint32_t pe);
  Status put_signal_far(void* dest, const void* source, uint64_t bytes, uint64_t* signal,
                        uint64_t value, SignalOp op, uint32_t pe);
  Status quiet_far();
  Status quiet_far(uint32_t pe);
  bool has_been_cut_off();
  Status sync_over_nodes(Team& team, uint64_t number);
  Status sync_in_rounds(Team& team, uint64_t number);
  Status sync_by_count(Team& team, uint64_t number);
  Result<uint32_t> agree_on_team(Team& parent);

  job::Member& member_;
  const std::string name_;
  const std::chrono::nanoseconds time_to_join_;
  const std::vector<uint32_t> ranks_;  // by PE
  const std::unique_ptr<Mapped> mapped_;
  uint32_t me_ = 0;
  uint32_t size_ = 0;
  uint32_t all_near_ = 0;            // the size; 0: some are on other nodes
  const uint32_t* slots_ = nullptr;  // by PE, where some are; of these kNoSlot
  bool is_crowded_ = false;  // more PEs on the node than processors, for one of them at least
  Window memory_;            // control and heap
  Window data_;
  Heap heap_;
  WaitSettings waits_;
  // When it was noticed that a PE had left, since the clock's beginning.
  static constexpr engine::Duration kNotLeft{-1};
  std::atomic<engine::Duration> left_at_{kNotLeft};
  std::atomic<uint32_t*> followed_{nullptr};  // the word of follow_trouble(), the last one
  std::atomic<engine::Duration> cut_off_at_{kNotLeft};  // when a connection had broken
  std::vector<std::unique_ptr<Team>> teams_;            // by their number; null: none
  Team* active_set_team_ = nullptr;                     // of them; null: there is none
  FarMemory* const far_;                                // of mapped_; null: all are on this node
};

// Gets that are on their way at once, from one place or several.
class Gets {
 public:
  explicit Gets(Group& group) : group_(group) {}
  ~Gets() { (void)group_.finish(&answer_); }
  Gets(const Gets&) = delete;
  Gets& operator=(const Gets&) = delete;

  Status add(void* dest, const void* source, uint64_t bytes, uint32_t pe) {
    return group_.start_get(dest, source, bytes, pe, &answer_);
  }
  // Waits for all. The next ones may be added afterwards.
  Status finish() { return group_.finish(&answer_); }

 private:
  Group& group_;
  FarAnswer answer_;
};

}  // namespace penstock::symm
