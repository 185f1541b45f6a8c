// What the agent holds on behalf of its clients: an account for each session, summed up by user and
// over all. Only root and the user of this process get more than a user's share, and something of
// everything is kept back for these two, however much the other users take.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "penstock/base.h"

namespace penstock::resources {

enum class Resource : uint8_t {
  sessions,
  descriptors,   // open in this process
  guards,        // bus_guard.h
  mappings,      // of memory, in this process
  heap_bytes,    // of this process
  pinned_bytes,  // of clients' memory, which the kernel keeps for as long as the agent wants
};
inline constexpr size_t kResourceCount = 6;
std::string_view name_of(Resource resource);

struct Bounds {
  uint64_t all = 0;
  uint64_t users = 0;  // of these, all other users than root and our own together
  uint64_t user = 0;   // one of them
  uint64_t session = 0;
};
using BoundsTable = std::array<Bounds, kResourceCount>;

// What the node has for all sessions, and what of it they hold.
struct ResourceStatus {
  // "sessions", "descriptors", "guards", "mappings", "heap_bytes", "pinned_bytes"
  std::string_view what;
  uint64_t held = 0;
  uint64_t all = 0;    // for root and the user whose process this is: for all others together there
  uint64_t users = 0;  // is less, and for one of them
  uint64_t user = 0;
  uint64_t refused = 0;  // charges since the start that exceeded what a session or user may have
};

// What the sessions of one user have of that.
struct UserStatus {
  uint32_t uid = 0;
  struct Share {
    std::string_view what;
    uint64_t held = 0;
    uint64_t most = 0;
  };
  std::vector<Share> shares;
};

// What a process may have that is allowed so many bytes of memory and so many mappings.
BoundsTable bounds_within(uint64_t memory_bytes, uint64_t mappings);
// What the limits of this process and of its control groups allow, and the memory of its machine.
BoundsTable bounds_of_process();

class Accounts;

// One session's. Thread safe. What it holds is given back at the latest when it goes.
class Account {
 public:
  Account(std::shared_ptr<Accounts> accounts, uint32_t uid)
      : accounts_(std::move(accounts)), uid_(uid) {}
  ~Account();
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  uint32_t uid() const { return uid_; }
  // busy, and nothing is charged, when that is more than the session or its user may have.
  Status charge(Resource resource, uint64_t amount);
  void release(Resource resource, uint64_t amount);
  uint64_t held(Resource resource) const;

 private:
  friend class Accounts;
  const std::shared_ptr<Accounts> accounts_;
  const uint32_t uid_;
  std::array<uint64_t, kResourceCount> held_{};  // guarded by the accounts' mutex
};

// Thread safe. Lives as long as its accounts: what hangs in a close may be charged to one for
// longer than the agent runs.
class Accounts : public std::enable_shared_from_this<Accounts> {
 public:
  static std::shared_ptr<Accounts> make(const BoundsTable& bounds, uint32_t own_uid) {
    return std::shared_ptr<Accounts>(new Accounts(bounds, own_uid));
  }
  std::shared_ptr<Account> open(uint32_t uid) {
    return std::make_shared<Account>(shared_from_this(), uid);
  }

  std::vector<UserStatus> status() const;
  std::vector<ResourceStatus> resources() const;

 private:
  friend class Account;
  // Of one resource, as metrics: "agent.held.NAME" and "agent.refused.NAME".
  struct Counters {
    explicit Counters(std::string_view name);
    metrics::Counter held;
    metrics::Counter refused;
  };

  Accounts(const BoundsTable& bounds, uint32_t own_uid);
  bool has_no_share(uint32_t uid) const { return uid == 0 || uid == own_uid_; }
  // With mutex_ held.
  bool may_take(const Account& account, size_t resource, uint64_t amount) const;
  void give_back(uint32_t uid, size_t resource, uint64_t amount);

  using Held = std::array<uint64_t, kResourceCount>;

  const BoundsTable bounds_;
  const uint32_t own_uid_;
  mutable std::mutex mutex_;
  Held all_{};
  std::deque<Counters> counters_;  // by resource; written with mutex_ held
  std::map<uint32_t, Held> users_;
};

// An amount that an account is charged with for as long as this lives.
class Charge {
 public:
  Charge() = default;
  static Result<Charge> take(std::shared_ptr<Account> account, Resource resource, uint64_t amount);
  Charge(Charge&& other) noexcept
      : account_(std::move(other.account_)), resource_(other.resource_), amount_(other.amount_) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(account_, other.account_);
    std::swap(resource_, other.resource_);
    std::swap(amount_, other.amount_);
    return *this;
  }
  ~Charge() {
    if (account_ != nullptr) account_->release(resource_, amount_);
  }
  const std::shared_ptr<Account>& account() const { return account_; }

 private:
  std::shared_ptr<Account> account_;
  Resource resource_ = Resource::sessions;
  uint64_t amount_ = 0;
};

}  // namespace penstock::resources
