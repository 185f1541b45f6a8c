#include "spread_launching.h"

#include "launching.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/job/limits.h"

namespace penstock::job {
namespace {

using std::chrono::milliseconds;

// Two connections of each node, and its shell with two pipes.
constexpr uint64_t kFilesPerNode = 6;
// When no descriptor is left for who comes, until it is tried again.
constexpr milliseconds kListenAgain{100};
// Connections of a node that is lost end one after the other, and each tells more.
constexpr milliseconds kUntilWhyIsKnown{300};
// After all ranks were made to end: a node that says nothing is not waited for.
constexpr milliseconds kUntilSilent{10'000};
constexpr milliseconds kUntilTold{2000};
constexpr milliseconds kUntilShellsEnd{3000};
constexpr size_t kAddressesMaxOfTask = 64;
// So that what is under way fits, and the window never closes: see kStreamBytesUnderWay.
constexpr int kReceiveBuffer = 512 * 1024;

// What each rank is told anew.
constexpr const char* kOwnOfRanks[] = {"PENSTOCK_JOB_FD",     "PENSTOCK_JOB_SOCKET",
                                       "PENSTOCK_RANK",       "PENSTOCK_SIZE",
                                       "PENSTOCK_LOCAL_RANK", "PENSTOCK_LOCAL_SIZE"};

bool is_passed(std::string_view name, const std::vector<std::string>& passed) {
  if (std::find(std::begin(kOwnOfRanks), std::end(kOwnOfRanks), name) != std::end(kOwnOfRanks)) {
    return false;
  }
  return std::any_of(passed.begin(), passed.end(), [&](std::string_view each) {
    if (each.ends_with('*')) return name.starts_with(each.substr(0, each.size() - 1));
    return name == each;
  });
}

// As the user sees it where he is: behind a link it may have another name elsewhere.
std::string this_directory() {
  struct stat here {};
  struct stat named {};
  const char* name = std::getenv("PWD");
  if (name != nullptr && name[0] == '/' && ::stat(".", &here) == 0 && ::stat(name, &named) == 0 &&
      here.st_dev == named.st_dev && here.st_ino == named.st_ino) {
    return name;
  }
  std::string path(4096, 0);
  return ::getcwd(path.data(), path.size()) == nullptr ? "/" : path.c_str();
}

std::string how_it_ended(const End& end) {
  return end.how == How::killed ? fmt::format("by signal {}", end.code)
                                : fmt::format("with exit code {}", end.code);
}

}  // namespace

SpreadLaunching::SpreadLaunching(const LaunchOptions& options)
    : options_(options),
      signals_(loop_),
      ending_(loop_, {options.keep_going, options.until_asked, options.until_killed,
                      [this](int signal) { signal_all(signal); },
                      [this](const std::string& text) { say(text); }}) {}

Result<void, Failure> SpreadLaunching::prepare() {
  TRY(check(options_));
  const size_t count = options_.nodes.size();
  std::vector<uint32_t> node_of;
  for (uint32_t node = 0; node < count; ++node) {
    node_of.insert(node_of.end(), options_.nodes[node].ranks, node);
    if (options_.nodes[node].ranks == 0 || node_of.size() > options_.size) break;
  }
  if (node_of.size() != options_.size || node_of.back() + 1 != count) {
    return Failure{Code::invalid_argument, "the nodes have not as many ranks as the job"};
  }
  TRY(files_.raise(count * kFilesPerNode + kFilesBesides, fmt::format("{} nodes", count)));
  if (!loop_.open().ok()) return Failure{Status::from_errno(errno), std::strerror(errno)};
  output_ = std::make_unique<Sink>(loop_, options_.output, [this] { give_back(Stream::output); });
  errors_ = std::make_unique<Sink>(loop_, options_.errors, [this] { give_back(Stream::errors); });
  TRY(signals_.begin(options_.signals, [this](int number) { take_signal(number); }));
  directory_ = options_.directory;
  if (!directory_.starts_with('/')) {
    directory_ = this_directory() + (directory_.empty() ? "" : "/" + directory_);
  }
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view text(*each);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    if (!is_passed(text.substr(0, equals), options_.remote.passed)) continue;
    environment_.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  environment_.insert(environment_.end(), options_.environment.begin(), options_.environment.end());
  if (!fill_with_random(secret_).ok()) {
    return Failure{Code::io_error, "the kernel gives no random numbers"};
  }
  nodes_.resize(count);
  uint32_t first = 0;
  for (uint32_t node = 0; node < count; ++node) {
    nodes_[node].first = first;
    first += options_.nodes[node].ranks;
  }
  ASSERT(first == options_.size);
  gathering_ = std::make_unique<Gathering>(
      loop_, secret_,
      Gathering::Launched{
          std::move(node_of), static_cast<uint32_t>(count),
          [this](uint32_t node, std::unique_ptr<Connection> control, std::vector<Frame> frames) {
            take_part(node, std::move(control), std::move(frames));
          },
          [this] {
            complete_ = true;
            start_if_ready();
          },
          [this](uint32_t node) { lose_soon(node, kPartHasEnded); }});
  return open_port();
}

Result<void, Failure> SpreadLaunching::open_port() {
  const std::string& asked = options_.remote.address;
  if (const auto address = parse_address(asked)) {
    addresses_ = {*address};
  } else {
    addresses_ = own_addresses(asked);
    const auto near =
        std::stable_partition(addresses_.begin(), addresses_.end(),
                              [](const HostAddress& each) { return !is_loopback(each); });
    // There it would mean that machine.
    if (near != addresses_.begin()) addresses_.erase(near, addresses_.end());
  }
  if (addresses_.empty()) {
    return Failure{asked.empty() ? Code::closed : Code::invalid_argument,
                   asked.empty()
                       ? "no network interface of this machine is up"
                       : fmt::format("--address {}: this machine has no such address, and "
                                     "no interface whose name begins so",
                                     asked)};
  }
  addresses_.resize(std::min(addresses_.size(), kAddressesMaxOfTask));
  TRY_ASSIGN(listener_, listen_anywhere(&port_));
  // Before anybody connects, as the window is agreed upon then.
  (void)::setsockopt(listener_.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer,
                     sizeof kReceiveBuffer);
  (void)::fcntl(listener_.get(), F_SETFL, O_NONBLOCK);
  listen_again();
  if (listening_ == 0) return Failure{Code::busy, "a port for the job: no descriptor is left"};
  return {};
}

void SpreadLaunching::listen_again() {
  const auto token = loop_.watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept_all(); });
  listening_ = token ? *token : 0;
}

