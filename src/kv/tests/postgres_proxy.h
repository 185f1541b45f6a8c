// Stands between a client and a server, and cuts a connection where a commit passes by.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "penstock/testing.h"

namespace penstock::test {

class PostgresProxy {
 public:
  enum class Cut : uint8_t {
    none,
    before,  // the server never gets it
    after,   // the server has answered, and nobody hears it
    late,    // the client's end is cut; the server gets it with deliver()
  };

  explicit PostgresProxy(std::string server_socket);
  ~PostgresProxy();
  PostgresProxy(const PostgresProxy&) = delete;
  PostgresProxy& operator=(const PostgresProxy&) = delete;

  // The directory to connect to.
  const std::string& directory() const { return directory_.path(); }
  // What happens to the next commit, once.
  void cut_next(Cut cut) { next_.store(cut); }
  // Whether that has happened.
  bool has_cut() const { return next_.load() == Cut::none; }
  // Gives the server what was kept, and waits until it has dealt with it.
  void deliver();

 private:
  void accept_all();
  void serve(UniqueFd client);
  // False at the end.
  bool from_client(UniqueFd& client, UniqueFd& server);

  const std::string server_socket_;
  const ScratchDirectory directory_;
  std::atomic<Cut> next_{Cut::none};
  std::atomic<bool> stop_{false};
  UniqueFd listening_;
  std::thread acceptor_;
  std::mutex mutex_;
  std::vector<std::thread> threads_;
  struct Kept {
    UniqueFd server;
    std::string commit;
  };
  std::vector<Kept> kept_;
};

}  // namespace penstock::test
