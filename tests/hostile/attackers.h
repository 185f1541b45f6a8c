// A few hostile processes at a time, of several users, for as long as a test wants.
#pragma once

#include "attacker.h"

#include <array>
#include <chrono>
#include <csignal>
#include <grp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock::test {

inline constexpr size_t kAttackers = 4;
inline constexpr uid_t kFirstUser = 1001;
inline constexpr uint64_t kUsers = 3;

class Attackers {
 public:
  Attackers(Victim victim, Tally& tally, uint64_t seed)
      : victim_(std::move(victim)), tally_(tally), random_(seed) {}
  ~Attackers() { end(); }
  Attackers(const Attackers&) = delete;
  Attackers& operator=(const Attackers&) = delete;

  // Starts new ones for those that have ended, and kills those whose time has come.
  void tend() {
    for (One& one : all_) {
      if (one.pid > 0 && Clock::now() > one.killed_at) ::kill(one.pid, SIGKILL);
      if (one.pid > 0 && ::waitpid(one.pid, nullptr, WNOHANG) != one.pid) continue;
      one.killed_at = Clock::now() + std::chrono::milliseconds(50 + random_.below(6000));
      one.pid = start(random_.next());
    }
  }
  void end() {
    for (One& one : all_) {
      if (one.pid <= 0) continue;
      ::kill(one.pid, SIGKILL);
      ::waitpid(one.pid, nullptr, 0);
      one.pid = 0;
    }
  }
  size_t started() const { return started_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct One {
    pid_t pid = 0;
    Clock::time_point killed_at;
  };

  pid_t start(uint64_t seed) {
    ++started_;
    const pid_t child = ::fork();
    if (child != 0) return child;
    const auto user = static_cast<uid_t>(kFirstUser + seed % kUsers);
    if (::geteuid() == 0 &&
        (::setgroups(0, nullptr) != 0 || ::setgid(user) != 0 || ::setuid(user) != 0)) {
      ::_exit(1);
    }
    ::setpriority(PRIO_PROCESS, 0, 10);
    std::signal(SIGPIPE, SIG_IGN);
    Attacker attacker(victim_, tally_, seed);
    attacker.run(std::chrono::milliseconds(500 + seed % 4000));
    ::_exit(0);
  }

  const Victim victim_;
  Tally& tally_;
  engine::SeededRandom random_;
  std::array<One, kAttackers> all_;
  size_t started_ = 0;
};

}  // namespace penstock::test
