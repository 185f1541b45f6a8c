#include "rig.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/agent.h"

extern char** environ;

namespace {

constexpr uint64_t kStagingBytes = 16 << 20;

}  // namespace

void stop(const std::string& why) {
  std::printf("FAIL %s\n", why.c_str());
  std::exit(1);
}

int must(int result, const char* what) {
  if (result < 0) stop(std::string(what) + ": " + penstock_last_error());
  return result;
}

double seconds_now() {
  return static_cast<double>(penstock_now()) * 1e-9;
}

void Rig::serve_if_asked(int count, char** arguments) {
  if (count != 4 || std::strcmp(arguments[1], "--agent") != 0) return;
  penstock::agent::AgentConfig config;
  config.directory = arguments[2];
  config.cache_bytes = std::strtoull(arguments[3], nullptr, 10);
  auto agent = penstock::agent::Agent::start(config);
  if (!agent) stop(agent.error().message);
  std::puts("ready");
  std::fflush(stdout);
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  (*agent)->stop();
  std::exit(0);
}

Rig::Rig(const std::string& directory, uint64_t cache_bytes)
    : directory_(directory + "/penstock-kernel-rings-" + std::to_string(::getpid())),
      cache_bytes_(std::to_string(cache_bytes)) {
  std::filesystem::create_directories(directory_);
  start_agent();
  connect(directory_);
}

Rig::Rig(const std::string& store) {
  connect(store);
}

void Rig::connect(const std::string& store) {
  must(penstock_connect(store.c_str(), &session), "connect");
  must(penstock_region_create(session, kStagingBytes, &staging_), "staging region");
  must(penstock_ring_create(session, 16, 1, &ring_), "ring");
}

Rig::~Rig() {
  penstock_close(session);
  if (directory_.empty()) return;
  kill_agent();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void Rig::start_agent() {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) stop("no pipe");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  char program[] = "/proc/self/exe", role[] = "--agent";
  char* arguments[] = {program, role, directory_.data(), cache_bytes_.data(), nullptr};
  const int error = ::posix_spawn(&pid_, program, &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  input_ = in[1];
  char first = 0;
  const bool ready = error == 0 && ::read(out[0], &first, 1) == 1 && first == 'r';
  ::close(out[0]);
  if (!ready) stop("the agent does not start");
}

void Rig::kill_agent() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::close(input_);
  pid_ = 0;
}

int64_t Rig::run(const penstock_io& io) {
  must(penstock_prepare(ring_, &io), "prepare");
  must(penstock_submit(ring_), "submit");
  penstock_completion completion{};
  if (penstock_wait(ring_, &completion, 1, 1, penstock_now() + 60'000'000'000) != 1) {
    stop("an operation takes more than a minute");
  }
  return completion.result;
}

void Rig::write(penstock_file file, uint64_t offset, uint64_t bytes, uint64_t round) {
  auto* const words = static_cast<uint64_t*>(penstock_region_base(staging_));
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t piece = std::min(kStagingBytes, bytes - done);
    for (uint64_t i = 0; i < (piece + 7) / 8; ++i)
      words[i] = word_of((offset + done) / 8 + i, round);
    penstock_io io{};
    io.operation = PENSTOCK_WRITE;
    io.file = file;
    io.offset = offset + done;
    io.length = piece;
    io.region = staging_;
    if (run(io) != static_cast<int64_t>(piece)) stop("a write failed");
    done += piece;
  }
}

penstock_file Rig::make_file(const char* path, uint64_t bytes) {
  const penstock_file file = penstock_open(session, path, O_RDWR | O_CREAT | O_TRUNC, 0644);
  must(file, path);
  write(file, 0, bytes, 0);
  must(penstock_fsync(session, file), "fsync");
  return file;
}

uint64_t Rig::warm(penstock_file file, uint64_t bytes) {
  uint64_t here = 0;
  for (uint64_t at = 0; at < bytes; at += kStagingBytes) {
    penstock_io io{};
    io.operation = PENSTOCK_WARM;
    io.file = file;
    io.offset = at;
    io.length = std::min(kStagingBytes, bytes - at);
    const int64_t result = run(io);
    if (result < 0) stop("the file cannot be warmed up: " + std::to_string(result));
    here += static_cast<uint64_t>(result);
  }
  return here;
}
