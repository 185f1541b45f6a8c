// What an application has at an agent: the connection, and what was made over it.
#pragma once

#include <memory>
#include <string>

#include "penstock/cache_view.h"
#include "penstock/connection.h"
#include "penstock/lanes/rings.h"
#include "penstock/lanes/transfer_pool.h"

namespace penstock::lanes {

// Its parts are thread safe, each by itself.
class Session {
 public:
  static Outcome<std::unique_ptr<Session>> connect(const std::string& socket_path);
  // Over a socket to an agent that has no successor.
  static Outcome<std::unique_ptr<Session>> over(UniqueFd socket);
  // Ends everything. No other thread is in a call of this session.
  ~Session();

  connection::Connection& connection() { return connection_; }
  const connection::Connection& connection() const { return connection_; }
  connection::OpenFiles& files() { return files_; }
  const connection::OpenFiles& files() const { return files_; }
  connection::Regions& regions() { return regions_; }
  const connection::Regions& regions() const { return regions_; }
  // The node cache, as far as this process has mapped it.
  cache_view::CacheMap& cache() { return cache_; }
  const cache_view::CacheMap& cache() const { return cache_; }
  Rings& rings() { return rings_; }
  TransferPool& transfers() { return transfers_; }

 private:
  explicit Session(std::string socket_path);

  connection::Connection connection_;
  connection::OpenFiles files_{connection_};
  cache_view::CacheMap cache_{connection_};  // before rings, which have views of it
  connection::Regions regions_{connection_};
  Rings rings_{*this};
  TransferPool transfers_{*this};
};

}  // namespace penstock::lanes
