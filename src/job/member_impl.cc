#include "member_impl.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <sstream>
#include <sys/eventfd.h>

#include "penstock/job/limits.h"

namespace penstock::job {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Beyond a deadline for the room's last word, and for being told at all that this process leaves.
constexpr seconds kRoomAnswers{5};
// Of the other ranks of a node, at the end of the one that has their room: all leave at about the
// same time.
constexpr seconds kOthersLeave{5};

// What a room sends: all of a meeting, and tables of ranks.
constexpr Accepts kFromRoom{limits::kMeetingBytesMax + limits::kRanksMax * sizeof(Share) + 64,
                            size_t{limits::kRanksMax} * limits::kDescriptorsMax};

Failure gone_room() {
  return {Code::closed, "the room of the job is gone"};
}

Time member_now() {
  return std::chrono::steady_clock::now();
}

// PENSTOCK_JOB_NODES lets the ranks of one machine count as of several nodes: a number of nodes
// with as many ranks each, or the nodes of rank 0, 1, ..., again from the beginning where there are
// more ranks. What is no such list is not used.
void play_nodes(std::vector<uint32_t>* node_of) {
  const char* text = std::getenv("PENSTOCK_JOB_NODES");
  const bool is_one_node =
      std::all_of(node_of->begin(), node_of->end(), [](uint32_t node) { return node == 0; });
  if (text == nullptr || !is_one_node) return;
  std::vector<uint32_t> list;
  std::istringstream from(text);
  for (std::string word; std::getline(from, word, ',');) {
    uint64_t value = 0;
    if (!parse_number(word.c_str(), &value) || value >= limits::kRanksMax) return;
    list.push_back(static_cast<uint32_t>(value));
  }
  const size_t size = node_of->size();
  if (list.empty() || (list.size() == 1 && list[0] == 0)) return;
  for (size_t rank = 0; rank < size; ++rank) {
    (*node_of)[rank] = list.size() > 1
                           ? list[rank % list.size()]
                           : static_cast<uint32_t>(rank * std::min<size_t>(list[0], size) / size);
  }
}

// Milliseconds for poll(), at least one.
int poll_until(Time deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - member_now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 1, 1000));
}

}  // namespace

Member::Impl::Impl() : node_of_{0}, ended_(1) {}

Member::Impl::~Impl() {
  ASSERT(!is_forked());
  if (watcher_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      wake();
    }
    watcher_.join();
  }
  connection_.reset();
  if (room_) room_->close(kOthersLeave);
}

Outcome<std::unique_ptr<Member::Impl>> Member::Impl::join(UniqueFd socket, const Hello& hello,
                                                          Time deadline,
                                                          std::unique_ptr<NodeRoom> room) {
  auto impl = std::make_unique<Impl>();
  impl->room_ = std::move(room);
  impl->connection_ = std::make_unique<Connection>(std::move(socket), kFromRoom);
  Connection& connection = *impl->connection_;
  auto content = std::make_shared<Content>();
  content->bytes = encode(hello);
  connection.queue({.kind = Kind::hello, .rank = hello.rank}, content);
  std::vector<Frame> frames;
  std::string missing = "not all ranks of the job have";
  while (true) {
    const Status sent = connection.send();
    const Status received = connection.receive(&frames);
    std::erase_if(frames, [&](const Frame& frame) {
      if (frame.header.kind != Kind::waiting) return false;
      if (const auto who = decode_failed(frame.body)) missing = who->text;
      return true;
    });
    if (!frames.empty()) break;
    if (!received.ok()) return gone_room();
    if (member_now() >= deadline) {
      return Failure{Code::timed_out, missing + " not joined the job in time"};
    }
    pollfd ready{connection.fd(), POLLIN, 0};
    if (sent.code() == Code::busy) ready.events |= POLLOUT;
    (void)::poll(&ready, 1, poll_until(deadline));
  }
  const Frame& first = frames.front();
  const auto welcome =
      first.header.kind == Kind::welcome ? decode_welcome(first.body) : std::nullopt;
  if (!welcome || welcome->node_of.size() != hello.size || first.header.rank != hello.rank) {
    const auto refused =
        first.header.kind == Kind::refused ? decode_failed(first.body) : std::nullopt;
    if (refused) return Failure{refused->code, refused->text};
    return Failure{Code::bad_message, "the room of the job speaks another version"};
  }
  if (const Status started = impl->start(*welcome, hello.rank); !started.ok()) {
    return Failure{started, "no descriptor is left to join the job (ulimit -n)"};
  }
  frames.erase(frames.begin());
  for (Frame& frame : frames) impl->take(frame);
  TRY_ASSIGN(impl->watcher_,
             start_thread("the thread that hears of the job", [at = impl.get()] { at->watch(); }));
  return impl;
}

