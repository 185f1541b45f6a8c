#include "ending.h"

#include <csignal>

namespace penstock::job {

Ending::~Ending() {
  loop_.cancel(asking_);
  loop_.cancel(killing_);
}

void Ending::failed(const End& end, const std::string& where) {
  if (end.how == How::lost) options_.say(end.text + where);
  if (exit_code_) return;
  exit_code_ = exit_code_of(end);
  const bool ended_well = end.how == How::aborted && end.code == 0;
  if (*exit_code_ == 0 && !ended_well) exit_code_ = 1;
  if (end.how != How::lost && !ended_well) options_.say(end.text + where);
  if (!options_.keep_going || end.how == How::aborted) end_others();
}

void Ending::end_others() {
  if (ending_) return;
  ending_ = true;
  const auto asked = std::chrono::steady_clock::now() + options_.until_asked;
  asking_ = loop_.at(asked, [this] { options_.signal_all(SIGTERM); });
  killing_ = loop_.at(asked + options_.until_killed, [this] {
    killed_at_ = std::chrono::steady_clock::now();
    options_.signal_all(SIGKILL);
  });
}

}  // namespace penstock::job
