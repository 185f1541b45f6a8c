// The administration channel of a running node: one JSON request a connection, over a UNIX socket
// that only the node's owner (and root) can open. Its answers are JSON lines; the last one has
// "done".
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "penstock/base.h"
#include "penstock/json.h"

namespace penstock::apps {

inline constexpr const char* kAdminSocketName = "admin.sock";

// Serves each request on a thread of its own; a handler may block, and several run at once.
class AdminServer {
 public:
  // Sends one intermediate line, such as progress. False when the asker is gone or reads no more,
  // or the server is ending: then the handler gives up.
  using Say = std::function<bool(const Json&)>;
  // The last line, without "done".
  using Handler = std::function<Json(const Json& request, const Say& say)>;

  static Outcome<std::unique_ptr<AdminServer>> start(const std::string& directory, Handler handler);
  // Waits for the handlers.
  ~AdminServer();

 private:
  struct Connection {
    UniqueFd socket;
    std::thread thread;
    std::atomic<bool> over{false};
  };

  AdminServer(std::string path, UniqueFd listener, UniqueFd stopper, Handler handler);
  void run();
  void admit(UniqueFd socket);
  void serve(int socket);

  const std::string path_;
  const UniqueFd listener_;
  const UniqueFd stopper_;
  UniqueFd spare_;  // of the thread; given up when there is no other descriptor
  const Handler handler_;
  std::atomic<bool> stopping_{false};
  std::list<Connection> connections_;  // the accepting thread's
  std::thread thread_;
};

// Asks the node that serves `directory` and returns its last line, without "done"; a line with
// "error" becomes a Failure. `on_line` sees the lines before it.
Outcome<Json> ask_node(const std::string& directory, const Json& request,
                       const std::function<void(const Json&)>& on_line = {});

// Whether a node answers for this directory.
bool node_runs(const std::string& directory);

}  // namespace penstock::apps
