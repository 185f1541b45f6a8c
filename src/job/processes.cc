#include "processes.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock::job {

UniqueFd above_standard(int fd) {
  return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
}

Processes::Processes(Loop& loop, Options options, std::function<void(const End&)> ended)
    : loop_(loop), options_(std::move(options)), ended_(std::move(ended)) {
  ASSERT(options_.count > 0 && options_.first < options_.size &&
         options_.count <= options_.size - options_.first);
}

Processes::~Processes() {
  if (running_ > 0) signal_all(SIGKILL);
  for (Process& process : processes_) {
    loop_.forget(process.token);
    if (process.pid == 0) continue;
    while (::waitpid(process.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

Result<void, Failure> Processes::find() {
  TRY_ASSIGN(program_, find_program(options_.command[0], options_.directory,
                                    environment_with(options_.environment)));
  return {};
}

Result<void, Failure> Processes::open_streams() {
  nothing_.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
  input_ = above_standard(options_.input);
  output_ = above_standard(options_.output);
  errors_ = above_standard(options_.errors);
  nothing_ = above_standard(nothing_.get());
  if (!nothing_ || !input_ || !output_ || !errors_) {
    return Failure{Status::from_errno(errno), std::strerror(errno)};
  }
  if (options_.label) {
    labelled_output_ = std::make_unique<LabelledOutput>(loop_, output_.get());
    labelled_errors_ = std::make_unique<LabelledOutput>(loop_, errors_.get());
  }
  processes_.resize(options_.count);
  return {};
}

Result<void, Failure> Processes::start_all(Room& room, const sigset_t& mask, const rlimit& files) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return Failure{Status::from_errno(errno), std::strerror(errno)};
  }
  const UniqueFd failures(ends[0]);
  UniqueFd told(ends[1]);
  for (uint32_t i = 0; i < options_.count; ++i) {
    TRY(start(room, options_.first + i, {mask, files}, above_standard(told.get())));
  }
  // Ranks have it.
  input_.reset();
  // It is at its end when all have become the program.
  told.reset();
  if (auto failure = failure_of_start(failures.get())) return std::move(*failure);
  return {};
}

Result<void, Failure> Processes::start(Room& room, uint32_t rank, const Inherited& own,
                                       UniqueFd failures) {
  const auto fail = [&](Status status) {
    return Failure{status, fmt::format("rank {} of {} cannot be started: {} (ulimit -u, ulimit -n)",
                                       rank, options_.size, status.name())};
  };
  Result<UniqueFd> connected = room.connect(rank);
  if (!connected) return fail(connected.error());
  UniqueFd socket = std::move(*connected);
  struct stat st {};
  ASSERT(::fstat(socket.get(), &st) == 0);
  Environment environment = options_.environment;
  environment.emplace_back("PENSTOCK_JOB_FD", std::to_string(socket.get()));
  environment.emplace_back("PENSTOCK_JOB_SOCKET", std::to_string(st.st_ino));
  environment.emplace_back("PENSTOCK_RANK", std::to_string(rank));
  environment.emplace_back("PENSTOCK_SIZE", std::to_string(options_.size));
  environment.emplace_back("PENSTOCK_LOCAL_RANK", std::to_string(rank - options_.first));
  environment.emplace_back("PENSTOCK_LOCAL_SIZE", std::to_string(options_.count));
  Spawn what;
  what.program = program_;
  what.arguments = options_.command;
  what.environment = environment_with(environment);
  what.directory = options_.directory;
  UniqueFd input, output, errors;
  if (const Status opened = open_streams_of(rank, &input, &output, &errors); !opened.ok()) {
    return fail(opened);
  }
  what.input = input.get();
  what.output = output.get();
  what.errors = errors.get();
  what.kept = socket.get();
  what.failures = failures.get();
  what.rank = rank;
  what.signals = own.mask;
  what.files = own.files;
  const Result<pid_t> pid = spawn(what);
  if (!pid) return fail(pid.error());
  Process& process = processes_[rank - options_.first];
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

Status Processes::open_streams_of(uint32_t rank, UniqueFd* input, UniqueFd* output,
                                  UniqueFd* errors) {
  const auto duplicate = [](const UniqueFd& fd) -> Result<UniqueFd> {
    UniqueFd copy = above_standard(fd.get());
    if (!copy) return Status::from_errno(errno);
    return copy;
  };
  if (rank == 0 && ::isatty(options_.input) == 1) {
    feeder_ = std::make_unique<Feeder>(loop_, options_.input);
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

std::optional<Failure> Processes::failure_of_start(int failures) const {
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

void Processes::take_end(uint32_t rank) {
  Process& process = processes_[rank - options_.first];
  siginfo_t info{};
  // It stays a zombie: its number is that of its group, in which there may be others.
  if (::waitid(P_PIDFD, static_cast<id_t>(process.ends.get()), &info,
               WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return;
  }
  loop_.forget(std::exchange(process.token, 0));
  ASSERT(!process.ended && running_ > 0);
  process.ends.reset();
  process.ended = true;
  --running_;
  End end{rank, info.si_code == CLD_EXITED ? How::exited : How::killed, info.si_status, ""};
  end.text = describe(end);
  ended_(end);
}

void Processes::signal_all(int number) {
  for (const Process& process : processes_) signal(process, number);
}

void Processes::signal(uint32_t rank, int number) {
  ASSERT(rank >= options_.first && rank - options_.first < options_.count);
  if (!processes_.empty()) signal(processes_[rank - options_.first], number);
}

void Processes::signal(const Process& process, int number) {
  if (process.pid == 0) return;
  // One that made itself another group, or session, is told alone.
  const bool leads = ::getpgid(process.pid) == process.pid;
  (void)::kill(leads ? -process.pid : process.pid, number);
}

void Processes::finish_output() {
  if (!labelled_output_) return;
  labelled_output_->finish();
  labelled_errors_->finish();
}

bool Processes::is_output_written() const {
  return !labelled_output_ || (labelled_output_->is_written() && labelled_errors_->is_written());
}

}  // namespace penstock::job
