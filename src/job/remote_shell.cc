#include "remote_shell.h"

#include "processes.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/job/limits.h"

namespace penstock::job {
namespace {

// It sends nothing there.
constexpr Accepts kFromShells{0, 0};

}  // namespace

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char each : word) {
    if (each == '\'') {
      text += "'\\''";
    } else {
      text += each;
    }
  }
  return text + "'";
}

std::vector<std::string> command_for(const NodeShare& node, const RemoteOptions& remote) {
  if (node.here) return {remote.program, remote.word};
  ASSERT(!remote.shell.empty());
  std::vector<std::string> words = remote.shell;
  const std::string& shell = words[0];
  if (shell.substr(shell.rfind('/') + 1) == "ssh") {
    // What the user said before counts. Nothing is asked of somebody who may not be there.
    for (const char* word : {"-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-T", "-x"}) {
      words.emplace_back(word);
    }
  }
  words.push_back(node.host);
  words.push_back("exec " + quoted(remote.remote_program) + " " + quoted(remote.word));
  return words;
}

RemoteShell::RemoteShell(Loop& loop, const std::string& host, Calls calls)
    : loop_(loop), calls_(std::move(calls)), labeller_(host + ": ") {}

RemoteShell::~RemoteShell() {
  for (const Loop::Token token : {input_token_, errors_token_, end_token_}) loop_.forget(token);
  if (pid_ == 0) return;
  kill();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<void, Failure> RemoteShell::start(const Start& what) {
  const auto fail = [&] {
    return Failure{Status::from_errno(errno), fmt::format("{}: {} (ulimit -u, ulimit -n)",
                                                          what.command[0], std::strerror(errno))};
  };
  Spawn spawned;
  spawned.arguments = what.command;
  spawned.environment = environment_with({});
  TRY_ASSIGN(spawned.program, find_program(what.command[0], "", spawned.environment));
  int sockets[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return fail();
  input_ = std::make_unique<Connection>(UniqueFd(sockets[0]), kFromShells);
  const UniqueFd given(sockets[1]);
  int pipes[2] = {-1, -1};
  if (::pipe2(pipes, O_CLOEXEC) != 0) return fail();
  errors_.reset(pipes[0]);
  const UniqueFd errors(pipes[1]);
  if (::fcntl(pipes[0], F_SETFL, O_NONBLOCK) != 0) return fail();
  const UniqueFd nothing(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const UniqueFd from = above_standard(given.get());
  const UniqueFd to = above_standard(nothing.get());
  const UniqueFd to_errors = above_standard(errors.get());
  if (!from || !to || !to_errors) return fail();
  spawned.input = from.get();
  spawned.output = to.get();
  spawned.errors = to_errors.get();
  spawned.signals = what.signals;
  spawned.files = what.files;
  const Result<pid_t> pid = spawn(spawned);
  if (!pid) {
    errno = pid.error().to_errno();
    return fail();
  }
  pid_ = *pid;
  end_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!end_) return fail();
  const auto end = loop_.watch(end_.get(), EPOLLIN, [this](uint32_t) { take_end(); });
  const auto error = loop_.watch(errors_.get(), EPOLLIN, [this](uint32_t) {
    if (!read_errors()) loop_.forget(std::exchange(errors_token_, 0));
  });
  const auto input = loop_.watch(input_->fd(), 0, [this](uint32_t) { flush(); });
  if (!end || !error || !input) return fail();
  end_token_ = *end;
  errors_token_ = *error;
  input_token_ = *input;
  auto content = std::make_shared<Content>();
  content->bytes = what.task;
  input_->queue({.kind = Kind::task}, std::move(content));
  flush();
  return {};
}

void RemoteShell::kill() const {
  if (runs()) (void)::kill(-pid_, SIGKILL);
}

void RemoteShell::flush() {
  const Status status = input_->send();
  if (status.code() == Code::busy) return loop_.change(input_token_, EPOLLOUT);
  // It was sent, or is of no use: the end of the process tells why. A socket that is watched for
  // nothing would tell its end again and again. It stays open: at its end the part ends, too.
  loop_.forget(std::exchange(input_token_, 0));
}

bool RemoteShell::read_errors() {
  std::array<char, 4096> buffer;
  const ssize_t got = ::read(errors_.get(), buffer.data(), buffer.size());
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  said_ += static_cast<size_t>(got);
  if (said_ > limits::kShellBytesMax) return true;
  std::string lines;
  labeller_.take({buffer.data(), static_cast<size_t>(got)}, &lines);
  if (!lines.empty()) calls_.say(lines);
  return true;
}

void RemoteShell::take_end() {
  siginfo_t info{};
  if (::waitid(P_PIDFD, static_cast<id_t>(end_.get()), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return;
  }
  loop_.forget(std::exchange(end_token_, 0));
  ended_ = true;
  // A pipe has so much; a process that it left behind may write there for ever.
  for (int turn = 0; turn < 32 && read_errors(); ++turn) {
  }
  std::string rest;
  labeller_.finish(&rest);
  if (!rest.empty()) calls_.say(rest);
  calls_.ended({0, info.si_code == CLD_EXITED ? How::exited : How::killed, info.si_status, ""});
}

}  // namespace penstock::job
