#include "penstock/connection/connection.h"

#include "channel.h"

#include <algorithm>
#include <cstdlib>
#include <sys/socket.h>
#include <utility>

namespace penstock::connection {

namespace {

std::chrono::seconds reconnect_timeout() {
  const char* text = std::getenv("PENSTOCK_RECONNECT_SECONDS");
  if (text == nullptr) return limits::kReconnectTimeout;
  const long wanted = std::strtol(text, nullptr, 10);
  return std::clamp(std::chrono::seconds(wanted), std::chrono::seconds(0),
                    limits::kReconnectTimeoutMax);
}

// When calls of this thread end, whatever happens.
thread_local engine::Time calls_end = engine::kNever;

}  // namespace

CallsEndBy::CallsEndBy(engine::Time time)
    : before_(std::exchange(calls_end, std::min(time, calls_end))) {}

CallsEndBy::~CallsEndBy() {
  calls_end = before_;
}

Connection::Connection(std::string socket_path)
    : socket_path_(std::move(socket_path)),
      generation_(fork_generation()),
      reconnect_timeout_(reconnect_timeout()) {}

Connection::~Connection() {
  ASSERT(!monitor_.joinable());
}

Outcome<void> Connection::connect() {
  TRY_ASSIGN(UniqueFd socket, connect_to(socket_path_));
  return begin(std::move(socket));
}

Outcome<void> Connection::begin(UniqueFd socket) {
  ASSERT(socket && !monitor_.joinable() && !connected_);
  bound_sends(socket.get());
  const Result<wire::Reply> reply =
      exchange(socket.get(), {1, wire::Hello{}}, {}, limits::kSetupStepMs);
  if (!reply) {
    return Failure{reply.error(), reply.error() == Code::peer_gone
                                      ? "connect: the agent refuses the session (it may have too "
                                        "many)"
                                      : "connect: the agent does not answer"};
  }
  if (!reply->status.ok()) return Failure{reply->status, "connect: " + reply->text};
  const Result<wire::Agreement> greeted = greeting_of(*reply);
  if (!greeted) {
    return Failure{greeted.error(),
                   "connect: the agent answers with a version of the session protocol that "
                   "this library does not speak"};
  }
  features_.store(greeted->features, std::memory_order_relaxed);
  next_call_ = 2;
  socket_ = std::make_shared<Socket>(ParentsFd(std::move(socket)));
  connected_ = true;
  TRY_ASSIGN(monitor_, start_thread("the thread of the session", [this] { monitor(); }));
  return {};
}

void Connection::stop() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    if (socket_ != nullptr) ::shutdown(socket_->fd.get(), SHUT_RDWR);
    changed_.notify_all();
  }
  if (!monitor_.joinable()) return;
  monitor_.join();
  // The monitor has ended all calls.
  ASSERT(!connected_ && pending_.empty());
}

bool Connection::connected() {
  const std::lock_guard lock(mutex_);
  return connected_;
}

// ---- calls ----

std::chrono::steady_clock::time_point Connection::call_deadline() {
  const engine::Time now = engine::system_clock().now();
  const auto left = std::min<engine::Duration>(limits::kCallTimeout, calls_end - now);
  return std::chrono::steady_clock::now() + left;
}

// So that the first call after an agent has come back finds it.
void Connection::wait_for_attempt(std::unique_lock<std::mutex>& lock) {
  if (socket_path_.empty()) return;
  const uint64_t seen = attempts_;
  attempt_wanted_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, std::chrono::milliseconds(limits::kSetupStepMs),
                    [&] { return closing_ || connected_ || attempts_ != seen; });
}

void Connection::Pending::end(State how) {
  {
    const std::lock_guard lock(mutex);
    ASSERT(how != State::waiting && state.load(std::memory_order_relaxed) == State::waiting);
    state.store(how, std::memory_order_release);
  }
  wake.notify_one();
}

bool Connection::Pending::wait_until(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex);
  return wake.wait_until(
      lock, deadline, [this] { return state.load(std::memory_order_acquire) != State::waiting; });
}

