#include "penstock/lanes/session.h"

#include "penstock/connection.h"

namespace penstock::lanes {

Session::Session(std::string socket_path) : connection_(std::move(socket_path)) {
  // Regions before rings, whose operations name them; the cache first, which ends with the agent.
  connection_.add(cache_);
  connection_.add(regions_);
  connection_.add(files_);
  connection_.add(rings_);
  regions_.add(rings_);
  regions_.add(transfers_);
}

Outcome<std::unique_ptr<Session>> Session::connect(const std::string& socket_path) {
  std::unique_ptr<Session> session(new Session(socket_path));
  TRY(session->connection_.connect());
  return session;
}

Outcome<std::unique_ptr<Session>> Session::over(UniqueFd socket) {
  std::unique_ptr<Session> session(new Session({}));
  TRY(session->connection_.begin(std::move(socket)));
  return session;
}

Session::~Session() {
  // The operations in flight end first, so that nothing writes into the caller's memory afterwards.
  transfers_.end();
  regions_.give_back_device_memory();
  rings_.destroy_all();
  connection_.stop();
  cache_.stop();
}

}  // namespace penstock::lanes
