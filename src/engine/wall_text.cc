#include "penstock/engine/wall_text.h"

#include <ctime>

namespace penstock::engine {

std::string text_of(WallTime time) {
  constexpr int64_t kSecond = 1'000'000'000;
  const time_t seconds = time.nanoseconds / kSecond;
  std::tm parts{};
  char text[64] = "?";
  if (::gmtime_r(&seconds, &parts) != nullptr) {
    (void)std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  }
  return text;
}

}  // namespace penstock::engine