Status Member::Impl::start(const Welcome& welcome, uint32_t rank) {
  Welcome told = welcome;
  play_nodes(&told.node_of);
  place_ = told.place_of(rank);
  node_of_ = told.node_of;
  ended_ = std::vector<std::atomic<uint8_t>>(place_.size);
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return wake_ ? Status() : Status::from_errno(errno);
}

uint32_t Member::Impl::node_of(uint32_t rank) const {
  ASSERT(rank < place_.size);
  return node_of_[rank];
}

std::optional<Failure> Member::Impl::fault_of(const Meeting& meeting, const Bring& bring) const {
  const auto wrong = [&](Code code, const std::string& what) {
    return Failure{code, fmt::format("meeting '{}': {}", meeting.name, what)};
  };
  if (meeting.name.empty() || meeting.name.size() > limits::kNameBytesMax) {
    return wrong(Code::invalid_argument,
                 fmt::format("a name has 1 to {} bytes", limits::kNameBytesMax));
  }
  const auto& ranks = meeting.ranks;
  if (ranks.empty() || ranks.back() >= place_.size ||
      std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal<>()) != ranks.end()) {
    return wrong(Code::invalid_argument,
                 fmt::format("ranks do not ascend, or are not all below {}", place_.size));
  }
  if (!std::binary_search(ranks.begin(), ranks.end(), place_.rank)) {
    return wrong(Code::invalid_argument, fmt::format("rank {} is not of it", place_.rank));
  }
  if (bring.bytes.size() > limits::kBringBytesMax) {
    return wrong(Code::too_large, fmt::format("{} bytes are more than {}", bring.bytes.size(),
                                              limits::kBringBytesMax));
  }
  if (bring.descriptors.size() > limits::kDescriptorsMax) {
    return wrong(Code::too_large, fmt::format("{} descriptors are more than {}",
                                              bring.descriptors.size(), limits::kDescriptorsMax));
  }
  return std::nullopt;
}

namespace {

Outcome<std::vector<UniqueFd>> duplicates_of(std::span<const int> descriptors) {
  std::vector<UniqueFd> duplicates;
  for (const int fd : descriptors) {
    duplicates.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (duplicates.back()) continue;
    const Code code = errno == EMFILE ? Code::no_memory : Code::invalid_argument;
    return Failure{code, code == Code::no_memory
                             ? "this process may not have more open files (ulimit -n)"
                             : fmt::format("{} is no descriptor", fd)};
  }
  return duplicates;
}

}  // namespace

Outcome<std::vector<Brought>> Member::Impl::exchange_alone(const Bring& bring) const {
  std::vector<Brought> all(1);
  all[0].bytes.assign(bring.bytes.begin(), bring.bytes.end());
  TRY_ASSIGN(all[0].descriptors, duplicates_of(bring.descriptors));
  return all;
}

Outcome<std::vector<Brought>> Member::Impl::exchange(const Meeting& meeting, const Bring& bring,
                                                     Time deadline) {
  if (is_forked()) return Failure{Code::closed, "a process made by fork() is no rank of the job"};
  if (auto fault = fault_of(meeting, bring)) return std::move(*fault);
  if (meeting.ranks.size() == 1) return exchange_alone(bring);
  auto content = std::make_shared<Content>();
  content->bytes = encode_bring(meeting.name, meeting.ranks, bring.bytes);
  TRY_ASSIGN(content->descriptors, duplicates_of(bring.descriptors));

  Waiter waiter;
  waiter.meeting = &meeting;
  std::unique_lock lock(mutex_);
  if (left_) return Failure{Code::closed, "this rank has left the job"};
  if (!connection_) return gone_room();
  const uint64_t serial = serial_++;
  waiters_.emplace(serial, &waiter);
  send({.kind = Kind::bring, .rank = place_.rank, .serial = serial}, std::move(content), true);
  const auto done = [&] { return waiter.done; };
  if (!changed_.wait_until(lock, deadline, done)) {
    send({.kind = Kind::withdraw, .rank = place_.rank, .serial = serial}, nullptr, false);
    changed_.wait_until(lock, member_now() + kRoomAnswers, done);
  }
  ASSERT(waiters_.erase(serial) == 1);
  if (!waiter.done) {
    return Failure{Code::timed_out,
                   fmt::format("meeting '{}': the room of the job does not answer", meeting.name)};
  }
  if (!waiter.failure.status.ok()) return std::move(waiter.failure);
  ASSERT(waiter.brought.size() == meeting.ranks.size());
  return std::move(waiter.brought);
}

