// Shared memory that programs named through a mount's virtual directory (USRBIO): the links, and
// who may use them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base.h"
#include "penstock/client.h"
#include "penstock/resources.h"
#include "penstock/sessions.h"

namespace penstock::fuse {

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

// Thread safe.
class LinkTable final : public sessions::RegionLinks {
 public:
  // Links are held by `accounts` against their users, whatever session or mount made them.
  explicit LinkTable(std::shared_ptr<resources::Accounts> accounts)
      : accounts_(std::move(accounts)) {}

  // Checks the name, and that `credentials` may read and write the memory at `target`, a file in
  // /dev/shm. not_supported for GPU memory, already_exists when the user has a link of that id.
  // not_found when `memory` is another file than is found there, as it is in a container with a
  // /dev/shm of its own.
  Outcome<void> add(const client::Credentials& credentials, const std::string& name,
                    const std::string& target, int memory) override;
  Status remove(const client::Credentials& credentials, const std::string& name) override;
  // By its full name or its uuid.
  Result<Opened> open(const client::Credentials& credentials,
                      const std::string& name) const override;

  std::vector<Link> list(const client::Credentials& credentials) const override;
  std::optional<Link> find(const client::Credentials& credentials,
                           const std::string& name) const override;

 private:
  using Key = std::pair<uint32_t, std::string>;  // uid and uuid
  struct Memory {
    std::string name;
    std::string target;
    bool is_ring = false;

    uint64_t heap_bytes() const;
  };
  struct User {
    std::shared_ptr<resources::Account> account;
    uint32_t links = 0;
  };

  using Links = std::map<Key, Memory>;
  Status try_add(const client::Credentials& credentials, const std::string& name,
                 const std::string& target, int memory);
  // With mutex_ held.
  Links::const_iterator find_of_any(const client::Credentials& credentials, const LinkName& parsed,
                                    const std::string& name) const;

  const std::shared_ptr<resources::Accounts> accounts_;
  mutable std::mutex mutex_;
  Links links_;
  std::map<uint32_t, User> users_;  // who have links
};

}  // namespace penstock::fuse
