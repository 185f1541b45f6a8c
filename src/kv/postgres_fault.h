// Why a statement failed, and what that ends.
#pragma once

#include <string>
#include <string_view>

#include "penstock/base.h"

namespace penstock::kv::postgres {

enum class Reach : uint8_t {
  attempt,     // the transaction had no effect and may succeed if it runs again
  operation,   // it would fail again
  connection,  // as attempt, on another connection; of a commit it is not known whether it happened
};

struct Fault {
  Reach reach = Reach::operation;
  Status status;       // what an operation ends with that runs no more
  std::string reason;  // for people; without passwords
  // The SQLSTATE, or its class, where it is one that is known; "none" where the connection was lost
  // without one, else "other". For ever.
  std::string_view label = "none";
};

// What the five characters of a SQLSTATE mean. Without one the connection is gone.
Fault fault_of(std::string_view sqlstate, std::string reason);

// Counts, for metrics, that what failed so is tried again. Thread safe.
void count_retry(const Fault& fault);

// How the server's function for commits says that its connection may not commit.
inline constexpr std::string_view kNotThisConnection = "PN001";

}  // namespace penstock::kv::postgres
