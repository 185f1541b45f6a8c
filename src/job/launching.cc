#include "launching.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/job/limits.h"

namespace penstock::job {
namespace {

constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
// Of the launcher for each rank: its connection, its process, and its output twice.
constexpr uint64_t kFilesPerRank = 4;
constexpr uint64_t kFilesBesides = 64;

// Above the standard ones, so that they can be put in the place of those.
UniqueFd above_standard(int fd) {
  return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
}

}  // namespace

Launching::Launching(const LaunchOptions& options) : options_(options) {}

Launching::~Launching() {
  if (running_ > 0) signal_all(SIGKILL);
  for (Process& process : processes_) {
    if (process.pid == 0) continue;
    while (::waitpid(process.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (files_.rlim_max > 0) ::setrlimit(RLIMIT_NOFILE, &files_);
  if (of_children_) ::sigaction(SIGCHLD, &*of_children_, nullptr);
  if (!masked_) return;
  // Those that came meanwhile were for the job.
  const timespec now{};
  while (::sigtimedwait(&blocked_, nullptr, &now) > 0) {
  }
  ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
}

Result<void, Failure> Launching::prepare() {
  if (options_.command.empty()) return Failure{Code::invalid_argument, "say a program"};
  if (options_.size == 0 || options_.size > limits::kRanksMax) {
    return Failure{Code::invalid_argument,
                   fmt::format("a job has 1 to {} ranks", limits::kRanksMax)};
  }
  TRY_ASSIGN(program_, find_program(options_.command[0], options_.directory,
                                    environment_with(options_.environment)));
  TRY(raise_limits());
  nothing_.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
  input_ = above_standard(options_.input);
  output_ = above_standard(options_.output);
  errors_ = above_standard(options_.errors);
  nothing_ = above_standard(nothing_.get());
  if (!nothing_ || !input_ || !output_ || !errors_ || !loop_.open().ok()) {
    return Failure{Status::from_errno(errno), std::strerror(errno)};
  }
  TRY(watch_signals());
  if (options_.label) {
    labelled_output_ = std::make_unique<LabelledOutput>(loop_, output_.get());
    labelled_errors_ = std::make_unique<LabelledOutput>(loop_, errors_.get());
  }
  room_ = std::make_unique<Room>(loop_, Room::Options{.size = options_.size, .launched = true},
                                 [this](const End& end) { failed(end); });
  processes_.resize(options_.size);
  return {};
}

Result<void, Failure> Launching::raise_limits() {
  ::getrlimit(RLIMIT_NOFILE, &files_);
  const rlim_t wanted = options_.size * kFilesPerRank + kFilesBesides;
  if (files_.rlim_max < wanted) {
    return Failure{Code::busy,
                   fmt::format("{} ranks take {} open files, and {} are allowed: raise the "
                               "hard limit (ulimit -Hn, or LimitNOFILE of the service)",
                               options_.size, wanted, files_.rlim_max)};
  }
  // All there is: ranks bring descriptors, too.
  const rlimit most{files_.rlim_max, files_.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &most);
  return {};
}

Result<void, Failure> Launching::watch_signals() {
  // Who started this process may not want to hear of children; the launcher does.
  struct sigaction children {};
  ::sigaction(SIGCHLD, nullptr, &children);
  if (children.sa_handler == SIG_IGN || (children.sa_flags & SA_NOCLDWAIT) != 0) {
    of_children_ = children;
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &usual, nullptr);
  }
  sigset_t passed;
  ::sigemptyset(&passed);
  if (options_.signals) {
    for (const int signal : kPassedOn) ::sigaddset(&passed, signal);
  }
  blocked_ = passed;
  // A reader of our output that is gone is no end of this process.
  ::sigaddset(&blocked_, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &blocked_, &mask_);
  masked_ = true;
  signals_.reset(::signalfd(-1, &passed, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_ || !loop_.watch(signals_.get(), EPOLLIN, [this](uint32_t) { take_signals(); })) {
    return Failure{Status::from_errno(errno), std::strerror(errno)};
  }
  return {};
}

Result<void, Failure> Launching::start_all() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return Failure{Status::from_errno(errno), std::strerror(errno)};
  }
  const UniqueFd failures(ends[0]);
  UniqueFd told(ends[1]);
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    TRY(start(rank, above_standard(told.get())));
  }
  // It is at its end when all have become the program.
  told.reset();
  if (auto failure = failure_of_start(failures.get())) return std::move(*failure);
  return {};
}

Result<void, Failure> Launching::start(uint32_t rank, UniqueFd failures) {
  const auto fail = [&](Status status) {
    return Failure{status, fmt::format("rank {} of {} cannot be started: {} (ulimit -u, ulimit -n)",
                                       rank, options_.size, status.name())};
  };
  Result<UniqueFd> connected = room_->connect(rank);
  if (!connected) return fail(connected.error());
  UniqueFd socket = std::move(*connected);
  struct stat st {};
  ASSERT(::fstat(socket.get(), &st) == 0);
  Environment environment = options_.environment;
  environment.emplace_back("PENSTOCK_JOB_FD", std::to_string(socket.get()));
  environment.emplace_back("PENSTOCK_JOB_SOCKET", std::to_string(st.st_ino));
  environment.emplace_back("PENSTOCK_RANK", std::to_string(rank));
  environment.emplace_back("PENSTOCK_SIZE", std::to_string(options_.size));
  environment.emplace_back("PENSTOCK_LOCAL_RANK", std::to_string(rank));
  environment.emplace_back("PENSTOCK_LOCAL_SIZE", std::to_string(options_.size));
  Spawn what;
  what.program = program_;
  what.arguments = options_.command;
  what.environment = environment_with(environment);
  what.directory = options_.directory;
  UniqueFd input, output, errors;
  if (const Status opened = open_streams(rank, &input, &output, &errors); !opened.ok()) {
    return fail(opened);
  }
  what.input = input.get();
  what.output = output.get();
  what.errors = errors.get();
  what.kept = socket.get();
  what.failures = failures.get();
  what.rank = rank;
  what.signals = mask_;
  what.files = files_;
  const Result<pid_t> pid = spawn(what);
  if (!pid) return fail(pid.error());
  Process& process = processes_[rank];
  process.pid = *pid;
  ++running_;
  process.ends.reset(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!process.ends) return fail(Status::from_errno(errno));
  const auto token =
      loop_.watch(process.ends.get(), EPOLLIN, [this, rank](uint32_t) { take_end(rank); });
  if (!token) return fail(token.error());
  process.token = *token;
  return {};
}

Status Launching::open_streams(uint32_t rank, UniqueFd* input, UniqueFd* output, UniqueFd* errors) {
  const auto duplicate = [](const UniqueFd& fd) -> Result<UniqueFd> {
    UniqueFd copy = above_standard(fd.get());
    if (!copy) return Status::from_errno(errno);
    return copy;
  };
  if (rank == 0 && ::isatty(input_.get()) == 1) {
    feeder_ = std::make_unique<Feeder>(loop_, input_.get());
    TRY_ASSIGN(*input, feeder_->open());
  } else {
    TRY_ASSIGN(*input, duplicate(rank == 0 ? input_ : nothing_));
  }
  if (labelled_output_) {
    TRY_ASSIGN(*output, labelled_output_->open(rank));
    TRY_ASSIGN(*errors, labelled_errors_->open(rank));
  } else {
    TRY_ASSIGN(*output, duplicate(output_));
    TRY_ASSIGN(*errors, duplicate(errors_));
  }
  return {};
}

std::optional<Failure> Launching::failure_of_start(int failures) const {
  SpawnFailure failure;
  ssize_t got = 0;
  do {
    got = ::read(failures, &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof failure) return std::nullopt;
  const bool denied = failure.error == EACCES || failure.error == EPERM || failure.error == ENOEXEC;
  return Failure{
      denied ? Code::access_denied : Code::not_found,
      fmt::format("{}: {}", failure.stage == 0 ? options_.directory : options_.command[0],
                  std::strerror(failure.error))};
}

int Launching::run() {
  while (running_ > 0) loop_.turn();
  // What scripts of a job that failed have started, and left behind.
  if (exit_code_ && !options_.keep_going) signal_all(SIGKILL);
  write_rest();
  return exit_code_.value_or(0);
}

void Launching::write_rest() {
  if (!labelled_output_) return;
  labelled_output_->finish();
  labelled_errors_->finish();
  while (!stopped_ && !(labelled_output_->is_written() && labelled_errors_->is_written()))
    loop_.turn();
}

void Launching::take_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    signal_all(static_cast<int>(info.ssi_signo));
    // This process stops, too, and goes on when it is told to.
    if (info.ssi_signo == SIGTSTP) ::raise(SIGSTOP);
    // Nobody is left who could end by it.
    if (running_ == 0 && info.ssi_signo != SIGTSTP && info.ssi_signo != SIGCONT) stopped_ = true;
  }
}

