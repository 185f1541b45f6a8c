#include "node_part.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "penstock/job/launcher.h"
#include "penstock/job/limits.h"

namespace penstock::job {
namespace {

constexpr std::chrono::seconds kUntilTask{60};
constexpr std::chrono::seconds kUntilConnected{20};
// For the launcher to read why nothing starts.
constexpr std::chrono::seconds kUntilDismissed{10};

constexpr Accepts kFromLauncher{limits::kStreamBytesUnderWay + 64, 0};
constexpr const char* kAbove = "the launcher of the job";

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// False at the end, or when nothing came in time.
bool read_exactly(int fd, MutableBytes to, Time deadline) {
  while (!to.empty()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd ready{fd, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0) return false;
    const ssize_t got = ::read(fd, to.data(), to.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return false;
    to = to.subspan(static_cast<size_t>(got));
  }
  return true;
}

Outcome<Task> read_task(int input, const std::string& version) {
  const auto deadline = std::chrono::steady_clock::now() + kUntilTask;
  const Failure nothing{Code::closed,
                        "nobody says what is to be done here: 'penstock run --hosts' starts this "
                        "on other machines"};
  FrameHeader header;
  if (::isatty(input) == 1 ||
      !read_exactly(input, std::as_writable_bytes(std::span(&header, 1)), deadline)) {
    return nothing;
  }
  if (header.kind != Kind::task || header.descriptors != 0 ||
      header.body_bytes > limits::kTaskBytesMax) {
    return nothing;
  }
  std::vector<std::byte> body(header.body_bytes);
  if (!read_exactly(input, body, deadline)) return nothing;
  const auto theirs = decode_task_version(body);
  if (!theirs) return nothing;
  if (theirs->number != kTaskVersion || theirs->program != version) {
    return Failure{Code::wrong_version,
                   fmt::format("penstock here is {}, and {} where the job was started: both must "
                               "be one (say --remote-penstock where the other one is)",
                               version, theirs->program)};
  }
  auto task = decode_task(body);
  if (!task) return nothing;
  return std::move(*task);
}

}  // namespace

NodePart::NodePart(Task task, UniqueFd input)
    : task_(std::move(task)), input_(std::move(input)), signals_(loop_) {}

Result<void, Failure> NodePart::reach() {
  const auto deadline = std::chrono::steady_clock::now() + kUntilConnected;
  const std::string whom = "the launcher, from " + task_.host + ",";
  TRY_ASSIGN(UniqueFd control, connect_to(task_.addresses, task_.port, deadline, whom));
  TRY_ASSIGN(UniqueFd above, connect_to(task_.addresses, task_.port, deadline, whom));
  if (!loop_.open().ok()) return Failure{Status::from_errno(errno), std::strerror(errno)};
  TRY(signals_.begin(false, [](int) {}));
  launcher_ = std::make_unique<Connection>(std::move(control), kFromLauncher);
  const Hello hello{task_.node, task_.size, task_.secret};
  send(Kind::part, encode(hello));
  const auto token = loop_.watch(launcher_->fd(), EPOLLIN, [this](uint32_t events) {
    if ((events & EPOLLOUT) != 0) flush();
    if ((events & ~EPOLLOUT) != 0) read();
  });
  if (!token) return Failure{token.error(), "no descriptor is left (ulimit -n)"};
  token_ = *token;
  flush();
  uplink_ = std::make_unique<Uplink>(loop_, std::move(above), Uplink::Above{hello, kAbove});
  watch_input();
  return {};
}

void NodePart::watch_input() {
  // A file is always readable, and its end means nothing.
  (void)loop_.watch(input_.get(), EPOLLIN, [this](uint32_t) {
    std::array<char, 256> ignored;
    const ssize_t got = ::read(input_.get(), ignored.data(), ignored.size());
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) gone_ = true;
  });
}

Result<void, Failure> NodePart::prepare() {
  if (::chdir(task_.directory.c_str()) != 0) {
    return Failure{errno == EACCES ? Code::access_denied : Code::not_found,
                   fmt::format("{}: {} (say --wdir where the program runs)", task_.directory,
                               std::strerror(errno))};
  }
  UniqueFd input, output, errors;
  TRY(prepare_streams(&input, &output, &errors));
  Processes::Options options;
  options.size = task_.size;
  options.first = task_.first;
  options.count = task_.count;
  options.command = task_.command;
  options.environment = task_.environment;
  options.environment.emplace_back("PWD", task_.directory);
  options.label = task_.label;
  options.input = input.get();
  options.output = output.get();
  options.errors = errors.get();
  processes_ = std::make_unique<Processes>(loop_, std::move(options),
                                           [this](const End& end) { take_end(end); });
  TRY(processes_->find());
  TRY(files_.raise(task_.count * kFilesPerRank + kFilesBesides,
                   fmt::format("{} ranks", task_.count)));
  TRY(processes_->open_streams());
  room_ = std::make_unique<Room>(
      loop_, Room::Options{.size = task_.size, .launched = true, .above = uplink_.get()},
      [this](const End& end) { failed(end); });
  if (const Status begun = uplink_->begin(room_.get()); !begun.ok()) {
    return Failure{begun, "no descriptor is left for the room of the job (ulimit -n)"};
  }
  return {};
}

Result<void, Failure> NodePart::prepare_streams(UniqueFd* input, UniqueFd* output,
                                                UniqueFd* errors) {
  const auto open = [&](std::unique_ptr<OutputStream>* stream, Stream which,
                        UniqueFd* end) -> Status {
    *stream = std::make_unique<OutputStream>(loop_, task_.label, [this, which](auto bytes) {
      send(Kind::output, std::as_bytes(std::span(bytes.data(), bytes.size())),
           static_cast<uint64_t>(which));
    });
    TRY_ASSIGN(*end, (*stream)->open());
    return {};
  };
  Status opened = open(&output_, Stream::output, output);
  if (opened.ok()) opened = open(&errors_, Stream::errors, errors);
  if (opened.ok() && task_.first == 0) {
    first_input_ = std::make_unique<InputStream>(loop_, [this](size_t bytes) {
      if (bytes == 0) return send(Kind::closed, {}, static_cast<uint64_t>(Stream::input));
      send(Kind::took, encode_number(static_cast<uint32_t>(bytes)),
           static_cast<uint64_t>(Stream::input));
    });
    auto end = first_input_->open();
    if (end) {
      *input = std::move(*end);
    } else {
      opened = end.error();
    }
  } else if (opened.ok()) {
    input->reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!*input) opened = Status::from_errno(errno);
  }
  if (!opened.ok()) {
    return Failure{opened, fmt::format("pipes for the ranks: {} (ulimit -n)", opened.name())};
  }
  return {};
}