Outcome<Connection::Begun> Connection::begin_call(const wire::RequestBody& body,
                                                  const std::vector<int>& descriptors,
                                                  std::chrono::steady_clock::time_point deadline,
                                                  const std::shared_ptr<Pending>& pending,
                                                  uint64_t* epoch) {
  std::unique_lock lock(mutex_);
  const auto may_start = [this] {
    return dead_ || closing_ || (connected_ && pending_.size() < limits::kCallsMax);
  };
  if (!changed_.wait_until(lock, deadline, may_start)) {
    return Failure{Code::timed_out, "the agent does not answer"};
  }
  if (!connected_ && dead_) wait_for_attempt(lock);
  if (!connected_) return Failure{Code::peer_gone, "the agent is gone"};
  const uint64_t id = next_call_++;
  ASSERT(pending != nullptr && socket_ != nullptr);
  const bool is_new = pending_.emplace(id, pending).second;
  ASSERT(is_new);
  *epoch = epoch_.load(std::memory_order_relaxed);
  const std::shared_ptr<Socket> socket = socket_;
  lock.unlock();
  const Status sent = send_request(socket->fd.get(), {id, body}, descriptors);
  return Begun{id, sent, socket};
}

Connection::Answer Connection::call_once(const wire::RequestBody& body,
                                         const std::vector<int>& descriptors, bool* lost,
                                         uint64_t* epoch, UniqueFd* given) {
  const auto deadline = call_deadline();
  const auto pending = std::make_shared<Pending>();
  TRY_ASSIGN(const Begun begun, begin_call(body, descriptors, deadline, pending, epoch));
  // A send that fails because of the connection is followed by the monitor's verdict.
  const bool is_judged = begun.sent.ok() || begun.sent == Code::peer_gone;
  if (begun.sent.ok()) look_for_reply(begun.socket, *pending);
  if (!is_judged || !pending->wait_until(deadline)) {
    if (take_out(begun.id)) {
      if (is_judged) return Failure{Code::timed_out, "the agent does not answer"};
      return Failure{begun.sent, fmt::format("the request: {}", begun.sent.name())};
    }
    // Another thread has taken the call out, and ends it in a moment.
    (void)pending->wait_until(std::chrono::steady_clock::time_point::max());
  }
  ASSERT(pending->state.load(std::memory_order_acquire) != Pending::State::waiting);
  *lost = pending->state.load(std::memory_order_acquire) == Pending::State::lost;
  if (*lost) return Failure{Code::peer_gone, "the agent died; it may have happened"};
  if (!pending->reply.status.ok()) {
    return Failure{pending->reply.status, std::move(pending->reply.text)};
  }
  if (given != nullptr) *given = std::move(pending->given);
  return std::move(pending->reply.body);
}

bool Connection::take_out(uint64_t id) {
  const std::lock_guard lock(mutex_);
  if (pending_.erase(id) == 0) return false;
  changed_.notify_all();
  return true;
}

Status Connection::tell(const wire::RequestBody& body, Ended ended, std::string* why) {
  const auto pending = std::make_shared<Pending>();
  pending->ended = std::move(ended);
  ASSERT(pending->ended);
  uint64_t epoch = 0;
  const Outcome<Begun> begun = begin_call(body, {}, call_deadline(), pending, &epoch);
  if (!begun) {
    *why = begun.error().message;
    pending->ended(nullptr);
    return begun.error().status;
  }
  // A send that fails because of the connection is followed by the monitor's verdict.
  if (begun->sent.ok() || begun->sent == Code::peer_gone) return Code::ok;
  if (take_out(begun->id)) pending->ended(nullptr);
  *why = begun->sent.name();
  return begun->sent;
}

Connection::Answer Connection::call(const wire::RequestBody& body, bool repeatable,
                                    const std::vector<int>& descriptors, UniqueFd* given) {
  while (true) {
    bool lost = false;
    uint64_t epoch = 0;
    Answer answer = call_once(body, descriptors, &lost, &epoch, given);
    if (!lost || !repeatable) return answer;
  }
}

Connection::Answer Connection::establish(
    wire::RequestBody body, std::vector<int> descriptors,
    const std::function<void(const wire::ReplyBody&)>& keep,
    const std::function<wire::RequestBody(const wire::ReplyBody&)>& again) {
  ASSERT(keep);
  while (true) {
    bool lost = false;
    uint64_t epoch = 0;
    Answer answer = call_once(body, descriptors, &lost, &epoch);
    if (!answer) {
      // Files are opened with effects (creation, truncation) that must not happen twice.
      if (lost && !again) continue;
      return answer;
    }
    {
      const std::lock_guard lock(mutex_);
      if (connected_ && epoch == epoch_.load(std::memory_order_relaxed)) {
        keep(*answer);
        return answer;
      }
    }
    // The connection changed in between: the new agent does not know of it yet.
    if (again) {
      body = again(*answer);
      descriptors.clear();
    }
  }
}

}  // namespace penstock::connection
