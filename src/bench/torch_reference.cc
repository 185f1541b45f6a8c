#include "torch_reference.h"

#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace penstock::bench {
namespace {

constexpr const char* kProgram = R"(
import sys, time, torch
from safetensors.torch import load_file
torch.cuda.init()
def load():
    torch.cuda.synchronize()
    began = time.perf_counter()
    model = load_file(sys.argv[1], device="cuda:0")
    torch.cuda.synchronize()
    return time.perf_counter() - began
load()
print("ready", flush=True)
for line in sys.stdin:
    print(load(), flush=True)
)";

// Python's start with its libraries, or one load: what takes longer has gone wrong.
constexpr auto kAnswerTimeout = std::chrono::minutes(5);

}  // namespace

Outcome<std::unique_ptr<TorchReference>> TorchReference::start(const std::string& file,
                                                               uint64_t bytes) {
  std::unique_ptr<TorchReference> made(new TorchReference);
  made->bytes_ = bytes;
  int in[2];
  int out[2];
  // A socket, as a write to a pipe whose reader has died would end this process.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0)
    return Failure{Code::busy, "no descriptors left"};
  UniqueFd child_input(in[0]);
  made->input_.reset(in[1]);
  if (::pipe2(out, O_CLOEXEC) != 0) return Failure{Code::busy, "no descriptors left"};
  made->output_.reset(out[0]);
  UniqueFd child_output(out[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, child_input.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, child_output.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string name = "python3";
  std::string flag = "-c";
  std::string program = kProgram;
  std::string path = file;
  char* arguments[] = {name.data(), flag.data(), program.data(), path.data(), nullptr};
  const int error =
      ::posix_spawnp(&made->process_, "python3", &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    made->process_ = 0;
    return Failure{Code::not_found, "there is no python3"};
  }
  // Its own ends stay with it alone, so that its end is seen.
  child_output.reset();
  child_input.reset();
  if (made->read_line() == "ready") return made;
  return Failure{Code::not_found, "python3 has no torch with a GPU, or no safetensors"};
}

TorchReference::~TorchReference() {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

// Without its end; empty when the process has ended, or has said nothing for too long.
std::string TorchReference::read_line() {
  const auto deadline = std::chrono::steady_clock::now() + kAnswerTimeout;
  std::string line;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd ready{output_.get(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) != 1) return {};
    char byte = 0;
    if (::read(output_.get(), &byte, 1) != 1 || byte == '\n') return line;
    line += byte;
  }
}

Outcome<Measurement> TorchReference::run() {
  if (::send(input_.get(), "\n", 1, MSG_NOSIGNAL) != 1)
    return Failure{Code::io_error, "python3 has ended"};
  const std::string line = read_line();
  Measurement result;
  result.operations = 1;
  result.bytes = bytes_;
  result.seconds = std::atof(line.c_str());
  if (result.seconds > 0) return result;
  return Failure{Code::io_error, "safetensors.torch.load_file failed in the middle"};
}

}  // namespace penstock::bench