int NodePart::run() {
  if (auto prepared = prepare(); !prepared) {
    refuse(prepared.error());
    return 1;
  }
  send(Kind::ready);
  while (!dismissed_ && !gone_) {
    loop_.turn();
    finish();
  }
  if (gone_) processes_->signal_all(SIGKILL);
  return gone_ ? 1 : 0;
}

void NodePart::refuse(const Failure& why) {
  const FailedBody body{why.status.code(), why.message.substr(0, limits::kTextBytesMax)};
  send(Kind::cannot, encode(body));
  const auto timer =
      loop_.at(std::chrono::steady_clock::now() + kUntilDismissed, [this] { gone_ = true; });
  while (!dismissed_ && !gone_) loop_.turn();
  loop_.cancel(timer);
}

void NodePart::read() {
  std::vector<Frame> frames;
  Status status = launcher_->receive(&frames);
  for (const Frame& frame : frames) {
    const Status acted = act(frame);
    if (!acted.ok()) status = acted;
    if (!acted.ok()) break;
  }
  if (!status.ok()) gone_ = true;
}

Status NodePart::act(const Frame& frame) {
  if (frame.header.kind == Kind::dismiss) {
    const auto failed = decode_number(frame.body);
    if (!failed) return Code::bad_message;
    // What scripts of a job that failed have started, and left behind.
    if (*failed != 0 && processes_) processes_->signal_all(SIGKILL);
    dismissed_ = true;
    return {};
  }
  if (!room_) return Code::bad_message;
  switch (frame.header.kind) {
    case Kind::start:
      return take_start();
    case Kind::took:
      return take_took(frame);
    case Kind::closed:
      return take_closed(frame);
    case Kind::input:
      return first_input_ && first_input_->take(text_of(frame.body)) ? Status()
                                                                     : Status(Code::bad_message);
    case Kind::signal: {
      const auto number = decode_number(frame.body);
      if (!number || *number == 0 || *number > static_cast<uint32_t>(SIGRTMAX))
        return Code::bad_message;
      processes_->signal_all(static_cast<int>(*number));
      return {};
    }
    default:
      return {};  // of a later version
  }
}

Status NodePart::take_start() {
  if (std::exchange(started_, true)) return Code::bad_message;
  const auto started = processes_->start_all(*room_, signals_.before(), files_.before());
  if (started) return {};
  processes_->signal_all(SIGKILL);
  const Failure& why = started.error();
  send(Kind::cannot,
       encode(FailedBody{why.status.code(), why.message.substr(0, limits::kTextBytesMax)}));
  return {};
}

OutputStream* NodePart::stream_of(uint64_t serial) {
  if (serial == static_cast<uint64_t>(Stream::output)) return output_.get();
  return serial == static_cast<uint64_t>(Stream::errors) ? errors_.get() : nullptr;
}

Status NodePart::take_took(const Frame& frame) {
  OutputStream* stream = stream_of(frame.header.serial);
  const auto bytes = decode_number(frame.body);
  if (stream == nullptr || !bytes) return Code::bad_message;
  stream->took(*bytes);
  return {};
}

Status NodePart::take_closed(const Frame& frame) {
  OutputStream* stream = stream_of(frame.header.serial);
  if (stream == nullptr) return Code::bad_message;
  stream->close();
  return {};
}

void NodePart::take_end(const End& end) {
  room_->ended(end);
  if (end.how != How::exited || end.code != 0) failed(end);
}

void NodePart::failed(const End& end) {
  // Whatever it does, it is of no use to the job.
  if (end.how == How::lost) processes_->signal(end.rank, SIGKILL);
  send(Kind::ended, encode(EndedBody{{end}, {}}));
}

void NodePart::finish() {
  if (!started_ || done_ || processes_->running() > 0) return;
  processes_->finish_output();
  if (!processes_->is_output_written()) return;
  output_->finish();
  errors_->finish();
  if (!output_->is_finished() || !errors_->is_finished()) return;
  done_ = true;
  send(Kind::done);
}

void NodePart::send(Kind kind, Bytes body, uint64_t serial) {
  auto content = std::make_shared<Content>();
  content->bytes.assign(body.begin(), body.end());
  const bool idle = !launcher_->has_unsent();
  launcher_->queue({.kind = kind, .rank = task_.node, .serial = serial}, std::move(content));
  if (idle) flush();
}

void NodePart::flush() {
  const Status status = launcher_->send();
  // Its end is found out by reading.
  loop_.change(token_, EPOLLIN | (status.code() == Code::busy ? EPOLLOUT : 0U));
}

Outcome<int> serve_node(int input, const std::string& version) {
  TRY_ASSIGN(Task task, read_task(input, version));
  NodePart part(std::move(task), above_standard(input));
  TRY(part.reach());
  return part.run();
}

}  // namespace penstock::job
