// A store that no node serves, for commands that work on its parts.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "penstock/agent.h"
#include "penstock/engine.h"

namespace penstock::agent {

// Made, used and destroyed by one thread, which may block. While it lives no node starts on the
// store.
class StoppedStore {
 public:
  // Takes the directory for this process. The namespace's database may be missing. Refuses as a
  // node would, with a message that names the directory: no store, another version, in use,
  // damaged.
  static Outcome<std::unique_ptr<StoppedStore>> open(const std::string& directory);
  virtual ~StoppedStore() = default;

  virtual uint32_t targets() const = 0;

  // The greatest inode of a file that has, or had, chunks in any target; InodeId{} if none has.
  // Each target is opened as by a node that starts, so that what its log holds counts. One that
  // cannot be opened or read is a failure.
  virtual Outcome<InodeId> newest_inode() = 0;

  // Makes the namespace's database that is missing: `fill` gets an empty one beside its place,
  // which is put there once that has succeeded, on stable storage. After a failure, or when the
  // process is killed before the end, there is none; what that leaves is removed the next time.
  // already_exists if there is a database.
  using Fill = std::function<Outcome<void>(engine::Kv&)>;
  virtual Outcome<void> make_meta(const Fill& fill) = 0;

  // As Agent::move_names().
  virtual Outcome<NamesMoved> move_names(const std::string& to, const NamesProgress& progress) = 0;
};

// Where a store's names are as its directory says, and whose they are: for commands that only read
// them, whether a node runs or not. Refuses while a move is not settled: a node that runs knows
// more.
struct NamesFound {
  std::string at;     // a URL; empty: the directory `meta`
  std::string store;  // as kv::Place
};
Outcome<NamesFound> find_names(const std::string& directory);

}  // namespace penstock::agent