void Launching::take_end(uint32_t rank) {
  Process& process = processes_[rank];
  siginfo_t info{};
  // It stays a zombie: its number is that of its group, in which there may be others.
  if (::waitid(P_PIDFD, static_cast<id_t>(process.ends.get()), &info,
               WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return;
  }
  loop_.forget(process.token);
  ASSERT(!process.ended && running_ > 0);
  process.ends.reset();
  process.ended = true;
  --running_;
  End end{rank, info.si_code == CLD_EXITED ? How::exited : How::killed, info.si_status, ""};
  end.text = describe(end);
  const bool left_well = end.how == How::exited && end.code == 0;
  room_->ended(end);
  if (!left_well) failed(end);
}

void Launching::failed(const End& end) {
  if (end.how == How::lost) {
    say(end.text);
    signal(processes_[end.rank], SIGKILL);  // whatever it does, it is of no use to the job
  }
  if (exit_code_) return;
  exit_code_ = exit_code_of(end);
  const bool ended_well = end.how == How::aborted && end.code == 0;
  if (*exit_code_ == 0 && !ended_well) exit_code_ = 1;
  if (end.how != How::lost && !ended_well) say(end.text);
  if (!options_.keep_going || end.how == How::aborted) end_others();
}

void Launching::end_others() {
  if (ending_) return;
  ending_ = true;
  const auto asked = std::chrono::steady_clock::now() + options_.until_asked;
  loop_.at(asked, [this] { signal_all(SIGTERM); });
  loop_.at(asked + options_.until_killed, [this] { signal_all(SIGKILL); });
}

void Launching::signal_all(int number) {
  for (const Process& process : processes_) signal(process, number);
}

void Launching::signal(const Process& process, int number) {
  if (process.pid == 0) return;
  // One that made itself another group, or session, is told alone.
  const bool leads = ::getpgid(process.pid) == process.pid;
  (void)::kill(leads ? -process.pid : process.pid, number);
}

void Launching::say(const std::string& text) {
  const std::string line = "penstock run: " + text + "\n";
  if (labelled_errors_) return labelled_errors_->say(line);
  (void)!::write(options_.errors, line.data(), line.size());
}

}  // namespace penstock::job