std::vector<End> Member::Impl::ends() const {
  const std::lock_guard lock(mutex_);
  return ends_;
}

bool Member::Impl::has_ended(uint32_t rank) const {
  ASSERT(rank < place_.size);
  return ended_[rank].load(std::memory_order_acquire) != 0;  // pairs with note() and take_ended()
}

void Member::Impl::leave() {
  if (is_forked()) return;
  std::unique_lock lock(mutex_);
  if (left_) return;
  left_ = true;
  if (!connection_) return;
  send({.kind = Kind::leave, .rank = place_.rank}, nullptr, false);
  changed_.wait_until(lock, member_now() + kRoomAnswers, [&] { return answered_ || !connection_; });
}

void Member::Impl::abort(int code, const std::string& why) {
  if (is_forked()) return;
  std::unique_lock lock(mutex_);
  if (left_) return;
  left_ = true;
  if (!connection_) return;
  auto content = std::make_shared<Content>();
  content->bytes = encode_abort(code, why);
  send({.kind = Kind::abort, .rank = place_.rank}, std::move(content), false);
  changed_.wait_until(lock, member_now() + kRoomAnswers,
                      [&] { return !connection_ || !connection_->has_unsent(); });
}

void Member::Impl::wake() {
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

void Member::Impl::send(FrameHeader header, std::shared_ptr<const Content> content,
                        bool with_descriptors) {
  if (!connection_) return;
  connection_->queue(header, std::move(content), with_descriptors);
  flush();
  if (connection_ && connection_->has_unsent()) wake();
}

void Member::Impl::flush() {
  const Status status = connection_->send();
  // What the room sent before its end is read first: the watcher finds the end.
  blocked_ = status.code() == Code::conflict;
  if (!connection_->has_unsent()) changed_.notify_all();
}

void Member::Impl::watch() {
  std::unique_lock lock(mutex_);
  while (!stopping_ && connection_) {
    pollfd ready[2] = {{connection_->fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    if (connection_->has_unsent() && !blocked_) ready[0].events |= POLLOUT;
    const int due_ms = count_leaves();
    const int wait_ms = blocked_ ? 2 : due_ms;
    lock.unlock();
    const int got = ::poll(ready, 2, wait_ms);
    ASSERT(got >= 0 || errno == EINTR);
    lock.lock();
    if ((ready[1].revents & POLLIN) != 0) {
      uint64_t count = 0;
      (void)!::read(wake_.get(), &count, sizeof count);
    }
    if (connection_->has_unsent()) flush();
    if ((ready[0].revents & ~POLLOUT) != 0) receive();
  }
}

void Member::Impl::receive() {
  std::vector<Frame> frames;
  const Status status = connection_->receive(&frames);
  for (Frame& frame : frames) take(frame);
  if (status.code() == Code::bad_message) return lose("the room of the job broke the protocol");
  if (!status.ok()) return lose(gone_room().message);
}

void Member::Impl::take(Frame& frame) {
  const auto waiter = waiters_.find(frame.header.serial);
  switch (frame.header.kind) {
    case Kind::brought:
      if (waiter == waiters_.end()) return;  // it waits no longer
      take_brought(*waiter->second, frame);
      break;
    case Kind::failed: {
      if (waiter == waiters_.end()) return;
      const auto failed = decode_failed(frame.body);
      waiter->second->failure = failed
                                    ? Failure{failed->code, failed->text}
                                    : Failure{Code::bad_message, "the launcher broke the protocol"};
      waiter->second->done = true;
      break;
    }
    case Kind::left:
      answered_ = true;
      break;
    case Kind::ended:
      if (const auto ended = decode_ended(frame.body, place_.size)) take_ended(*ended);
      return;
    default:
      return;  // of a later version
  }
  changed_.notify_all();
}

void Member::Impl::take_brought(Waiter& waiter, Frame& frame) {
  if (waiter.done) return;
  waiter.done = true;
  if (frame.descriptors_lost) {
    waiter.failure = {
        Code::no_memory,
        fmt::format(
            "meeting '{}': {} descriptors do not fit among this process's open files: raise "
            "the limit (ulimit -n)",
            waiter.meeting->name, frame.header.descriptors)};
    return;
  }
  ByteReader from(frame.body);
  const auto shares = decode_shares(from, waiter.meeting->ranks.size(), frame.header.descriptors);
  if (!shares) {
    waiter.failure = {Code::bad_message, "the room of the job broke the protocol"};
    return;
  }
  auto fd = frame.descriptors.begin();
  for (const Share& share : *shares) {
    Brought& brought = waiter.brought.emplace_back();
    const Bytes bytes = from.raw(share.bytes);
    brought.bytes.assign(bytes.begin(), bytes.end());
    const auto end = fd + share.descriptors;
    brought.descriptors.assign(std::make_move_iterator(fd), std::make_move_iterator(end));
    fd = end;
  }
}

void Member::Impl::take_ended(const EndedBody& ended) {
  for (const End& end : ended.ends) note(end);
  for (const uint32_t rank : ended.left) ended_[rank].store(1, std::memory_order_release);
  if (ended.left.empty()) return;
  departures_.fetch_add(1, std::memory_order_release);
  for (Follower& follower : followers_) {
    const auto is_followed = [&](uint32_t rank) { return follower.has(rank); };
    if (std::any_of(ended.left.begin(), ended.left.end(), is_followed))
      follower.note_left(member_now());
  }
}

void Member::Impl::note(const End& end) {
  const bool known = std::any_of(ends_.begin(), ends_.end(),
                                 [&](const End& other) { return other.rank == end.rank; });
  if (known) return;
  ends_.push_back(end);
  ended_[end.rank].store(1, std::memory_order_release);
  trouble_.fetch_add(1, std::memory_order_release);  // pairs with who polls trouble()
  for (const Follower& follower : followers_) follower.count(end);
}

// Counts leaves that are due; milliseconds until the next is, -1: none is to come.
int Member::Impl::count_leaves() {
  const Time now = member_now();
  std::optional<Time> next;
  for (Follower& one : followers_) {
    if (!one.due) continue;
    if (*one.due > now) {
      next = std::min(*one.due, next.value_or(*one.due));
      continue;
    }
    one.due.reset();
    __atomic_fetch_add(one.word, 1, __ATOMIC_RELEASE);
  }
  return next ? poll_until(*next) : -1;
}

bool Member::Impl::Follower::has(uint32_t rank) const {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

void Member::Impl::Follower::count(const End& end) const {
  if (has(end.rank) || end.how == How::aborted) __atomic_fetch_add(word, 1, __ATOMIC_RELEASE);
}

// Of ranks that have left; only the first one counts.
void Member::Impl::Follower::note_left(Time now) {
  if (is_left) return;
  is_left = true;
  due = now + after_leave;
}

void Member::Impl::follow(uint32_t* word, std::vector<uint32_t> ranks, Time::duration after_leave) {
  const std::lock_guard lock(mutex_);
  Follower& added = followers_.emplace_back(Follower{word, std::move(ranks), after_leave});
  __atomic_store_n(word, 0, __ATOMIC_RELEASE);
  for (const End& end : ends_) added.count(end);
  // An end among these counts already: a leave more does not harm.
  const auto is_over = [this](uint32_t rank) { return has_ended(rank); };
  if (std::any_of(added.ranks.begin(), added.ranks.end(), is_over)) added.note_left(member_now());
  if (wake_) wake();
}

void Member::Impl::unfollow(uint32_t* word) {
  const std::lock_guard lock(mutex_);
  std::erase_if(followers_, [word](const Follower& one) { return one.word == word; });
}

void Member::Impl::lose(const std::string& why) {
  connection_.reset();
  if (!left_) note({place_.rank, How::lost, 0, why});
  for (const auto& [serial, waiter] : waiters_) {
    if (waiter->done) continue;
    waiter->failure = {Code::closed, why};
    waiter->done = true;
  }
  changed_.notify_all();
}

}  // namespace penstock::job
