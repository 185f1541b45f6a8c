// Where the PEs of a team find one another that is no part of another team: in the memory of the
// PE that has made the team's unique id, on whatever node.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "penstock/symm.h"

namespace penstock::nvshmem {

struct MeetingTable;  // in each PE's memory, symmetric

// Of one group, which outlives it. Thread safe, but that a PE makes one team at a time.
class TeamMeetings {
 public:
  // Together with all of the group, as its heap is used.
  static Outcome<std::unique_ptr<TeamMeetings>> make(symm::Group& group);

  // An id for one team; which names a place here until all of the team have met. None: too many are
  // open.
  std::optional<uint64_t> open();

  // Together with `size` PEs of the id, of which each has an index of its own: the team in which
  // their order is that of the indices. Fails for all of them, when they are no row with equal
  // steps (not_supported), or when no number is free (busy); and for who waits or comes, when the
  // id is not of an open meeting, another came with this index, or the sizes differ
  // (invalid_argument), when somebody does not come until `deadline` (timed_out), or ended
  // (peer_gone).
  Outcome<symm::Team*> meet(uint64_t id, uint32_t size, uint32_t index, engine::Time deadline);

 private:
  TeamMeetings(symm::Group& group, MeetingTable* tables) : group_(group), tables_(tables) {}
  // A table, as it is named in all PEs' memory, and whose it is.
  struct Place {
    MeetingTable* table;
    uint32_t pe;
  };
  Outcome<Place> find(uint64_t id) const;
  Outcome<void> take_seat(const Place& place, uint32_t size, uint32_t index);
  Outcome<void> wait_for(const Place& place, const std::function<Result<bool>()>& is_so,
                         engine::Time deadline, const std::function<std::string()>& how_far);
  Outcome<symm::Team*> make_team(const Place& place, uint32_t size);

  symm::Group& group_;
  MeetingTable* const tables_;  // this PE's own
  std::mutex mutex_;            // of open()
};

}  // namespace penstock::nvshmem