void SpreadLaunching::accept_all() {
  while (true) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket) {
      set_up_stream(socket.get());
      gathering_->adopt(std::move(socket));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      loop_.forget(std::exchange(listening_, 0));
      loop_.at(std::chrono::steady_clock::now() + kListenAgain, [this] { listen_again(); });
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

Task SpreadLaunching::task_for(uint32_t node) const {
  const NodeShare& share = options_.nodes[node];
  Task task;
  task.version = options_.remote.version;
  task.addresses = addresses_;
  task.port = port_;
  task.secret = secret_;
  task.host = share.host;
  task.node = node;
  task.size = options_.size;
  task.first = nodes_[node].first;
  task.count = share.ranks;
  task.label = options_.label;
  task.command = options_.command;
  task.environment = environment_;
  task.directory = directory_;
  return task;
}

void SpreadLaunching::reach_more() {
  reaching_more_ = 0;
  if (next_ == nodes_.size() || reaching_ >= limits::kNodesReachedAtOnce || is_over()) return;
  reach(next_++);
  // One at a time, so that those that have come are heard between.
  reaching_more_ = loop_.at(std::chrono::steady_clock::now(), [this] { reach_more(); });
}

void SpreadLaunching::reach(uint32_t node) {
  Node& at = nodes_[node];
  ASSERT(at.state == State::waiting && !at.shell);
  const NodeShare& share = options_.nodes[node];
  at.state = State::reaching;
  ++reaching_;
  at.shell = std::make_unique<RemoteShell>(
      loop_, share.host,
      RemoteShell::Calls{[this](std::string_view line) { errors_->write(line); },
                         [this, node](const End& end) { take_end_of_shell(node, end); }});
  RemoteShell::Start start{command_for(share, options_.remote), encode(task_for(node)),
                           signals_.before(), files_.before()};
  if (start.task.size() > limits::kTaskBytesMax) {
    return give_up({Code::too_large, fmt::format("arguments and environment have {} bytes, and {} "
                                                 "go to other hosts",
                                                 start.task.size(), limits::kTaskBytesMax)});
  }
  const auto begun = at.shell->start(start);
  if (!begun) return give_up({Code::peer_gone, begun.error().message});
  at.patience =
      loop_.at(std::chrono::steady_clock::now() + options_.remote.until_reached, [this, node] {
        nodes_[node].patience = 0;
        lose(node, fmt::format("nothing was heard from there within {} s",
                               options_.remote.until_reached.count() / 1000));
      });
}

void SpreadLaunching::reached(uint32_t node) {
  loop_.cancel(std::exchange(nodes_[node].patience, 0));
  ASSERT(reaching_ > 0);
  --reaching_;
  if (reaching_more_ == 0) reach_more();
}

std::string SpreadLaunching::shell_of(uint32_t node) const {
  if (options_.nodes[node].here) return "its part of the job";
  const std::string& path = options_.remote.shell[0];
  return path.substr(path.rfind('/') + 1);
}

void SpreadLaunching::take_end_of_shell(uint32_t node, const End& end) {
  const State state = nodes_[node].state;
  if (finishing_ || state == State::lost) return;
  const RemoteOptions& remote = options_.remote;
  if (state == State::reaching) {
    std::string why = fmt::format("{} ended {}, before anything was heard from there",
                                  shell_of(node), how_it_ended(end));
    if (end.how == How::exited && end.code == 127) {
      why = fmt::format("there is no {} there (say --remote-penstock where it is)",
                        remote.remote_program);
    } else if (end.how == How::exited && end.code == 126) {
      why = remote.remote_program + " may not be run there (or say --remote-penstock)";
    }
    return lose(node, why);
  }
  lose_soon(node, fmt::format("{} ended {}", shell_of(node), how_it_ended(end)));
}

void SpreadLaunching::lose_soon(uint32_t node, const std::string& why) {
  Node& at = nodes_[node];
  if (finishing_ || at.state == State::lost) return;
  if (at.losing == 0) {
    at.losing = loop_.at(std::chrono::steady_clock::now() + kUntilWhyIsKnown, [this, node] {
      nodes_[node].losing = 0;
      lose(node, nodes_[node].why);
    });
  }
  // Of an end of a process more is known than of a connection's.
  if (at.why.empty() || why != kPartHasEnded) at.why = why;
}

void SpreadLaunching::start_if_ready() {
  if (started_ || !complete_ || ready_ < nodes_.size() || failure_ || ended_by_) return;
  started_ = true;
  for (uint32_t node = 0; node < nodes_.size(); ++node) send(node, Kind::start);
  input_ = std::make_unique<InputSource>(loop_, options_.input, [this](std::string_view bytes) {
    send(0, Kind::input, std::as_bytes(std::span(bytes.data(), bytes.size())));
  });
  input_->begin();
}

void SpreadLaunching::lose(uint32_t node, const std::string& why) {
  Node& at = nodes_[node];
  if (finishing_ || at.state == State::lost) return;
  const std::string& host = options_.nodes[node].host;
  const State before = std::exchange(at.state, State::lost);
  loop_.cancel(std::exchange(at.losing, 0));
  loop_.cancel(std::exchange(at.patience, 0));
  close(node);
  // Its part ends with it, where it is still there.
  at.shell->kill();
  if (node == 0 && input_) input_->stop();
  if (!started_) {
    give_up({Code::peer_gone, fmt::format("{}: {}", host, why)});
    return;
  }
  gathering_->lose(node, fmt::format("is lost: {}: {}", host, why));
  if (before == State::done) return;  // it had nothing to do any more
  ++over_;
  const uint32_t count = options_.nodes[node].ranks;
  const std::string ranks = count == 1
                                ? fmt::format("rank {} is", at.first)
                                : fmt::format("ranks {} to {} are", at.first, at.first + count - 1);
  ending_.failed({at.first, How::lost, 0, fmt::format("{} lost: host {}: {}", ranks, host, why)});
}

void SpreadLaunching::close(uint32_t node) {
  loop_.forget(std::exchange(nodes_[node].token, 0));
  nodes_[node].control.reset();
}

void SpreadLaunching::give_up(Failure failure) {
  if (!failure_) failure_ = std::move(failure);
}

void SpreadLaunching::take_signal(int number) {
  const bool stops = number == SIGTSTP || number == SIGCONT;
  if (started_) {
    signal_all(number);
  } else if (!stops && number != SIGUSR1 && number != SIGUSR2) {
    ended_by_ = number;
  }
  // This process stops, too, and goes on when it is told to.
  if (number == SIGTSTP) ::raise(SIGSTOP);
  // Nobody is left who could end by it.
  if (over_ == nodes_.size() && !stops) stopped_ = true;
}

void SpreadLaunching::signal_all(int number) {
  const auto body = encode_number(static_cast<uint32_t>(number));
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].state == State::ready) send(node, Kind::signal, body);
  }
  if (number == SIGKILL && looking_ == 0) {
    looking_ =
        loop_.at(std::chrono::steady_clock::now() + kUntilSilent, [this] { look_for_silent(); });
  }
}

