// The namespace as text: dumped from one snapshot of a key-value store, and loaded into an empty
// one (decision 0048). Two dumps of one state are equal, and a dump of what was loaded is what was
// loaded, but for the next id. Format: docs/formats/metadata-text.md.
//
// Both ways take bounded memory, however large the namespace is. They work on the calling thread,
// which may block; nothing here is shared, so that different stores can be worked on at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "penstock/engine.h"

namespace penstock::meta_text {

struct Counts {
  uint64_t inodes = 0;
  uint64_t xattrs = 0;
  uint64_t entries = 0;
  uint64_t sessions = 0;

  friend bool operator==(const Counts&, const Counts&) = default;
};

// Where a dump goes.
class Sink {
 public:
  virtual ~Sink() = default;
  // The text begins. Once more when the store makes its snapshot anew: what was written before is
  // to be forgotten then, and a sink that cannot do that says so.
  virtual Outcome<void> begin() = 0;
  virtual Outcome<void> write(std::string_view text) = 0;
};

// Where a load reads from.
class Source {
 public:
  virtual ~Source() = default;
  // Fills the beginning of `to`, which is not empty; how many bytes. 0: there are no more.
  virtual Outcome<size_t> read(std::span<char> to) = 0;
};

// Writes all of the namespace in `kv`, as it is at one moment, in one transaction that reads.
// Nothing is changed. `random` makes keys for checks: let it be one that cannot be foreseen. With a
// Failure the text is not complete and of no use: the sink's own, io_error, corrupt (what is stored
// breaks a rule of docs/formats/meta.md; the message says which), wrong_version.
Outcome<Counts> dump(engine::Kv& kv, engine::Random& random, Sink& sink);

struct CheckCounts {
  uint64_t inodes = 0;
  uint64_t directories = 0;
  uint64_t entries = 0;
  uint64_t xattrs = 0;
  uint64_t sessions = 0;  // files that were open for writing
  uint64_t orphans = 0;   // removed, and not collected yet
  uint64_t problems = 0;

  friend bool operator==(const CheckCounts&, const CheckCounts&) = default;
};

// Told of each thing that is wrong, in words; of a run that is repeated (the store makes its
// snapshot anew) those of the run before are to be forgotten: begin() comes first.
class Problems {
 public:
  virtual ~Problems() = default;
  virtual void begin() = 0;
  virtual void add(const std::string& problem) = 0;
};

// Looks at all of the namespace in `kv`, as it is at one moment, in one transaction that reads, and
// goes on after what is wrong: every record means something, every entry is there by name and by
// cookie and names an inode that there is, links are the names that there are, directories lead to
// the root, orphans, sessions and numbers fit. A Failure: it could not be read, or is of another
// version.
Outcome<CheckCounts> check(engine::Kv& kv, engine::Random& random, Problems& problems);

struct LoadOptions {
  // No file gets a lower number: at least one more than any that has chunks somewhere.
  InodeId next_min = {};
  // So many chains of its own a store has; a layout that names others is refused. 0: it is not
  // known.
  uint64_t chains = 0;
  // Whether the records of a cluster's chains are kept elsewhere, and were not lost with the names.
  // Else layouts that name such chains are refused: nobody would know where they are.
  bool has_cluster = true;
  // So many numbers behind the dump's next one no file gets: those that were given after the dump
  // was made, where nobody can tell which.
  uint64_t next_gap = 0;
};

// Fills `kv`, which is empty, with what `source` has to its end, and verifies all of it: the text,
// that links and entries agree, that every directory leads to the root, and that a dump of what is
// stored then is this text. Only then, and as the last, comes what lets Meta open it, on stable
// storage. With a Failure `kv` is as empty as it was, or holds what Meta refuses, and is to be
// thrown away: the source's own, invalid_argument (what is wrong, in which line), wrong_version,
// not_empty, or what the store said.
Outcome<Counts> load(engine::Kv& kv, engine::Random& random, Source& source,
                     const LoadOptions& options);

}  // namespace penstock::meta_text
