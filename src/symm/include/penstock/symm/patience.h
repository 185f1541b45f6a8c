// How a PE waits for a word that another PE writes: it looks again and again, then lets others run
// between two looks, and asks now and then whether there is still somebody to wait for.
#pragma once

#include <cstdint>

#include "penstock/engine.h"
#include "penstock/symm/far.h"

namespace penstock::symm {

// Answers whether a wait makes sense still; asked by the thread that waits.
class Company {
 public:
  virtual ~Company() = default;
  // Not ok: somebody without whom the wait may never end is gone (peer_gone), or the job was
  // aborted (cancelled).
  virtual Status is_there() = 0;
};

struct WaitSettings {
  Company* company = nullptr;
  const engine::Clock* clock = nullptr;
  // Looks before others may run. Few where there are more PEs than processors: who is waited for
  // needs one.
  uint32_t looks = 0;
  // Of PEs on other nodes, whose words come only to who receives them; null: there are none.
  FarMemory* far = nullptr;
  bool is_alone = false;  // no other PE of the group is on this node
};

class Patience {
 public:
  Patience(const WaitSettings& settings, engine::Time deadline)
      : settings_(settings), deadline_(deadline) {}

  // Between two looks. Ok: look again.
  Status pause() {
    if (settings_.far != nullptr) return pause_for_far();
    if (++turns_ <= settings_.looks) {
      relax();
      return {};
    }
    return let_others_run();
  }

  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

 private:
  Status let_others_run();
  Status pause_for_far();
  Status ask();

  const WaitSettings& settings_;
  const engine::Time deadline_;
  uint32_t turns_ = 0;
  uint32_t idle_turns_ = 0;  // since something came from another node
};

// Looks until `is_ready()`, or ends with what ended the wait. What is ready at the deadline is
// ready.
template <class Ready>
Status wait(const WaitSettings& settings, Ready&& is_ready,
            engine::Time deadline = engine::kNever) {
  if (is_ready()) return {};
  Patience patience(settings, deadline);
  while (true) {
    const Status status = patience.pause();
    if (is_ready()) return {};
    if (!status.ok()) return status;
  }
}

}  // namespace penstock::symm
