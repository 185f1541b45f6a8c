// Accepts sessions over sockets, reads their requests, and has them executed.
//
// One control thread waits for everything: the listening socket, the sessions' sockets and the ends
// of the processes that made them, and, for shards that cannot wait for them themselves, the
// eventfds with which applications wake them. It never blocks on anything else. Requests and the
// ends of sessions run on worker threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "penstock/base.h"
#include "penstock/engine.h"
#include "penstock/sessions.h"

namespace penstock::session_server {

struct SessionServerConfig {
  std::string socket_path;  // empty: only connect_local() makes sessions
  // How long an application may leave its replies unread before its session ends.
  std::chrono::milliseconds reply_timeout{1000};
};

class Outbox;
class FairWorkers;

class SessionServer final : public sessions::SessionHost {
 public:
  // `node` outlives the server. A socket that is there already is replaced: the agent that holds
  // the directory owns the name.
  static Outcome<std::unique_ptr<SessionServer>> start(sessions::SessionNode& node,
                                                       SessionServerConfig config);
  ~SessionServer() override;

  // Ends all sessions and accepts no more. Idempotent.
  void stop();
  Outcome<UniqueFd> connect_local();
  std::vector<sessions::SessionStatus> sessions();
  std::shared_ptr<sessions::Session> find(uint64_t id);  // null: there is none

  void end_session(uint64_t id) override;
  Status watch(int eventfd, uint32_t shard) override;
  void forget(int eventfd) override;

 private:
  // A session as the server keeps it. Owned by the map until its end has been executed.
  struct Connection {
    UniqueFd socket;
    std::unique_ptr<Outbox> outbox;
    std::shared_ptr<sessions::Session> session;
    UniqueFd process;  // readable at the application's end; none where it cannot be watched
    std::deque<sessions::Message> waiting;
    size_t waiting_bytes = 0;
    uint32_t running = 0;
    bool reading = true;
    // Since when replies have been waiting for room in the socket; kNever: none are. Nothing is
    // executed meanwhile.
    engine::Time mute_since = engine::kNever;
    bool ending = false;
  };

  SessionServer(sessions::SessionNode& node, SessionServerConfig config);
  Outcome<UniqueFd> listen_on(const std::string& path);
  void run();
  void accept_all();
  // There is no descriptor for a connection that waits: gives up the spare ones for it. False: not
  // even then.
  bool accept_with_spares();
  void keep_spares();
  void pause_accepting(bool pause);
  void add(UniqueFd socket);
  // Charged with what a session costs; null when there is no room for one more of this user.
  std::shared_ptr<resources::Account> account_for(uint32_t uid);
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

  sessions::SessionNode& node_;
  const SessionServerConfig config_;
  UniqueFd epoll_, wake_, listener_;
  std::vector<UniqueFd> spares_;      // the control thread's
  bool accepting_is_paused_ = false;  // likewise
  std::thread thread_;
  std::unique_ptr<FairWorkers> workers_;

  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<uint64_t, Connection> connections_;
  std::vector<uint64_t> asked_to_end_;
  uint64_t next_id_ = 1;
  size_t mute_ = 0;  // connections whose replies wait
  bool stopping_ = false;
  bool stopped_ = false;
};

}  // namespace penstock::session_server
