#include "penstock/base/log.h"

#include <memory>
#include <mutex>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace penstock::log {
namespace {

constexpr const char* kPattern = "%Y-%m-%dT%H:%M:%S.%e %l %v";

// Logging is set up once and replaced at most once (by set_file), so a mutex is no burden.
struct State {
  std::mutex mutex;
  Level level = Level::warning;
  std::shared_ptr<spdlog::logger> logger = make(std::make_shared<spdlog::sinks::stderr_sink_mt>());

  static std::shared_ptr<spdlog::logger> make(spdlog::sink_ptr sink) {
    auto logger = std::make_shared<spdlog::logger>("penstock", std::move(sink));
    logger->set_pattern(kPattern);
    logger->set_level(spdlog::level::trace);
    logger->flush_on(spdlog::level::trace);
    return logger;
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

}  // namespace

void set_level(Level level) {
  std::lock_guard lock(state().mutex);
  state().level = level;
}

bool set_file(const std::string& path) {
  try {
    auto logger = State::make(std::make_shared<spdlog::sinks::basic_file_sink_mt>(path));
    std::lock_guard lock(state().mutex);
    state().logger = std::move(logger);
    return true;
  } catch (const spdlog::spdlog_ex&) {
    return false;
  }
}

void write(Level level, std::string_view message) {
  std::shared_ptr<spdlog::logger> logger;
  {
    std::lock_guard lock(state().mutex);
    if (level < state().level || level == Level::off) return;
    logger = state().logger;
  }
  logger->log(to_spdlog(level), message);
}

}  // namespace penstock::log
