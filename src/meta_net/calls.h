// Calls to a MetaService by threads that may block, each repeated until it is answered.
#pragma once

#include "frame.h"
#include "messages.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "penstock/meta_net/remote_meta.h"

namespace penstock::meta_net {

// Slots of one caller, which each have one call at a time. Thread safe.
class SlotPool {
 public:
  struct Slot {
    uint32_t number = 0;
    uint64_t sequence = 0;
  };
  explicit SlotPool(uint32_t count);

  // The next call of some slot; busy when none gets free in time.
  Result<Slot> take(engine::Duration at_most);
  void give_back(const Slot& slot);

 private:
  engine::Mutex mutex_;
  engine::Condition free_again_;
  std::vector<Slot> free_;  // with the sequences of their last calls
};

// Thread safe.
class Calls {
 public:
  explicit Calls(const RemoteMetaConfig& config);

  // The answer's bytes. `room`: of the answer, where it is likely to be long. `at_most`: where it
  // is to take less than other calls.
  Result<std::string> run(const Request& request, size_t room,
                          engine::Duration at_most = engine::Duration::max());
  void hurry(engine::Duration call_time);
  RemoteMeta::Figures figures() const;
  // Counts it as one of which nothing is known, if it changes something.
  Status unknown(bool changes, Status status);

 private:
  // One call over all of its tries.
  struct Call {
    std::string asked;
    RequestHeader header;
    bool changes = false;
    size_t room = 0;
    bool may_have_happened = false;  // by some try
    engine::Time begun{};
    engine::Time deadline{};
    engine::Duration pause{};
  };
  struct Try;

  Result<std::string> run(Call& call);
  // The answer, or what the call ends with; none: it is to be tried again at once, or in a while.
  std::optional<Result<std::string>> take(Call& call, const Try& tried);
  std::optional<Status> take_refusal(Call& call, const Try& tried);
  void send(Call& call, Try& tried);
  // False: the time is over.
  bool pause(Call& call);
  // The life of the service, which it asks for where it is not known.
  Status learn_life(engine::Time deadline);
  engine::Time deadline_of(const Call& call) const;
  engine::Time now() const { return config_.loop->clock().now(); }

  const RemoteMetaConfig config_;
  const uint64_t caller_;
  SlotPool slots_;
  std::atomic<uint64_t> life_{0};     // of the service, as it was last heard; 0: never
  std::atomic<uint32_t> version_{0};  // in which it is asked
  // The time is stored first, and counts from then on; it is none before.
  std::atomic<engine::Time> hurried_at_{};
  std::atomic<engine::Duration> hurried_time_{};
  // Relaxed: they order nothing.
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> tries_{0};
  std::atomic<uint64_t> unknown_{0};
  engine::Mutex mutex_;
  engine::Condition never_;      // what pauses wait for
  engine::SeededRandom random_;  // under the mutex
};

}  // namespace penstock::meta_net
