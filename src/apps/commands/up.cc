// `penstock up`: a whole node in this process.
#include "commands.h"
#include "node/admin.h"
#include "node/node_service.h"
#include "node/storage_service.h"
#include "node/supervisor.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <mutex>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "penstock/agent.h"
#include "penstock/fuse.h"
#include "penstock/kv.h"

namespace penstock::apps {
namespace {

// What the starting process learns from the one in the background: "ok" or the reason.
class ReadyPipe {
 public:
  explicit ReadyPipe(UniqueFd write_end) : fd_(std::move(write_end)) {}
  void ready() { say("ok"); }
  void failed(const std::string& message) { say(message); }
  int descriptor() const { return fd_.get(); }

 private:
  void say(const std::string& text) {
    if (fd_) (void)!::write(fd_.get(), text.data(), text.size());
    fd_.reset();
  }
  UniqueFd fd_;
};

// By what people know it.
const char* command_of(const UpOptions& options) {
  return options.invitation ? "join" : "up";
}

void print_next_steps(const UpOptions& options, const AgentFacts& facts) {
  const std::string& dir = options.directory;
  std::printf("penstock %s: %s\n", facts.stands_by ? "stands by" : "is up", dir.c_str());
  for (const std::string& line : facts.lines) std::printf("  %s\n", line.c_str());
  std::vector<std::pair<std::string, const char*>> steps;
  if (!facts.invitation.empty()) {
    if (facts.insecure) {
      steps.emplace_back("penstock join " + facts.invitation + " DIR --insecure",
                         "on another node: take part");
    } else if (facts.has_controller) {
      steps.emplace_back("penstock token create " + dir, "let another node take part");
    }
    steps.emplace_back("penstock cluster " + dir, "see how the cluster is");
  }
  if (facts.wants_copies) {
    steps.emplace_back("penstock set " + dir + ":/ --copies 1",
                       "once nodes with storage have joined: files go there (1 copy or more)");
  }
  if (facts.has_names) {
    if (options.mount_point.empty()) {
      steps.emplace_back("penstock mount " + dir + " MOUNTPOINT", "make it visible as a directory");
    } else {
      steps.emplace_back("ls " + options.mount_point, "see what it holds");
    }
    steps.emplace_back("penstock import SRC " + dir + ":/NAME", "copy a directory tree into it");
  }
  steps.emplace_back("penstock status " + dir, "see what it does");
  steps.emplace_back("penstock down " + dir, "stop it");
  size_t width = 0;
  for (const auto& [command, purpose] : steps) width = std::max(width, command.size());
  std::printf("\nNext:\n");
  for (const auto& [command, purpose] : steps) {
    std::printf("  %-*s  %s\n", static_cast<int>(width), command.c_str(), purpose);
  }
  if (!options.background) std::printf("\nRunning; stop it with Ctrl-C.\n");
  std::fflush(stdout);
}

// Blocks the signals that end a node, so that every thread made later inherits that and only the
// signalfd sees them.
UniqueFd take_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC));
}

// Open files of many applications are descriptors here: take as many as the limit allows.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

// Everything that this process makes is for its owner alone, also what RocksDB makes. Only the
// store's directory is made as the user's umask wants it: others must get to the socket in it.
// True when it was made here.
bool make_directory_and_privacy(const std::string& directory) {
  const bool made = ::mkdir(directory.c_str(), 0755) == 0;
  ::umask(0077);
  return made;
}

// Before it goes to the background, where nobody would see it.
void warn_of_trust(const UpOptions& options) {
  if (!options.insecure) return;
  std::fprintf(stderr,
               "penstock %s: warning: --insecure: nodes do not prove who they are; whoever reaches "
               "this one can read and change everything\n",
               command_of(options));
}

