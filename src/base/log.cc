#include "penstock/base/log.h"

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace penstock::log {
namespace {

constexpr const char* kTextPattern = "%Y-%m-%dT%H:%M:%S.%e %l %v";
// The message comes as members of the object.
constexpr const char* kJsonPattern = R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})";

bool wants_json() {
  const char* const format = std::getenv("PENSTOCK_LOG_FORMAT");
  return format != nullptr && std::string_view(format) == "json";
}

// As a JSON string. Bytes that are no ASCII stay as they are: messages are UTF-8.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

using Clock = std::chrono::steady_clock;

// A line that was written, and how often the same came since.
struct Line {
  Level level = Level::warning;
  Clock::time_point since;
  uint64_t again = 0;
};
// The same line is written once in this time; what comes meanwhile is counted and told after it.
constexpr auto kQuiet = std::chrono::seconds(10);
// More different lines are not remembered.
constexpr size_t kLinesMax = 256;

// Logging is set up once and replaced at most once (by set_file), so a mutex is no burden.
struct State {
  std::mutex mutex;
  const bool json = wants_json();
  std::map<std::string, Line, std::less<>> lines;
  Level level = Level::warning;
  std::shared_ptr<spdlog::logger> logger = make(std::make_shared<spdlog::sinks::stderr_sink_mt>());

  std::shared_ptr<spdlog::logger> make(spdlog::sink_ptr sink) const {
    auto made = std::make_shared<spdlog::logger>("penstock", std::move(sink));
    made->set_pattern(json ? kJsonPattern : kTextPattern);
    made->set_level(spdlog::level::trace);
    made->flush_on(spdlog::level::trace);
    return made;
  }
};

State& state() {
  static State* instance = new State;  // lives for ever: threads may log while the process exits
  return *instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
    case Level::off:
      break;
  }
  return spdlog::level::off;
}

// With the mutex held, as the next. `again`: how often the line came since it was written last.
void put(const State& log, Level level, std::string_view message, uint64_t again) {
  const char* const pattern = again == 0 ? "{}"
                              : log.json ? "{},\"repeated\":{}"
                                         : "{} (again, {} times)";
  const std::string text = log.json ? "\"message\":" + quoted(message) : std::string(message);
  const std::string line = fmt::format(fmt::runtime(pattern), text, again);
  log.logger->log(to_spdlog(level), std::string_view(line));
}

// Writes what came again while it was quiet, and forgets what did not.
void tell_repeats(State& log, Clock::time_point now) {
  for (auto line = log.lines.begin(); line != log.lines.end();) {
    if (now - line->second.since < kQuiet) {
      ++line;
    } else if (line->second.again == 0) {
      line = log.lines.erase(line);
    } else {
      put(log, line->second.level, line->first, line->second.again);
      line->second = {line->second.level, now, 0};
      ++line;
    }
  }
}

}  // namespace

void set_level(Level level) {
  std::lock_guard lock(state().mutex);
  state().level = level;
}

bool set_file(const std::string& path) {
  try {
    auto logger = state().make(std::make_shared<spdlog::sinks::basic_file_sink_mt>(path));
    std::lock_guard lock(state().mutex);
    state().logger = std::move(logger);
    return true;
  } catch (const spdlog::spdlog_ex&) {
    return false;
  }
}

void write(Level level, std::string_view message) {
  State& log = state();
  const std::lock_guard lock(log.mutex);
  if (level < log.level || level == Level::off) return;
  const Clock::time_point now = Clock::now();
  tell_repeats(log, now);
  const auto seen = log.lines.find(message);
  if (seen != log.lines.end()) {
    ++seen->second.again;
    return;
  }
  if (log.lines.size() < kLinesMax) log.lines.emplace(message, Line{level, now, 0});
  put(log, level, message, 0);
}

}  // namespace penstock::log
