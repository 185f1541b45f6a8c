#include "launching.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <unistd.h>

#include "penstock/job/limits.h"

namespace penstock::job {

Result<void, Failure> check(const LaunchOptions& options) {
  if (options.command.empty()) return Failure{Code::invalid_argument, "say a program"};
  if (options.size == 0 || options.size > limits::kRanksMax) {
    return Failure{Code::invalid_argument,
                   fmt::format("a job has 1 to {} ranks", limits::kRanksMax)};
  }
  return {};
}

Launching::Launching(const LaunchOptions& options)
    : options_(options),
      signals_(loop_),
      ending_(loop_, {options.keep_going, options.until_asked, options.until_killed,
                      [this](int signal) { processes_->signal_all(signal); },
                      [this](const std::string& text) { say(text); }}) {}

Result<void, Failure> Launching::prepare() {
  TRY(check(options_));
  processes_ = std::make_unique<Processes>(loop_,
                                           Processes::Options{.size = options_.size,
                                                              .first = 0,
                                                              .count = options_.size,
                                                              .command = options_.command,
                                                              .environment = options_.environment,
                                                              .directory = options_.directory,
                                                              .label = options_.label,
                                                              .input = options_.input,
                                                              .output = options_.output,
                                                              .errors = options_.errors},
                                           [this](const End& end) { take_end(end); });
  TRY(processes_->find());
  TRY(files_.raise(options_.size * kFilesPerRank + kFilesBesides,
                   fmt::format("{} ranks", options_.size)));
  if (!loop_.open().ok()) return Failure{Status::from_errno(errno), std::strerror(errno)};
  TRY(processes_->open_streams());
  TRY(signals_.begin(options_.signals, [this](int number) { take_signal(number); }));
  room_ = std::make_unique<Room>(loop_, Room::Options{.size = options_.size, .launched = true},
                                 [this](const End& end) { failed(end); });
  return {};
}

Result<void, Failure> Launching::start_all() {
  return processes_->start_all(*room_, signals_.before(), files_.before());
}

int Launching::run() {
  while (processes_->running() > 0) loop_.turn();
  // What scripts of a job that failed have started, and left behind.
  if (ending_.exit_code() && !options_.keep_going) processes_->signal_all(SIGKILL);
  write_rest();
  return ending_.exit_code().value_or(0);
}

void Launching::write_rest() {
  processes_->finish_output();
  while (!stopped_ && !processes_->is_output_written()) loop_.turn();
}

void Launching::take_signal(int number) {
  processes_->signal_all(number);
  // This process stops, too, and goes on when it is told to.
  if (number == SIGTSTP) ::raise(SIGSTOP);
  // Nobody is left who could end by it.
  if (processes_->running() == 0 && number != SIGTSTP && number != SIGCONT) stopped_ = true;
}

void Launching::take_end(const End& end) {
  room_->ended(end);
  if (end.how != How::exited || end.code != 0) failed(end);
}

void Launching::failed(const End& end) {
  // Whatever it does, it is of no use to the job.
  if (end.how == How::lost) processes_->signal(end.rank, SIGKILL);
  ending_.failed(end);
}

void Launching::say(const std::string& text) {
  const std::string line = "penstock run: " + text + "\n";
  if (LabelledOutput* errors = processes_->labelled_errors(); errors != nullptr) {
    return errors->say(line);
  }
  (void)!::write(options_.errors, line.data(), line.size());
}

}  // namespace penstock::job
