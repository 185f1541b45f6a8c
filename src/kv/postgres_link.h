// One connection to a server: statements in pipelines, each wait with a deadline.
#pragma once

#include "postgres_address.h"
#include "postgres_fault.h"
#include "postgres_values.h"

#include <libpq-fe.h>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "penstock/engine.h"

namespace penstock::kv::postgres {

// Named ones can be prepared.
struct Statement {
  const char* name;
  const char* text;
};

struct Step {
  const Statement& statement;
  const Arguments& arguments;
};

inline const Arguments kNoArguments;

// Not thread safe.
class Link {
 public:
  template <class T>
  using Outcome = Result<T, Fault>;

  // To one host of `address`. Blocks until the deadline, or as long as the resolver of names does.
  static Outcome<std::unique_ptr<Link>> connect(const Address& address, size_t host,
                                                engine::Time deadline);

  // False after a fault that reached the connection, and after a deadline.
  bool usable() const { return usable_; }
  // Also looks whether the server has closed it meanwhile, as each has done that was started again.
  bool still_usable();

  // Carries the steps out in one trip. After the first that fails the server skips the rest, and
  // its fault is returned. Without a BEGIN among them they are one transaction.
  Outcome<std::vector<Answer>> run(std::span<const Step> steps, engine::Time deadline);
  // Sends the steps; what they answer is read before the next run(), and ignored.
  void run_unseen(std::span<const Step> steps);
  // The statements are sent by their names from now on.
  Outcome<std::vector<Answer>> prepare(std::span<const Statement> statements,
                                       engine::Time deadline);
  // The server warned of something during the last run().
  bool warned() const { return warned_; }

 private:
  Link() = default;

  bool send(const Step& step);
  Outcome<std::vector<Answer>> collect(size_t steps, engine::Time deadline);
  Outcome<PGresult*> next(engine::Time deadline);
  // False when the deadline passed.
  bool wait(short events, engine::Time deadline);
  Fault lost(std::string reason);
  Fault fault(const PGresult* result);
  Outcome<bool> shake_hands(engine::Time deadline);

  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_{nullptr, &PQfinish};
  bool usable_ = false;
  bool prepared_ = false;
  bool warned_ = false;
  std::vector<size_t> unseen_;  // steps of each run_unseen() that is not read yet
};

}  // namespace penstock::kv::postgres
