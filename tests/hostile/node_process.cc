#include "node_process.h"

#include "process.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "penstock/json.h"

namespace penstock::test {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

bool can_mount() {
  return ::access("/dev/fuse", R_OK | W_OK) == 0 &&
         (::geteuid() == 0 || ::access("/usr/bin/fusermount3", X_OK) == 0);
}

// What each descriptor of the process leads to, with how many there are. Not the files of the
// store: the databases open and close those as they see fit.
std::map<std::string, uint64_t> descriptors_of(pid_t pid, const std::string& store) {
  std::map<std::string, uint64_t> out;
  const std::string path = fmt::format("/proc/{}/fd", pid);
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) return out;
  while (const dirent* entry = ::readdir(directory)) {
    char target[4096];
    const ssize_t length = ::readlink((path + "/" + entry->d_name).c_str(), target, sizeof target);
    if (length <= 0) continue;
    std::string kind(target, static_cast<size_t>(length));
    if (kind.starts_with(store + "/")) continue;
    // "socket:[12345]": the number says which one, not what.
    kind = kind.substr(0, kind.find(":["));
    ++out[kind];
  }
  ::closedir(directory);
  return out;
}

std::string last_of(const std::string& text, size_t bytes) {
  return text.size() <= bytes ? text : text.substr(text.size() - bytes);
}

}  // namespace

std::string to_text(const Holdings& holdings) {
  std::string text =
      fmt::format("sessions {}, open files {}", holdings.sessions, holdings.open_files);
  for (const auto& [kind, count] : holdings.descriptors) {
    text += fmt::format(", {} of {}", count, kind);
  }
  for (const auto& [name, held] : holdings.shares) text += fmt::format(", {} {}", name, held);
  return text;
}

NodeProcess::NodeProcess(const std::string& scratch, const NodeOptions& options)
    : store_(scratch + "/store"), said_(scratch + "/said") {
  std::vector<std::string> arguments = {"up", store_};
  if (options.mount && can_mount()) {
    mount_ = scratch + "/mount";
    ::mkdir(mount_.c_str(), 0755);
    arguments.insert(arguments.end(), {"--mount", mount_});
    if (::geteuid() == 0) arguments.emplace_back("--allow-other");
  }
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  start(std::move(arguments), options.descriptors);
  up_ = pid_ > 0 && wait_until_up();
}

NodeProcess::~NodeProcess() {
  if (pid_ > 0 && !ended_) {
    ::kill(pid_, SIGTERM);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (lives() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (!ended_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  if (!mount_.empty()) penstock({"unmount", mount_});
}

void NodeProcess::start(std::vector<std::string> arguments, uint64_t descriptors) {
  arguments.insert(arguments.begin(), PENSTOCK_COMMAND);
  std::vector<char*> words;
  for (std::string& word : arguments) words.push_back(word.data());
  words.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ != 0) return;
  const int out = ::open(said_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int in = ::open("/dev/null", O_RDONLY);
  const rlimit most{descriptors, descriptors};
  if (out < 0 || in < 0 || (descriptors > 0 && ::setrlimit(RLIMIT_NOFILE, &most) != 0)) {
    ::_exit(126);
  }
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::execv(words[0], words.data());
  ::_exit(127);
}

bool NodeProcess::wait_until_up() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (lives() && std::chrono::steady_clock::now() < deadline) {
    if (::access((store_ + "/admin.sock").c_str(), F_OK) == 0 && holdings().valid) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

bool NodeProcess::lives() {
  if (ended_ || pid_ <= 0) return false;
  ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return !ended_;
}

std::string NodeProcess::ending() const {
  const std::string how = WIFSIGNALED(status_)
                              ? fmt::format("killed by signal {}", WTERMSIG(status_))
                              : fmt::format("exit status {}", WEXITSTATUS(status_));
  return fmt::format("{}; it said:\n{}", ended_ ? how : "it lives", last_of(words(), 8192));
}

std::string NodeProcess::words() const {
  return read_file(said_);
}

Holdings NodeProcess::holdings() const {
  Holdings out;
  const Json status = parse_json(penstock({"status", store_, "--json"}).out);
  if (!status.is_object()) return out;
  out.sessions = status.value("sessions", Json::array()).size();
  out.open_files = status.value("open_files", uint64_t{0});
  for (const Json& user : status.value("users", Json::array())) {
    for (const auto& [name, share] : user.items()) {
      const uint64_t held = share.is_object() ? share.value("held", uint64_t{0}) : 0;
      if (held > 0) out.shares[fmt::format("user {}: {}", user.value("uid", 0U), name)] = held;
    }
  }
  out.descriptors = descriptors_of(pid_, store_);
  out.valid = true;
  return out;
}

uint64_t NodeProcess::anonymous_bytes() const {
  std::istringstream lines(read_file(fmt::format("/proc/{}/status", pid_)));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("RssAnon:")) return std::strtoull(line.c_str() + 8, nullptr, 10) * 1024;
  }
  return 0;
}

uint64_t NodeProcess::cpu_ms() const {
  const std::string text = read_file(fmt::format("/proc/{}/stat", pid_));
  // Behind the name, which may hold anything: state, then ten fields, then the two times.
  const size_t at = text.rfind(')');
  if (at == std::string::npos) return 0;
  std::istringstream fields(text.substr(at + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  uint64_t user = 0, system = 0;
  fields >> user >> system;
  return (user + system) * 1000 / static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
}

UniqueFd connect_to(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const auto* where = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(fd.get(), where, sizeof address) != 0) fd.reset();
  return fd;
}

}  // namespace penstock::test
