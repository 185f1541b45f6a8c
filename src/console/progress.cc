#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

#include "penstock/console.h"
#include "penstock/engine.h"

namespace penstock::console {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(200);
constexpr auto kPlainLine = std::chrono::seconds(5);

int64_t now() {
  return engine::system_clock().now().time_since_epoch().count();
}

size_t terminal_columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
  return 80;
}

}  // namespace

Progress::Progress(std::string verb, bool quiet)
    : verb_(std::move(verb)),
      quiet_(quiet),
      terminal_(is_terminal(STDERR_FILENO)),
      started_(now()) {
  if (!quiet_) thread_ = std::thread([this] { run(); });
}

Progress::~Progress() {
  finish();
}

double Progress::seconds() const {
  return static_cast<double>(now() - started_) / 1e9;
}

void Progress::finish(bool whole) {
  {
    std::lock_guard lock(mutex_);
    if (finished_) return;
    finished_ = true;
    whole_ = whole;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Progress::run() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, terminal_ ? kRedraw : kPlainLine, [this] { return finished_; })) {
    draw(false);
  }
  // Of what failed before it began there is nothing to tell.
  if (whole_ || bytes.load() > 0 || files.load() > 0) draw(true);
}

std::string Progress::line() const {
  const double elapsed = std::max(seconds(), 1e-3);
  const auto done_bytes = static_cast<double>(bytes.load());
  const auto all_bytes = static_cast<double>(bytes_total.load());
  std::string text = verb_ + "  " + human_count(static_cast<double>(files.load()));
  if (totals_known.load()) text += " of " + human_count(static_cast<double>(files_total.load()));
  text += " files, " + human_bytes(done_bytes);
  if (totals_known.load()) text += " of " + human_bytes(all_bytes);
  text += ", " + human_rate(done_bytes / elapsed);
  if (totals_known.load() && done_bytes > 0 && all_bytes > done_bytes) {
    text += ", " + human_duration((all_bytes - done_bytes) * elapsed / done_bytes) + " left";
  }
  return text;
}

// Of the bytes that are done. With mutex_ held.
double Progress::share() const {
  if (whole_) return 1.0;
  const auto all = static_cast<double>(bytes_total.load());
  return totals_known.load() && all > 0 ? static_cast<double>(bytes.load()) / all : 0.0;
}

void Progress::draw(bool last) {
  std::string text = line();
  if (!terminal_) {
    std::fprintf(stderr, "%s\n", text.c_str());
    return;
  }
  const size_t columns = terminal_columns();
  if (columns > text.size() + 14) {
    const size_t width = std::min<size_t>(30, columns - text.size() - 4);
    const auto full =
        static_cast<size_t>(std::clamp(share(), 0.0, 1.0) * static_cast<double>(width));
    text += "  [" + std::string(full, '#') + std::string(width - full, '.') + "]";
  }
  if (text.size() >= columns) text.resize(columns - 1);
  std::fprintf(stderr, "\r\033[K%s%s", text.c_str(), last ? "\n" : "");
  std::fflush(stderr);
}

}  // namespace penstock::console
