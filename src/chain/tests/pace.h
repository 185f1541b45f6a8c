// How stories of chains go.
#pragma once

#include <chrono>
#include <cstdint>

namespace penstock::chain {

// How a story goes: some are long, with time to recover; in others all that happens meets; and in
// some the clients wait for new versions of the chain, and are at their quickest while these begin.
// In late ones, beside that, much is lost between replicas and said again, while some of them hear
// of new versions much later than others.
struct Pace {
  int steps = 18;
  std::chrono::milliseconds between_steps{300};  // of a client, at most
  std::chrono::milliseconds between_faults{1500};
  uint64_t faults = 5;
  uint64_t chunks = 2;
  uint64_t registers = 2;
  bool watchful = false;
  int burst = 6;
  bool late = false;
  uint32_t removals_permille = 0;  // of all but the first chunk, to which slots go on
};
inline constexpr Pace kCalm{};
inline constexpr Pace kHasty{.steps = 50,
                             .between_steps = std::chrono::milliseconds(60),
                             .between_faults = std::chrono::milliseconds(400),
                             .faults = 10,
                             .chunks = 1,
                             .registers = 1};
inline constexpr Pace kWatchful{.steps = 60,
                                .between_steps = std::chrono::milliseconds(6),
                                .between_faults = std::chrono::milliseconds(1200),
                                .faults = 6,
                                .chunks = 1,
                                .registers = 1,
                                .watchful = true};
inline constexpr Pace kLate{.steps = 60,
                            .between_steps = std::chrono::milliseconds(4),
                            .between_faults = std::chrono::milliseconds(1200),
                            .faults = 6,
                            .chunks = 1,
                            .registers = 1,
                            .watchful = true,
                            .burst = 12,
                            .late = true};

inline const Pace& pace_of(uint64_t dice) {
  return dice == 0 ? kCalm : dice == 1 ? kHasty : kWatchful;
}

enum class Kind : uint8_t {
  usual,
  damaged,        // disks change what is on them
  late,           // nodes hear of versions at very different times
  removing,       // chunks are removed
  removing_late,  // both
};

inline Pace removing(Pace pace) {
  pace.chunks = 2;
  pace.registers = 1;
  pace.removals_permille = 150;
  return pace;
}

inline Pace pace_for(Kind kind, uint64_t dice) {
  switch (kind) {
    case Kind::late:
      return kLate;
    case Kind::removing:
      return removing(pace_of(dice));
    case Kind::removing_late:
      return removing(kLate);
    default:
      return pace_of(dice);
  }
}

}  // namespace penstock::chain
