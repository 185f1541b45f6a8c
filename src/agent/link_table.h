// Shared memory that programs named through a mount's virtual directory (USRBIO): the links, and
// who may use them.
#pragma once

#include "accounts.h"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/agent.h"

namespace penstock::agent {

// `<uuid>[.b<block>][.r|.w<depth>][.ph|.pl][.t<ms>][.f<flags>][.gdr[.d<GPU>]]`
struct LinkName {
  std::string uuid;  // 32 hexadecimal digits, lower case
  uint64_t block_bytes = 0;
  bool is_ring = false;
  bool for_read = false;
  int64_t depth = 0;
  int priority = 0;  // 1 high, -1 low
  uint64_t timeout_ms = 0;
  uint64_t flags = 0;
  bool is_device = false;  // GPU memory, which is not linked
};
Result<LinkName> parse_link_name(std::string_view name);

// Thread safe. Links of different users do not meet: two users may use one name, and nobody learns
// of another's.
class LinkTable {
 public:
  // Links are held by `accounts` against their users, whatever session or mount made them.
  explicit LinkTable(std::shared_ptr<Accounts> accounts) : accounts_(std::move(accounts)) {}

  // Checks the name, and that `credentials` may read and write the memory at `target`, a file in
  // /dev/shm. not_supported for GPU memory, already_exists when the user has a link of that id.
  // `memory`, unless it is -1, is a descriptor of what the user calls by that path: not_found when
  // it is another file here, as it is in a container with a /dev/shm of its own.
  Status add(const client::Credentials& credentials, const std::string& name,
             const std::string& target, int memory = -1);
  // What add() has failed for, and what to do, for people.
  static std::string trouble(Status status, const std::string& target);
  Status remove(const client::Credentials& credentials, const std::string& name);
  std::vector<Agent::LinkedRegion> list(const client::Credentials& credentials) const;
  // Of these, the one with this name.
  std::optional<Agent::LinkedRegion> find(const client::Credentials& credentials,
                                          const std::string& name) const;

  struct Opened {
    UniqueFd fd;
    uint64_t size = 0;
  };
  // The memory of a region that this user linked, by its full name or its uuid.
  Result<Opened> open(const client::Credentials& credentials, const std::string& name) const;

 private:
  using Key = std::pair<uint32_t, std::string>;  // uid and uuid
  struct Link {
    std::string name;
    std::string target;
    bool is_ring = false;

    uint64_t heap_bytes() const;
  };
  struct User {
    std::shared_ptr<Account> account;
    uint32_t links = 0;
  };

  using Links = std::map<Key, Link>;
  // With mutex_ held.
  Links::const_iterator find_of_any(const client::Credentials& credentials, const LinkName& parsed,
                                    const std::string& name) const;

  const std::shared_ptr<Accounts> accounts_;
  mutable std::mutex mutex_;
  Links links_;
  std::map<uint32_t, User> users_;  // who have links
};

}  // namespace penstock::agent
