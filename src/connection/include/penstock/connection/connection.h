// The application's end of a session: its socket, the calls over it, and the way to the agent's
// successor.
//
// A monitor thread receives all replies and notices the end of the connection. It then looks for
// the agent's successor, and what follows the connection (follower.h) is made again there under the
// same numbers. When no agent comes for a while the session is dead: every call and every operation
// ends with ECONNRESET, until one comes after all.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "penstock/base.h"
#include "penstock/connection/follower.h"
#include "penstock/connection/forked.h"
#include "penstock/connection/limits.h"
#include "penstock/engine.h"
#include "penstock/wire.h"

namespace penstock::connection {

// As long as it lives, no control call that this thread makes waits longer than until `time`; it
// ends with timed_out then. For work of many calls with one deadline.
class CallsEndBy {
 public:
  explicit CallsEndBy(engine::Time time);
  ~CallsEndBy();
  CallsEndBy(const CallsEndBy&) = delete;
  CallsEndBy& operator=(const CallsEndBy&) = delete;

 private:
  const engine::Time before_;
};

// Thread safe from begin() to stop().
class Connection {
 public:
  // `socket_path` is where successors of the agent are looked for; empty: it has none.
  explicit Connection(std::string socket_path);
  // After stop(), or when begin() was not called or failed.
  ~Connection();

  // Before begin(). It stays until stop() has returned.
  void add(Follower& follower) {
    ASSERT(!monitor_.joinable());
    followers_.push_back(&follower);
  }
  // begin() with the agent at `socket_path`.
  Outcome<void> connect();
  // Greets the agent at the other end of the socket and starts the monitor.
  Outcome<void> begin(UniqueFd socket);
  // Ends the connection and the monitor. No other thread is in a call.
  void stop();

  // In a child of the process that began it, where every call fails.
  bool forked() const { return is_forked(generation_); }
  bool connected();
  // Changes whenever lanes have to look where they stand: at every new connection, and at death.
  uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }
  // That the agent and this library have in common, as the last greeting said.
  uint64_t features() const { return features_.load(std::memory_order_relaxed); }
  bool dead() const { return dead_.load(std::memory_order_acquire); }

  // One control call. A call whose connection is lost is made again if it is `repeatable`, else it
  // ends with peer_gone: it may have happened. Calls under way when a reply makes no sense end with
  // bad_message, and are not made again: the agent would say the same.
  using Answer = Outcome<wire::ReplyBody>;
  Answer call(const wire::RequestBody& body, bool repeatable,
              const std::vector<int>& descriptors = {}, UniqueFd* given = nullptr);
  // One that is not repeated and is answered with a descriptor.
  Answer call_for(const wire::RequestBody& body, UniqueFd* given) {
    return call(body, false, {}, given);
  }
  // Makes a call and, in the same instant as far as a new connection is concerned, `keep`s its
  // result in a follower's table, with the connection's lock held. `again` replaces the request
  // after the first time; without it a call whose connection is lost is made again.
  Answer establish(wire::RequestBody body, std::vector<int> descriptors,
                   const std::function<void(const wire::ReplyBody&)>& keep,
                   const std::function<wire::RequestBody(const wire::ReplyBody&)>& again = {});
  // Sends a request and does not wait. `ended` is called once, in whichever thread learns of it:
  // with the reply, or with null where none comes any more.
  using Ended = std::function<void(const wire::Reply*)>;
  Status tell(const wire::RequestBody& body, Ended ended, std::string* why);

 private:
  // A call under way. The thread that takes it out of pending_ ends it: the one that has received
  // its reply, the monitor when the connection is lost, or a caller that does not wait any longer.
  // It has a mutex of its own, which is free when its caller is woken: to be woken only to wait for
  // the next lock costs two more switches of threads.
  struct Pending {
    enum class State : uint8_t { waiting, answered, lost };
    void end(State how);
    bool wait_until(std::chrono::steady_clock::time_point deadline);

    Ended ended;        // of a call that no thread waits for
    wire::Reply reply;  // with `given`: written before `state`, read after it
    UniqueFd given;
    std::mutex mutex;
    std::condition_variable wake;
    // Changed once, with `mutex` held: release, pairs with the acquire of looks without it.
    std::atomic<State> state{State::waiting};
  };
  struct Socket {
    explicit Socket(ParentsFd socket) : fd(std::move(socket)) {}
    ParentsFd fd;  // else a child would keep the session of a parent that is killed
    // A reply of it could not be understood: set before the socket is shut down, and so before the
    // monitor sees its end.
    std::atomic<bool> is_garbled{false};
  };
  struct Begun {
    uint64_t id = 0;
    Status sent;
    std::shared_ptr<Socket> socket;
  };

  // When a call that this thread begins now ends at the latest.
  static std::chrono::steady_clock::time_point call_deadline();
  // Sends a request as soon as there is a connection and room for one more call.
  Outcome<Begun> begin_call(const wire::RequestBody& body, const std::vector<int>& descriptors,
                            std::chrono::steady_clock::time_point deadline,
                            const std::shared_ptr<Pending>& pending, uint64_t* epoch);
  Answer call_once(const wire::RequestBody& body, const std::vector<int>& descriptors, bool* lost,
                   uint64_t* epoch, UniqueFd* given = nullptr);
  // Receives what comes, for a moment, until the call has ended: its own reply is read by the
  // thread that waits for it, which spares a switch to the monitor's thread.
  void look_for_reply(const std::shared_ptr<Socket>& socket, const Pending& pending);
  void take_reply(wire::Reply reply, UniqueFd given, const std::shared_ptr<Socket>& from);
  // Takes a call out if it has not ended yet.
  bool take_out(uint64_t id);

  // connection_monitor.cc
  void monitor();
  void receive_all(const std::shared_ptr<Socket>& socket);
  void give_up(Socket& socket);
  void lose();
  bool reconnect();
  bool try_to_reconnect();
  Status set_up_again(int socket);
  void set_dead(bool dead);
  void wait_for_attempt(std::unique_lock<std::mutex>& lock);

  const std::string socket_path_;
  const uint64_t generation_;
  const std::chrono::seconds reconnect_timeout_;
  std::vector<Follower*> followers_;  // not changed behind begin()
  std::thread monitor_;

  std::atomic<uint64_t> epoch_{1};  // release by the monitor pairs with acquire in the lanes
  std::atomic<bool> dead_{false};   // set before the epoch changes; changed with mutex_ held

  // Relaxed: an agent without one refuses what needs it.
  std::atomic<uint64_t> features_{0};

  std::mutex mutex_;
  std::condition_variable changed_;  // connected_, dead_, closing_, or a call has ended
  std::shared_ptr<Socket> socket_;
  bool connected_ = false;
  bool closing_ = false;
  uint64_t attempts_ = 0;        // to find a successor, that have ended
  bool attempt_wanted_ = false;  // by a call of a dead session: now, not after the next pause
  uint64_t next_call_ = 1;
  std::map<uint64_t, std::shared_ptr<Pending>> pending_;
};

}  // namespace penstock::connection
