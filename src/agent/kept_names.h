// The file `names` of a store: where its names are.
#pragma once

#include <string>

#include "penstock/base.h"

namespace penstock::agent {

inline constexpr const char* kRocksDbWord = "rocksdb";

// What the file `names` of a store says: docs/formats/store-directory.md.
struct KeptNames {
  std::string at;       // a URL without a password; empty: RocksDB, in the directory
  std::string copy;     // the id of the database there; empty: of one without
  bool moves = false;   // a move was begun, and may have been switched
  std::string to;       // where, as `at`
  std::string to_copy;  // and the id of the database there
};
// No file: RocksDB. A file that is not understood is refused.
Outcome<KeptNames> read_kept_names(const std::string& directory);
// Replaces the file; durable when it returns.
Outcome<void> keep_names(const std::string& directory, const KeptNames& kept);

// As people are told: the URL, or the word for the directory.
inline std::string names_word(const std::string& url) {
  return url.empty() ? kRocksDbWord : url;
}
// Whether it can be kept.
bool is_kept_url(const std::string& text);

}  // namespace penstock::agent
