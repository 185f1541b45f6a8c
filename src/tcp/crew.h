// Threads that seal and open records of large payloads beside the loops of a process: a loop has
// the socket's bytes to copy as well, and the two together take it twice as long as the cipher.
#pragma once

#include "limits.h"

#include <atomic>
#include <functional>
#include <vector>

#include "penstock/engine.h"

namespace penstock::tcp {

// Any thread. One loop at a time is helped; others work alone meanwhile, as all do for a while when
// a helper has lost its processor in the middle, or none came: there are no idle ones then.
class Crew {
 public:
  // Threads are made when there is something to share.
  explicit Crew(uint32_t helpers) : helpers_(helpers) {}
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // As many as leave most of the processors to others that this process may run on.
  static uint32_t helpers_here();

  // Who may work at once: whoever shares is number 0.
  uint32_t hands() const { return helpers_ + 1; }

  // What whoever shares does first, while the others have begun already; may be none.
  using Meanwhile = std::function<void()>;

  // Calls work(part, hand) once for each part below `parts`, in any order and thread; a hand does
  // one at a time. Returns when all are done, and is never called from within.
  template <class Work>
  void share(uint32_t parts, const Work& work, const Meanwhile& meanwhile = {}) {
    const Task task{&work, [](const void* what, uint32_t part, uint32_t hand) {
                      (*static_cast<const Work*>(what))(part, hand);
                    }};
    share(parts, task, meanwhile);
  }

 private:
  struct Task {
    const void* work = nullptr;
    void (*call)(const void* work, uint32_t part, uint32_t hand) = nullptr;
  };
  void share(uint32_t parts, const Task& task, const Meanwhile& meanwhile);
  bool may_help();
  void wake();
  bool do_next(uint32_t hand);
  void note(uint32_t helped, engine::Duration waited);
  void run(uint32_t hand);
  bool idle();

  const uint32_t helpers_;
  // Whoever holds it is helped, and has what stands below it.
  engine::Mutex used_;
  std::vector<engine::Thread> threads_;
  engine::Time rests_until_{};
  engine::Duration rest_{};
  uint32_t fruitless_ = 0;  // times in a row that nobody came
  Task task_;               // written before parts_ tells of it

  // How many parts there are, and which is the next that nobody has taken: two halves.
  alignas(64) std::atomic<uint64_t> parts_{0};
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<uint32_t> sleeping_{0};  // helpers that wait for calls_ to change
  std::atomic<uint32_t> calls_{0};
  std::atomic<bool> over_{false};
};

}  // namespace penstock::tcp
