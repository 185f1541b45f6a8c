#include "run.h"

#include <algorithm>
#include <chrono>

namespace penstock::differential {
namespace {

class Shrinker {
 public:
  Shrinker(Program program, const Difference& difference, const Settings& settings,
           int64_t milliseconds)
      : best_(std::move(program)),
        signature_(difference.signature),
        settings_(settings),
        deadline_(Clock::now() + std::chrono::milliseconds(milliseconds)) {}

  Program run() {
    size_t before = 0;
    do {
      before = best_.size();
      leave_out();
      for (size_t step = 0; step < best_.size() && !late(); step++) simplify(step);
    } while (best_.size() < before && !late());
    return best_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool late() const { return Clock::now() > deadline_; }

  // Takes it if it still finds the same; what comes behind the difference is cut off.
  bool better(Program candidate) {
    const Outcome outcome = penstock::differential::run(candidate, settings_);
    if (!outcome.difference || outcome.difference->signature != signature_) return false;
    candidate.resize(std::min(candidate.size(), outcome.difference->step + 1));
    best_ = std::move(candidate);
    return true;
  }

  // Pieces, large ones first.
  void leave_out() {
    for (size_t piece = std::max<size_t>(best_.size() / 2, 1); piece >= 1; piece /= 2) {
      // From the end: what was made late depends on what was made early.
      for (size_t end = best_.size(); end > 0 && !late();) {
        const size_t begin = end > piece ? end - piece : 0;
        Program without = best_;
        without.erase(without.begin() + static_cast<ptrdiff_t>(begin),
                      without.begin() + static_cast<ptrdiff_t>(end));
        better(std::move(without));
        end = std::min(begin, best_.size());
      }
    }
  }

  template <typename Change>
  void attempt(size_t step, Change change) {
    if (step >= best_.size() || late()) return;
    Program candidate = best_;
    change(candidate[step]);
    if (candidate[step] == best_[step]) return;
    better(std::move(candidate));
  }

  void simplify(size_t step) {
    attempt(step, [](Operation& to) { to.actor = 0; });
    attempt(step, [](Operation& to) { to.at = -1; });
    attempt(step, [](Operation& to) {
      if (to.kind != Kind::lose && to.kind != Kind::restore) to.mount = 0;
    });
    attempt(step, [](Operation& to) {
      const size_t slash = to.path.find('/');
      if (slash != std::string::npos && slash + 1 < to.path.size()) to.path.erase(0, slash + 1);
    });
    for (size_t i = 0; i < 4; i++) {
      attempt(step, [&](Operation& to) { to.numbers[i] = 0; });
      attempt(step, [&](Operation& to) {
        if (to.numbers[i] > 8192) to.numbers[i] = 4096;
      });
      attempt(step, [&](Operation& to) {
        if (to.numbers[i] > 10) to.numbers[i] = 10;
      });
    }
  }

  Program best_;
  const std::string signature_;
  const Settings settings_;
  const Clock::time_point deadline_;
};

}  // namespace

Program shrink(const Program& program, const Difference& difference, const Settings& settings,
               int64_t milliseconds) {
  Program start = program;
  start.resize(std::min(start.size(), difference.step + 1));
  return Shrinker(std::move(start), difference, settings, milliseconds).run();
}

}  // namespace penstock::differential
