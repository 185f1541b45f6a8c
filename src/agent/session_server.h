// Accepts sessions, reads their requests, and has them executed.
//
// One control thread waits for everything: the listening socket, the sessions' sockets and the ends
// of the processes that made them, and, for shards that cannot wait for them themselves, the
// eventfds with which applications wake them. It never blocks on anything else. Requests and the
// ends of sessions run on worker threads.
#pragma once

#include "limits.h"
#include "session.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace penstock::agent {

// Threads for work that blocks, in two classes: requests may occupy some of the threads only, and
// those of one user some of these. Users take turns.
class WorkerPool {
 public:
  WorkerPool();
  ~WorkerPool();  // everything that was submitted is done first

  void submit_request(uint32_t uid, std::function<void()> work);
  void submit_end(std::function<void()> work);

 private:
  using Work = std::function<void()>;
  struct User {
    std::deque<Work> waiting;
    uint32_t running = 0;
    bool has_turn = false;  // is in turns_
  };
  void run();
  // With the mutex held.
  void give_turn(uint32_t uid, User& user);
  Work take_request(uint32_t* uid);
  void end_request(uint32_t uid);

  std::mutex mutex_;
  std::condition_variable work_;
  std::map<uint32_t, User> users_;  // that have requests
  std::deque<uint32_t> turns_;      // who may start one
  std::deque<Work> ends_;
  uint32_t requests_waiting_ = 0;
  uint32_t requests_running_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

class SessionServer final : public SessionHost {
 public:
  // Listens on `socket_path` unless it is empty. A socket that is there already is replaced:
  // whoever holds the store's lock owns the name.
  static Outcome<std::unique_ptr<SessionServer>> start(SessionNode& node, std::string socket_path);
  ~SessionServer() override;

  // Ends all sessions and accepts no more. Idempotent.
  void stop();
  Outcome<UniqueFd> connect_local();
  std::vector<SessionStatus> sessions();
  std::shared_ptr<Session> find(uint64_t id);  // null: there is none

  void end_session(uint64_t id) override;
  Status watch(int eventfd, uint32_t shard) override;
  void forget(int eventfd) override;

 private:
  // A session as the server keeps it. Owned by the map until its end has been executed.
  struct Connection {
    std::shared_ptr<Session> session;
    UniqueFd process;  // readable at the application's end; none where it cannot be watched
    std::deque<Message> waiting;
    size_t waiting_bytes = 0;
    uint32_t running = 0;
    bool reading = true;
    // Since when replies have been waiting for room in the socket; kNever: none are. Nothing is
    // executed meanwhile.
    engine::Time mute_since = engine::kNever;
    bool ending = false;
  };

  explicit SessionServer(SessionNode& node) : node_(node) {}
  Outcome<UniqueFd> listen_on(const std::string& path);
  void run();
  void accept_all();
  // There is no descriptor for who comes: gives up the spare ones for it. False: not even then.
  bool accept_with_spares();
  void keep_spares();
  void pause_accepting(bool pause);
  void add(UniqueFd socket);
  // Charged with what a session costs; null when there is no room for one more of this user.
  std::shared_ptr<Account> account_for(uint32_t uid);
  void on_socket(uint64_t id, uint32_t events);
  void read_from(uint64_t id, Connection& connection);  // with mutex_ held
  void end_long_mute();
  int patience_ms();
  void process_ended(uint64_t id);
  void end_asked();
  // With mutex_ held.
  void begin_end(uint64_t id, Connection& connection);
  void dispatch(uint64_t id, Connection& connection);
  void set_reading(uint64_t id, Connection& connection, bool reading);
  void look_at_outbox(uint64_t id, Connection& connection);
  void wait_for(uint64_t id, const Connection& connection);
  void request_done(uint64_t id);
  void finished(uint64_t id);

  SessionNode& node_;
  std::string socket_path_;
  UniqueFd epoll_, wake_, listener_;
  std::vector<UniqueFd> spares_;      // the control thread's
  bool accepting_is_paused_ = false;  // likewise
  std::thread thread_;
  std::unique_ptr<WorkerPool> workers_;

  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<uint64_t, Connection> connections_;
  std::vector<uint64_t> asked_to_end_;
  uint64_t next_id_ = 1;
  size_t mute_ = 0;  // connections whose replies wait
  bool stopping_ = false;
  bool stopped_ = false;
};

}  // namespace penstock::agent
