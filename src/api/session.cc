#include "session.h"

#include "device_rings.h"
#include "staging.h"

#include <algorithm>
#include <cstdlib>
#include <sys/socket.h>

#include "penstock/route.h"

namespace penstock::api {

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

// Large blocks of calloc() are pages that nobody has touched.
ZeroedWords::ZeroedWords(size_t count)
    : words_(static_cast<std::atomic<uint64_t>*>(std::calloc(count, sizeof(uint64_t)))) {
  static_assert(std::is_trivially_destructible_v<std::atomic<uint64_t>>);
  static_assert(sizeof(std::atomic<uint64_t>) == sizeof(uint64_t));
  if (words_ == nullptr) throw std::bad_alloc();
}

void ZeroedWords::Free::operator()(std::atomic<uint64_t>* words) const {
  std::free(static_cast<void*>(words));
}

CallsEndBy::CallsEndBy(engine::Time time)
    : before_(std::exchange(calls_end, std::min(time, calls_end))) {}

CallsEndBy::~CallsEndBy() {
  calls_end = before_;
}

Session::Session()
    : generation_(fork_generation()),
      reconnect_timeout_(reconnect_timeout()),
      device_rings_(std::make_unique<DeviceRings>(*this)),
      staging_(std::make_unique<StagingPool>(*this)),
      access_table_(std::make_unique<std::array<std::atomic<uint8_t>, wire::kFilesMax>>()),
      access_(*access_table_),
      inodes_(wire::kFilesMax),
      region_generations_(wire::kRegionsMax) {}

bool Session::forked() const {
  return is_forked(generation_);
}

Outcome<std::unique_ptr<Session>> Session::connect(const std::string& socket_path) {
  TRY_ASSIGN(UniqueFd socket, connect_to(socket_path));
  std::unique_ptr<Session> session(new Session);
  session->socket_path_ = socket_path;
  TRY(session->begin(std::move(socket)));
  return session;
}

Outcome<void> Session::begin(UniqueFd socket) {
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
  next_call_ = 2;
  socket_ = std::make_shared<Socket>(Socket{ParentsFd(std::move(socket))});
  connected_ = true;
  TRY_ASSIGN(monitor_, start_thread("the thread of the session", [this] { monitor(); }));
  return {};
}

Session::~Session() {
  // The operations in flight end first, so that nobody writes into the caller's memory afterwards.
  device_rings_->destroy_all();
  staging_->unpin_all();
  more_transfers_.clear();
  lane_transfers_.clear();
  transfers_.reset();
  for (const auto& [id, region] : regions_) {
    // A kernel may still be in a ring that could not be destroyed: better lost than taken away.
    if (region->device_rings.load(std::memory_order_relaxed) == 0) give_back_memory(*region);
  }
  while (true) {
    Ring* ring = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (!connected_ || rings_.empty()) break;
      ring = rings_.begin()->second.get();
    }
    if (!destroy_ring(ring)) break;
  }
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    if (socket_ != nullptr) ::shutdown(socket_->fd.get(), SHUT_RDWR);
    changed_.notify_all();
  }
  if (monitor_.joinable()) monitor_.join();
  cache_.stop();
  own_agent_.reset();
}

// ---- calls ----

std::chrono::steady_clock::time_point Session::call_deadline() {
  const engine::Time now = engine::system_clock().now();
  const auto left = std::min<engine::Duration>(limits::kCallTimeout, calls_end - now);
  return std::chrono::steady_clock::now() + left;
}

// So that the first call after an agent has come back finds it.
void Session::wait_for_attempt(std::unique_lock<std::mutex>& lock) {
  if (socket_path_.empty()) return;
  const uint64_t seen = attempts_;
  attempt_wanted_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, std::chrono::milliseconds(limits::kSetupStepMs),
                    [&] { return closing_ || connected_ || attempts_ != seen; });
}

void Session::Pending::end(State how) {
  {
    const std::lock_guard lock(mutex);
    state.store(how, std::memory_order_release);
  }
  wake.notify_one();
}

bool Session::Pending::wait_until(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex);
  return wake.wait_until(
      lock, deadline, [this] { return state.load(std::memory_order_acquire) != State::waiting; });
}

Outcome<Session::Begun> Session::begin_call(const wire::RequestBody& body,
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
  pending_.emplace(id, pending);
  *epoch = epoch_.load(std::memory_order_relaxed);
  const std::shared_ptr<Socket> socket = socket_;
  lock.unlock();
  const Status sent = send_request(socket->fd.get(), {id, body}, descriptors);
  return Begun{id, sent, socket};
}

Session::Answer Session::call_once(const wire::RequestBody& body,
                                   const std::vector<int>& descriptors, bool* lost, uint64_t* epoch,
                                   UniqueFd* given) {
  const auto deadline = call_deadline();
  const auto pending = std::make_shared<Pending>();
  TRY_ASSIGN(const Begun begun, begin_call(body, descriptors, deadline, pending, epoch));
  // A send that fails because of the connection is followed by the monitor's verdict.
  const bool is_judged = begun.sent.ok() || begun.sent == Code::peer_gone;
  if (begun.sent.ok()) look_for_reply(begun.socket, *pending);
  if (!is_judged || !pending->wait_until(deadline)) {
    std::unique_lock lock(mutex_);
    if (pending_.erase(begun.id) > 0) {
      changed_.notify_all();
      if (is_judged) return Failure{Code::timed_out, "the agent does not answer"};
      return Failure{begun.sent, fmt::format("the request: {}", begun.sent.name())};
    }
    lock.unlock();
    // The monitor has it, and tells within the moment.
    (void)pending->wait_until(std::chrono::steady_clock::time_point::max());
  }
  *lost = pending->state.load(std::memory_order_acquire) == Pending::State::lost;
  if (*lost) return Failure{Code::peer_gone, "the agent died; it may have happened"};
  if (!pending->reply.status.ok()) {
    return Failure{pending->reply.status, std::move(pending->reply.text)};
  }
  if (given != nullptr) *given = std::move(pending->given);
  return std::move(pending->reply.body);
}

Session::Answer Session::call(const wire::RequestBody& body, bool repeatable,
                              const std::vector<int>& descriptors, UniqueFd* given) {
  while (true) {
    bool lost = false;
    uint64_t epoch = 0;
    Answer answer = call_once(body, descriptors, &lost, &epoch, given);
    if (!lost || !repeatable) return answer;
  }
}

Session::Answer Session::establish(
    wire::RequestBody body, std::vector<int> descriptors,
    const std::function<void(const wire::ReplyBody&)>& keep,
    const std::function<wire::RequestBody(const wire::ReplyBody&)>& again) {
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

}  // namespace penstock::api
