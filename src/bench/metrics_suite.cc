#include "metrics_suite.h"

#include "comparison.h"

#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <signal.h>
#include <spawn.h>
#include <stop_token>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "penstock/bench.h"
#include "penstock/console.h"
#include "penstock/engine.h"

extern char** environ;

namespace penstock::bench {
namespace {

constexpr auto kStartTimeout = std::chrono::seconds(20);
constexpr auto kFiguresTimeout = std::chrono::seconds(5);
constexpr auto kBetweenReadings = std::chrono::seconds(1);

// `penstock up` in a process of its own, which ends with this object.
class NodeProcess {
 public:
  // `metrics` is where it tells its figures; empty: nowhere.
  static Outcome<std::unique_ptr<NodeProcess>> start(const std::string& store,
                                                     const std::string& metrics);
  ~NodeProcess();
  penstock_session* session() const { return session_.get(); }

 private:
  explicit NodeProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_;  // -1: it has ended
  console::Session session_;
};

Outcome<std::unique_ptr<NodeProcess>> NodeProcess::start(const std::string& store,
                                                         const std::string& metrics) {
  std::vector<const char*> arguments = {"penstock", "up", store.c_str(), "--cache", "0"};
  if (!metrics.empty()) arguments.insert(arguments.end(), {"--metrics", metrics.c_str()});
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    ::posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_WRONLY, 0);
  }
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr,
                                  const_cast<char**>(arguments.data()), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return Failure{Status::from_errno(error),
                   fmt::format("bench metrics: a node: {}", std::strerror(error))};
  }
  std::unique_ptr<NodeProcess> node(new NodeProcess(pid));
  const engine::Time deadline = engine::system_clock().now() + kStartTimeout;
  while (true) {
    Outcome<console::Session> session = console::connect_session(store);
    if (session) {
      node->session_ = std::move(*session);
      return node;
    }
    if (::waitpid(pid, nullptr, WNOHANG) != 0) {
      node->pid_ = -1;
      return Failure{Code::peer_gone,
                     "bench metrics: the node has ended: 'penstock up " + store + "' says why"};
    }
    if (engine::system_clock().now() >= deadline) return session.error();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

NodeProcess::~NodeProcess() {
  session_.reset();
  if (pid_ < 0) return;
  ::kill(pid_, SIGTERM);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// Reads all figures of a node once; false if it does not tell them.
bool read_figures(const std::string& path) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const timeval limit{kFiguresTimeout.count(), 0};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    ::setsockopt(fd.get(), SOL_SOCKET, option, &limit, sizeof limit);
  }
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return false;
  }
  constexpr std::string_view kRequest =
      "GET /metrics HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
  if (::send(fd.get(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL) < 0) return false;
  std::string all;
  char piece[16 * 1024];
  for (ssize_t n = 0; (n = ::recv(fd.get(), piece, sizeof piece, 0)) > 0;) {
    all.append(piece, static_cast<size_t>(n));
  }
  return all.starts_with("HTTP/1.1 200") && all.find("penstock_") != std::string::npos;
}

// One measurement on a node of its own, whose figures are read once a second if it tells them.
Outcome<Measurement> run_on_node(const std::string& store, const std::string& metrics,
                                 const Workload& workload) {
  TRY_ASSIGN(const std::unique_ptr<NodeProcess> node, NodeProcess::start(store, metrics));
  if (metrics.empty()) return run_on_ring(node->session(), "/data", workload);
  if (!read_figures(metrics)) {
    return Failure{Code::io_error, "bench metrics: the node does not tell its figures"};
  }
  const std::jthread reader([&](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      (void)read_figures(metrics);
      (void)stopped.wait_for(lock, stop, kBetweenReadings, [] { return false; });
    }
  });
  return run_on_ring(node->session(), "/data", workload);
}

}  // namespace

Outcome<void> metrics_suite(const BenchOptions& options, std::vector<BenchLine>* lines) {
  Workload workload;
  workload.file_bytes = std::min<uint64_t>(options.file_bytes, kGiB);
  workload.seconds = options.seconds;
  workload.depth = options.depth;
  auto scratch = Scratch::create("/dev/shm", workload.file_bytes * 2 + kGiB);
  if (!scratch) return scratch.error();
  const std::string store = scratch->path() + "/store";
  const std::string metrics = scratch->path() + "/metrics";
  {
    TRY_ASSIGN(const console::Session session, console::open_store_session(store, true));
    TRY(make_ring_file(session.get(), "/data", workload.file_bytes));
  }
  std::fprintf(stderr, "figures for Prometheus: %s ", workload.name().c_str());
  Comparison comparison(options.rounds);
  TRY(comparison.run([&] { return run_on_node(store, metrics, workload); },
                     [&] { return run_on_node(store, "", workload); }));
  BenchLine line = comparison.line(workload, true);
  line.name = "metrics.tmpfs.read.4k.random.qd" + std::to_string(options.depth);
  line.title = "figures read once a second: " + line.title;
  line.budget = 0.99;
  line.note = "the same without --metrics";
  lines->push_back(line);
  std::fprintf(stderr, " %.3f\n", line.ratio.value_or(0));
  return {};
}

}  // namespace penstock::bench
