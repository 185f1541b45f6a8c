// Whose turn it is to have the names and the controller, where several directories of one node may
// (docs/decisions/0069-names-taken-over.md).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/agent.h"
#include "penstock/engine.h"
#include "penstock/kv.h"

namespace penstock::agent {

// What a process says of itself in the database. Foreign input: what is not understood is empty.
struct Holder {
  std::string number;   // of its directory
  std::string at;       // HOST:PORT
  std::string print;    // of its authority
  bool shares = false;  // it acts by leases alone, so that another may take over
};
std::string text_of(const Holder& holder);
Holder holder_of(const std::string& text);

// The file `standby` of a store whose names are on a server.
struct KeptTurn {
  std::string number;   // of the directory; empty: there is no file
  bool shares = false;  // other directories of its node may have the names: it waits for its turn
};
Outcome<KeptTurn> read_turn(const std::string& directory);
Outcome<void> keep_turn(const std::string& directory, const KeptTurn& turn);
std::string new_number();

// Where names are on a server, as of one start.
struct TurnConfig {
  std::string directory;
  std::string url;    // with a password, perhaps
  std::string store;  // whose names
  Holder own;
  std::function<bool(const StandbyStatus&)> stands_by;
};

// Blocks until the directory may open the names: of whom it then takes them.
struct Turn {
  std::optional<kv::PostgresOptions::Lost> lost;  // none: nobody had them
  bool predecessor_may_run = false;
};
Outcome<Turn> await_turn(const TurnConfig& config);

// Of a process that has the names: tells who could take them over, and tells these, before it
// depends on it, that it acts by leases. Made, started and stopped by one thread; the rest is
// thread safe.
class Standbys {
 public:
  explicit Standbys(TurnConfig config) : config_(std::move(config)), shares_(config_.own.shares) {}
  ~Standbys() { stop(); }
  // Told again when it changes, in a thread of its own, which may block.
  void start(std::function<void(const std::vector<std::string>& addresses)> changed);
  void stop();

  // From now on nothing is answered without a lease. Once true it stays so.
  bool shares() const { return shares_.load(std::memory_order_acquire); }
  std::vector<std::string> addresses() const;

 private:
  void run();
  void look();

  const TurnConfig config_;
  std::atomic<bool> shares_;
  std::unique_ptr<kv::PostgresWatch> watch_;  // of the thread
  std::function<void(const std::vector<std::string>&)> changed_;
  mutable engine::Mutex mutex_;
  engine::Condition wake_;
  bool is_stopping_ = false;
  std::vector<std::string> addresses_;
  engine::Thread thread_;
};

}  // namespace penstock::agent
