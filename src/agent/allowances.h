// What root allows users of this node, kept in the store's directory
// (docs/formats/store-directory.md).
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "penstock/client.h"

namespace penstock::agent {

// Thread safe. Terms that were found stay where they are.
class Allowances {
 public:
  // Brings back what was set before in this store; before anything else. Refuses a file that it
  // does not understand: a user who is limited must not be free by accident.
  Outcome<void> load(const std::string& directory);

  client::Terms& of(uint32_t uid);
  // From now on and after every restart.
  Outcome<void> set(uint32_t uid, const client::Allowance& allowance);
  // Those of users for whom something was set.
  std::vector<std::pair<uint32_t, client::Allowance>> all() const;

 private:
  std::string text() const;  // with mutex_ held

  mutable std::mutex mutex_;
  std::string path_;  // empty: nothing is kept
  std::map<uint32_t, client::Terms> users_;
};

}  // namespace penstock::agent
