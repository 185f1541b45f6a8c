#include "handshaker.h"

#include <algorithm>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace penstock::tcp::internal {

using Step = tls::Handshake::Step;

Handshaker::Handshaker(std::shared_ptr<const tls::Credentials> credentials)
    : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), credentials_(std::move(credentials)) {
  ASSERT(credentials_ != nullptr && wake_);
  thread_ = engine::Thread("handshakes", [this] { run(); });
}

Handshaker::~Handshaker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
}

void Handshaker::renew(std::shared_ptr<const tls::Credentials> credentials) {
  ASSERT(credentials != nullptr);
  const std::lock_guard lock(mutex_);
  credentials_ = std::move(credentials);
}

void Handshaker::begin(HandshakeOp& op, tls::Part part, UniqueFd socket, engine::Loop& loop,
                       engine::Time deadline) {
  op.socket = std::move(socket);
  op.part = part;
  op.deadline = deadline;
  op.loop = &loop;
  {
    const std::lock_guard lock(mutex_);
    new_.push_back(&op);
  }
  wake();
}

void Handshaker::stop(HandshakeOp& op) {
  op.stopped.store(true, std::memory_order_relaxed);
  wake();
}

void Handshaker::wake() {
  (void)::eventfd_write(wake_.get(), 1);
}

void Handshaker::run() {
  while (take_new()) {
    wait();
    end_what_is_over();
    go_on();
    std::erase_if(active_, [](const Active& one) { return one.op == nullptr; });
  }
  for (Active& one : active_) end(one, Code::closed, "");
  const std::lock_guard lock(mutex_);
  for (HandshakeOp* const op : new_) op->loop->complete_remote(*op, Code::closed);
}

// False: it is over.
bool Handshaker::take_new() {
  const std::lock_guard lock(mutex_);
  const auto is_stopped = [](HandshakeOp* op) {
    if (!op->stopped.load(std::memory_order_relaxed)) return false;
    op->loop->complete_remote(*op, Code::cancelled);
    return true;
  };
  std::erase_if(new_, is_stopped);
  for (HandshakeOp* const op : std::exchange(new_, {})) {
    Active& one = active_.emplace_back();
    one.op = op;
    one.waits_for = op->part == tls::Part::server ? POLLIN : short{0};
  }
  return !stopping_;
}

void Handshaker::end_what_is_over() {
  for (Active& one : active_) {
    if (one.op->stopped.load(std::memory_order_relaxed)) {
      end(one, Code::cancelled, "");
    } else if (one.op->deadline <= one.op->loop->clock().now()) {
      end(one, Code::timed_out, "its handshake does not come to an end");
    }
  }
}

// What has begun goes before what has not, of which a few begin in each turn: when thousands come
// at once, few are half done at a time.
void Handshaker::go_on() {
  for (Active& one : active_) {
    if (one.can_go_on() && !one.is_new()) step(one);
  }
  waits_for_room_ = false;
  size_t begun = 0;
  for (Active& one : active_) {
    if (begun == limits::kHandshakesBegun) return;
    if (!one.can_go_on() || !one.is_new()) continue;
    waits_for_room_ = !make_room(one.op->loop->clock().now());
    if (waits_for_room_) return;
    ++begun;
    step(one);
  }
}

// For one more of those who call this process, of whom so many go on at a time: the oldest gives
// way when it has had time to answer. Calls of its own wait for nobody.
bool Handshaker::make_room(engine::Time now) {
  if (served_ < limits::kHandshakesMax) return true;
  Active* oldest = nullptr;
  for (Active& other : active_) {
    const bool is_served = other.handshake != nullptr && other.op->part == tls::Part::server;
    if (is_served && (oldest == nullptr || other.begun < oldest->begun)) oldest = &other;
  }
  ASSERT(oldest != nullptr);
  if (now - oldest->begun < limits::kHandshakeAlone) return false;
  end(*oldest, Code::timed_out, "its handshake gives way to others");
  return true;
}

// Until one of the sockets has what is waited for, something new has come, or a while has passed.
void Handshaker::wait() {
  std::vector<pollfd> all{{wake_.get(), POLLIN, 0}};
  bool is_ready = false;
  for (const Active& one : active_) {
    const bool waits = one.waits_for != 0;
    all.push_back({waits ? one.op->socket.get() : -1, one.waits_for, 0});
    is_ready |= !waits && !(waits_for_room_ && one.is_new());
  }
  constexpr std::chrono::milliseconds kLook = limits::kLookEvery;
  const int most = is_ready ? 0 : active_.empty() ? -1 : static_cast<int>(kLook.count());
  if (::poll(all.data(), all.size(), most) <= 0) return;
  eventfd_t count = 0;
  if (all[0].revents != 0) (void)::eventfd_read(wake_.get(), &count);
  for (size_t i = 0; i < active_.size(); ++i) {
    if (all[i + 1].revents != 0) active_[i].waits_for = 0;
  }
}

void Handshaker::start(Active& one) {
  if (one.op->part == tls::Part::server) ++served_;
  one.begun = one.op->loop->clock().now();
  const std::lock_guard lock(mutex_);
  one.handshake =
      std::make_unique<tls::Handshake>(credentials_, one.op->part, one.op->socket.get());
}

void Handshaker::step(Active& one) {
  if (one.handshake == nullptr) start(one);
  switch (one.handshake->step()) {
    case Step::wants_to_read:
      one.waits_for = POLLIN;
      return;
    case Step::wants_to_write:
      one.waits_for = POLLOUT;
      return;
    case Step::failed:
      return end(one, one.handshake->failure().status, one.handshake->failure().message);
    case Step::done:
      one.op->secured = std::move(one.handshake->secured());
      return end(one, Code::ok, "");
  }
}

void Handshaker::end(Active& one, Status status, std::string trouble) {
  HandshakeOp& op = *std::exchange(one.op, nullptr);
  if (std::exchange(one.handshake, nullptr) != nullptr && op.part == tls::Part::server) {
    ASSERT(served_ > 0);
    --served_;
  }
  op.trouble = std::move(trouble);
  op.loop->complete_remote(op, status);
}

}  // namespace penstock::tcp::internal