void SpreadLaunching::look_for_silent() {
  // Without a reader of output a node cannot say that it is done.
  if (!output_->is_empty() || !errors_->is_empty()) {
    looking_ =
        loop_.at(std::chrono::steady_clock::now() + kUntilSilent, [this] { look_for_silent(); });
    return;
  }
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].state == State::ready)
      lose(node, "its ranks were to be killed, and it is silent");
  }
}

bool SpreadLaunching::is_over() const {
  return failure_ || ended_by_ || over_ == nodes_.size();
}

Outcome<int> SpreadLaunching::run() {
  reach_more();
  while (!is_over()) loop_.turn();
  finish();
  if (failure_) return *failure_;
  if (ended_by_) return 128 + *ended_by_;
  return ending_.exit_code().value_or(0);
}

void SpreadLaunching::turn_until(const std::function<bool()>& done, milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  const auto timer = loop_.at(end, [] {});
  while (!done() && std::chrono::steady_clock::now() < end) loop_.turn();
  loop_.cancel(timer);
}

void SpreadLaunching::finish() {
  finishing_ = true;
  if (input_) input_->stop();
  dismiss_all();
  turn_until(
      [this] {
        return std::none_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
          return node.control && node.control->has_unsent();
        });
      },
      kUntilTold);
  // Who was never reached is not waited for.
  for (Node& node : nodes_) {
    if (node.state == State::reaching || node.state == State::lost) node.shell.reset();
  }
  turn_until(
      [this] {
        return std::none_of(nodes_.begin(), nodes_.end(),
                            [](const Node& node) { return node.shell && node.shell->runs(); });
      },
      kUntilShellsEnd);
  for (Node& node : nodes_) node.shell.reset();
  while (!stopped_ && !(output_->is_empty() && errors_->is_empty())) loop_.turn();
}

void SpreadLaunching::dismiss_all() {
  const bool failed = failure_ || ended_by_ || (ending_.exit_code() && !options_.keep_going);
  const auto body = encode_number(failed ? 1 : 0);
  for (uint32_t node = 0; node < nodes_.size(); ++node) send(node, Kind::dismiss, body);
}

void SpreadLaunching::send(uint32_t node, Kind kind, Bytes body, uint64_t serial) {
  Node& at = nodes_[node];
  if (!at.control) return;
  auto content = std::make_shared<Content>();
  content->bytes.assign(body.begin(), body.end());
  const bool idle = !at.control->has_unsent();
  at.control->queue({.kind = kind, .rank = node, .serial = serial}, std::move(content));
  if (idle) flush(node);
}

void SpreadLaunching::flush(uint32_t node) {
  Node& at = nodes_[node];
  if (!at.control) return;
  const Status status = at.control->send();
  // Its end is found out by reading.
  loop_.change(at.token, EPOLLIN | (status.code() == Code::busy ? EPOLLOUT : 0U));
}

void SpreadLaunching::say(const std::string& text) {
  errors_->write("penstock run: " + text + "\n");
}

}  // namespace penstock::job
