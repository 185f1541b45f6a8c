// Mail between the proxies of a group's PEs, in the group's memory on hosts: who sends puts a frame
// into the target's heap, and tells how far it has come.
#pragma once

#include "device_mail.h"

#include <vector>

#include "penstock/symm/group.h"

namespace penstock::symm {

// Of each lane; several frames of the largest size, so that one is on its way while another one is
// taken.
inline constexpr uint64_t kMailLaneBytes = uint64_t{256} << 10;

class GroupMail final : public DeviceMail {
 public:
  // Together with all of the group, whose heap has room for it; what was sent before another PE's
  // has returned is lost, so they meet behind it. no_memory: the group's heap is too small.
  static Outcome<std::unique_ptr<GroupMail>> make(Group& group);
  ~GroupMail() override;

  uint64_t room(uint32_t pe, MailLane lane) override;
  Status send(uint32_t pe, MailLane lane, const MailFrame& frame, Bytes body) override;
  Result<bool> peek(uint32_t pe, MailLane lane, MailFrame* out) override;
  void take(uint32_t pe, MailLane lane, MutableBytes body) override;
  void progress() override { group_.progress(); }
  Status flush(uint32_t pe) override;

 private:
  // In each PE's heap, by the other PE and lane.
  struct alignas(64) Words {
    uint64_t come;               // by that PE: how many bytes it has sent here, ever
    alignas(64) uint64_t taken;  // by that PE: how many of those from here it has taken
  };
  struct Lane {
    uint64_t sent = 0;
    uint64_t told = 0;  // of them: the target knows
    uint64_t taken = 0;
    uint64_t credited = 0;  // of them: the sender knows
  };
  GroupMail(Group& group, uint64_t place);
  static uint64_t bytes_for(uint32_t pes);
  uint32_t index(uint32_t pe, MailLane lane) const {
    return pe * kMailLanes + static_cast<uint32_t>(lane);
  }
  // Of this PE's own instance: what `pe` writes here. Of another one's: what this PE writes there.
  Words& words(uint32_t pe, MailLane lane) const { return words_[index(pe, lane)]; }
  std::byte* bytes(uint32_t pe, MailLane lane) const {
    return bytes_ + uint64_t{index(pe, lane)} * kMailLaneBytes;
  }
  Status put(uint32_t pe, MailLane lane, uint64_t at, Bytes from);

  Group& group_;
  const uint64_t place_;
  Words* const words_;
  std::byte* const bytes_;
  std::vector<Lane> lanes_;
};

}  // namespace penstock::symm