// A start may wait for a minute, for the controller or the lease of an earlier process: who does
// not want that may end it by a signal. As with kill -9 nothing is lost by it.
class Impatience {
 public:
  Impatience(int signals, ReadyPipe* pipe) : over_(::eventfd(0, EFD_CLOEXEC)) {
    thread_ = std::thread([this, signals, pipe] {
      // The one that waits for the verdict has ended: nobody wants this start any more.
      const int verdict = pipe != nullptr ? pipe->descriptor() : -1;
      pollfd all[] = {{signals, POLLIN, 0}, {over_.get(), POLLIN, 0}, {verdict, 0, 0}};
      while (true) {
        if (::poll(all, std::size(all), -1) < 0) continue;
        if (is_over_) return;
        if (all[0].revents != 0) break;
        if (!stands_by_) break;
        // Who waited for the verdict has it.
        eventfd_t kicks = 0;
        if (all[1].revents != 0) (void)::eventfd_read(over_.get(), &kicks);
        all[2] = {-1, 0, 0};
      }
      if (stands_by_) {
        log::info("ended by a signal while it stood by");
        std::_Exit(kExitOk);
      }
      if (pipe != nullptr) pipe->failed("ended by a signal while it was starting");
      std::fprintf(stderr, "penstock: ended by a signal while starting\n");
      std::_Exit(kExitFailed);
    });
  }
  // It may go on for ever now: `say` gives the verdict, and nobody waits for it then.
  void stand_by(const std::function<void()>& say) {
    stands_by_ = true;
    say();
    // The thread still has hold of the verdict's descriptor.
    (void)::eventfd_write(over_.get(), 1);
  }
  ~Impatience() {
    is_over_ = true;
    (void)::eventfd_write(over_.get(), 1);
    thread_.join();
  }
  Impatience(const Impatience&) = delete;
  Impatience& operator=(const Impatience&) = delete;

 private:
  UniqueFd over_;
  std::atomic<bool> stands_by_{false};
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

// What the process will play: as its directory was made, or as it is told. 0: it is alone.
Outcome<uint8_t> roles_of(const UpOptions& options) {
  TRY_ASSIGN(const uint8_t kept, cluster::Participant::roles_of(options.directory));
  if (kept != 0) return kept;
  if (!options.roles.empty()) return cluster::parse_roles(options.roles);
  return options.invitation ? cluster::kJoiningRoles : uint8_t{0};
}

// Files make the difference: with them come mounts and sessions.
Outcome<std::unique_ptr<RunningNode>> start_node(const UpOptions& options, Guardian& guardian,
                                                 const std::function<void()>& stands_by) {
  TRY_ASSIGN(const uint8_t roles, roles_of(options));
  std::unique_ptr<RunningNode> node;
  if (roles != 0 && !cluster::has_agent(roles)) {
    TRY_ASSIGN(node, StorageService::start(options));
  } else {
    TRY_ASSIGN(node, NodeService::start(options, guardian, stands_by));
  }
  return node;
}

int serve(const UpOptions& options, ReadyPipe* pipe) {
  const auto refuse = [&](const Failure& failure) {
    if (pipe == nullptr) return fail(command_of(options), failure);
    if (pipe->descriptor() < 0) log::error("{}", failure.message);  // it stood by
    pipe->failed(failure.message);
    return kExitFailed;
  };
  const UniqueFd signals = take_signals();
  raise_descriptor_limit();
  const auto guardian = Guardian::start(options.directory);
  if (!guardian) return refuse(guardian.error());
  const bool made = make_directory_and_privacy(options.directory);
  auto node = [&] {
    Impatience impatience(signals.get(), pipe);
    return start_node(options, **guardian, [&] {
      impatience.stand_by([&] {
        if (pipe != nullptr) pipe->ready();
      });
      if (is_supervised()) {
        tell_supervisor("READY=1\nSTATUS=Stands by " + options.directory);
      } else if (pipe == nullptr) {
        std::printf("penstock stands by: %s (see 'penstock status')\n", options.directory.c_str());
        std::fflush(stdout);
      }
    });
  }();
  if (!node && node.error().status == Code::cancelled) return kExitOk;  // it stood by until then
  if (!node) {
    if (made) ::rmdir(options.directory.c_str());
    return refuse(node.error());
  }
  if (pipe != nullptr) {
    pipe->ready();
  } else if (is_supervised()) {
    tell_supervisor("READY=1\nSTATUS=Serving " + options.directory);
  } else {
    print_next_steps(options, (*node)->facts());
  }
  (*node)->wait(signals.get());
  if ((*node)->was_taken_over()) {
    // As if it were killed: nothing of what it would end in order is its own any more, and programs
    // in its mounts wait for nothing, as the guardian ends these.
    std::_Exit(kExitFailed);
  }
  if (pipe == nullptr) {
    std::fprintf(stderr, "penstock: stopping\n");
    tell_supervisor("STOPPING=1");
  }
  (*node)->stop();
  return kExitOk;
}

// The parent's half of going to the background: waits for the verdict of the child.
int await_child(const UpOptions& options, UniqueFd read_end) {
  std::string verdict;
  char buffer[1024];
  ssize_t n = 0;
  pollfd verdict_comes{read_end.get(), POLLIN, 0};
  constexpr int kPatience = 3000;  // milliseconds: a start takes a fraction of a second
  if (::poll(&verdict_comes, 1, kPatience) == 0) {
    std::fprintf(
        stderr,
        "penstock %s: %s is still starting; it may wait up to a minute for the controller, or "
        "until the lease of an earlier process is over\n",
        command_of(options), options.directory.c_str());
  }
  while ((n = ::read(read_end.get(), buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0) verdict.append(buffer, static_cast<size_t>(n));
  }
  if (verdict != "ok") {
    return fail(command_of(options),
                {Code::io_error, verdict.empty()
                                     ? options.directory + ": the node ended while starting; see " +
                                           options.directory + "/agent.log"
                                     : verdict});
  }
  auto status = ask_node(options.directory, {{"command", "status"}});
  if (!status) return fail(command_of(options), status.error());
  if (options.json) {
    std::printf("%s\n", status->dump(2).c_str());
  } else if (!options.quiet) {
    print_next_steps(options, facts_of(*status));
  }
  return kExitOk;
}

int go_to_background(const UpOptions& options) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return fail(command_of(options),
                {Status::from_errno(errno), std::string("pipe: ") + std::strerror(errno)});
  }
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) {
    return fail(command_of(options),
                {Status::from_errno(errno), std::string("fork: ") + std::strerror(errno)});
  }
  if (child > 0) {
    write_end.reset();
    return await_child(options, std::move(read_end));
  }
  ::setsid();
  read_end.reset();
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.get(), fd);
  ReadyPipe pipe(std::move(write_end));
  std::_Exit(serve(options, &pipe));
}

}  // namespace

