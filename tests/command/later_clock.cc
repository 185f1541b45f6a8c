// Preloaded into a node of a test: the wall clock of its machine is PENSTOCK_LATER_SECONDS ahead.
#include <cstdlib>
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const long later = [] {
    const char* const seconds = std::getenv("PENSTOCK_LATER_SECONDS");
    return seconds != nullptr ? std::atol(seconds) : 0;
  }();
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += later;
  return result;
}
