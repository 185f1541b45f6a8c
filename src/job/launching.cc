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
  signal_all(SIGKILL);
  for (Process& process : processes_) {
    if (process.pid == 0) continue;
    while (::waitpid(process.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  room_.reset();
  if (!masked_) return;
  // Those that came meanwhile were passed on.
  const timespec now{};
  sigset_t passed;
  ::sigemptyset(&passed);
  for (const int signal : kPassedOn) ::sigaddset(&passed, signal);
  while (::sigtimedwait(&passed, nullptr, &now) > 0) {
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
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
  if (options_.signals) TRY(watch_signals());
  room_ = std::make_unique<Room>(loop_, options_.size,
                                 Room::Events{[this](const End& end) { failed(end); },
                                              [this](const std::string& text) { say(text); }});
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
  sigset_t passed;
  ::sigemptyset(&passed);
  for (const int signal : kPassedOn) ::sigaddset(&passed, signal);
  ::pthread_sigmask(SIG_BLOCK, &passed, nullptr);
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
  what.input = rank == 0 ? input_.get() : nothing_.get();
  what.output = output_.get();
  what.errors = errors_.get();
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
  return exit_code_.value_or(0);
}

void Launching::take_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    signal_all(static_cast<int>(info.ssi_signo));
    // This process stops, too, and goes on when it is told to.
    if (info.ssi_signo == SIGTSTP) ::raise(SIGSTOP);
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
  if (exit_code_) return;
  exit_code_ = end.how == How::killed ? 128 + end.code : end.code & 0xff;
  if (*exit_code_ == 0) exit_code_ = 1;
  say(end.text);
  if (!options_.keep_going || end.how == How::aborted) end_others();
}

void Launching::end_others() {
  if (ending_) return;
  ending_ = true;
  const auto asked = std::chrono::steady_clock::now() + options_.until_asked;
  loop_.at(asked, [this] { signal_all(SIGTERM); });
  loop_.at(asked + options_.until_killed, [this] { signal_all(SIGKILL); });
}

void Launching::signal_all(int signal) {
  for (const Process& process : processes_) {
    if (process.pid > 0) (void)::kill(-process.pid, signal);
  }
}

void Launching::say(const std::string& text) const {
  const std::string line = "penstock run: " + text + "\n";
  (void)!::write(options_.errors, line.data(), line.size());
}

}  // namespace penstock::job