int run_up(const UpOptions& given) {
  UpOptions options = given;
  // Before the first line of the log.
  if (!options.log_format.empty()) {
    ::setenv("PENSTOCK_LOG_FORMAT", options.log_format.c_str(), 1);
  }
  // The node may outlive this directory's meaning as "here".
  std::error_code error;
  options.directory = std::filesystem::absolute(options.directory, error).lexically_normal();
  while (options.directory.size() > 1 && options.directory.back() == '/') {
    options.directory.pop_back();
  }
  if (options.metrics.find('/') != std::string::npos) {
    options.metrics = std::filesystem::absolute(options.metrics, error).lexically_normal();
  }
  for (std::string& disk : options.disks) {
    disk = std::filesystem::absolute(disk, error).lexically_normal();
    while (disk.size() > 1 && disk.back() == '/') disk.pop_back();
  }
  if (!options.mount_point.empty()) {
    options.mount_point = std::filesystem::absolute(options.mount_point, error).lexically_normal();
  }
  if (!options.kv.empty() && options.kv != "rocksdb") {
    // Before it goes to the background.
    const auto address = kv::without_password(options.kv);
    if (!address) return fail(command_of(options), address.error());
    if (address->had_password) {
      std::fprintf(
          stderr,
          "penstock %s: warning: the password of %s is used now, and not kept: put it into "
          "the file ~/.pgpass of the user that runs the node (mode 0600, a line "
          "HOST:PORT:DATABASE:USER:PASSWORD), and leave it away here\n",
          command_of(options), address->url.c_str());
    }
  }
  if (!options.roles.empty()) {
    const auto roles = cluster::parse_roles(options.roles);
    if (!roles) return fail(command_of(options), roles.error());
  }
  if (node_runs(options.directory)) {
    return fail(command_of(options), {Code::in_use, options.directory +
                                                        ": a node is already running there (see "
                                                        "'penstock status " +
                                                        options.directory + "')"});
  }
  warn_of_trust(options);
  return options.background ? go_to_background(options) : serve(options, nullptr);
}

}  // namespace penstock::apps
