// The key-value seam: ordered keys, serialisable transactions.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/engine/loop.h"

namespace penstock::engine {

// One attempt of a transaction. Reads see this transaction's own writes. Valid only inside the body
// that it is given to.
class KvTransaction {
 public:
  virtual ~KvTransaction() = default;
  // The value, or nullopt if there is none. In a writing transaction the key joins the read set:
  // the commit fails with conflict if another transaction changed it meanwhile.
  virtual Result<std::optional<std::string>> get(std::string_view key) = 0;
  // What get() says of each, in the order of `keys`; some may be the same. For keys that are known
  // ahead: a backend behind a network asks for all of them at once. Here, one after the other.
  using Values = std::vector<std::optional<std::string>>;
  virtual Result<Values> get_many(std::span<const std::string> keys);
  virtual void put(std::string_view key, std::string_view value) = 0;
  virtual void erase(std::string_view key) = 0;
  // Visits keys in [begin, end) in order until `visit` returns false; an empty `end` means to the
  // last key. A writing transaction conflicts with changes to the keys it visited, but not
  // necessarily with keys added in between: guard ranges with a key that every adder writes.
  using Visitor = std::function<bool(std::string_view key, std::string_view value)>;
  virtual Status scan(std::string_view begin, std::string_view end, const Visitor& visit) = 0;
};

enum class KvMode : uint8_t {
  read,   // a consistent snapshot; body must not write
  write,  // atomic and ordered; survives the death of the process, and once synced a power cut
  write_durable,  // as write, and on stable storage (with every earlier commit) when it completes
};

// One transaction. The body may run several times (after conflicts), on another thread than the
// loop's, and must have no effects except through the transaction and on its own object.
struct KvOp : Op {
  KvMode mode = KvMode::read;
  Loop* home = nullptr;  // where the completion runs; set by the caller for submit()

  // A status other than ok abandons the transaction and is the operation's result.
  virtual Status body(KvTransaction& transaction) = 0;

 protected:
  ~KvOp() = default;
};

// Bounded retries after conflicts, then Code::busy. A commit whose outcome the backend cannot tell
// is resolved inside (by a marker key in the same transaction) before the operation ends, or ends
// with may_have_happened when the backend is gone for good.
inline constexpr int kKvAttemptsMax = 64;

// Thread safe.
class Kv {
 public:
  virtual ~Kv() = default;
  // Runs the transaction on one of the backend's threads; completes on op.home.
  virtual void submit(KvOp& op) = 0;
  // Runs it on the calling thread, for threads that may block; the completion is not called.
  virtual Status run(KvOp& op) = 0;
  // Everything committed before is on stable storage when this returns. Blocks.
  virtual Status sync() = 0;

  // Runs a function as a transaction; for start-up and control paths.
  Status run(KvMode mode, const std::function<Status(KvTransaction&)>& body);
};

}  // namespace penstock::engine
