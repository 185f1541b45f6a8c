#include "penstock/resources/accounts.h"

#include "limits.h"

#include <algorithm>
#include <fmt/format.h>
#include <sys/resource.h>

#include "penstock/resources/process_memory.h"

namespace penstock::resources {
namespace {

uint64_t open_files_of_process() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return std::min<uint64_t>(limit.rlim_cur, limits::kDescriptorsMax);
}

// An eighth is root's, and one user has at most half.
Bounds shared_out(uint64_t all) {
  return {all, all - all / 8, all / 2, all / 2};
}

}  // namespace

std::string_view name_of(Resource resource) {
  switch (resource) {
    case Resource::sessions:
      return "sessions";
    case Resource::descriptors:
      return "descriptors";
    case Resource::guards:
      return "guards";
    case Resource::mappings:
      return "mappings";
    case Resource::heap_bytes:
      return "heap_bytes";
    case Resource::pinned_bytes:
      return "pinned_bytes";
  }
  return "";
}

BoundsTable bounds_within(uint64_t memory_bytes, uint64_t mappings) {
  BoundsTable table;
  const auto set = [&](Resource resource, const Bounds& bounds) {
    table[static_cast<size_t>(resource)] = bounds;
  };
  set(Resource::sessions, shared_out(limits::kSessionsMax));
  // The other half is the node's own: databases, disks, mounts, and the administration.
  set(Resource::descriptors, shared_out(open_files_of_process() / 2));
  set(Resource::guards, shared_out(limits::kGuardsMax));
  const uint64_t own_mappings = std::min(limits::kOwnMappings, mappings / 2);
  set(Resource::mappings, shared_out(mappings - own_mappings));
  const uint64_t heap = std::max(memory_bytes / 8, limits::kClientHeapBytesMin);
  set(Resource::heap_bytes, shared_out(std::min(heap, memory_bytes / 4)));
  set(Resource::pinned_bytes, shared_out(memory_bytes / 2));
  for (const Bounds& bounds : table) {
    ASSERT(bounds.session <= bounds.user && bounds.user <= bounds.users &&
           bounds.users <= bounds.all);
  }
  return table;
}

BoundsTable bounds_of_process() {
  return bounds_within(memory_of_process().amount, mappings_of_process().amount);
}

Account::~Account() {
  const std::lock_guard lock(accounts_->mutex_);
  for (size_t i = 0; i < kResourceCount; ++i) accounts_->give_back(uid_, i, held_[i]);
}

Status Account::charge(Resource resource, uint64_t amount) {
  const size_t i = static_cast<size_t>(resource);
  const std::lock_guard lock(accounts_->mutex_);
  if (!accounts_->may_take(*this, i, amount)) {
    accounts_->counters_[i].refused.add();
    return Code::busy;
  }
  ASSERT(accounts_->all_[i] + amount <= accounts_->bounds_[i].all);
  accounts_->users_[uid_][i] += amount;
  accounts_->all_[i] += amount;
  accounts_->counters_[i].held.set(accounts_->all_[i]);
  held_[i] += amount;
  return Code::ok;
}

void Account::release(Resource resource, uint64_t amount) {
  const size_t i = static_cast<size_t>(resource);
  const std::lock_guard lock(accounts_->mutex_);
  ASSERT(held_[i] >= amount);
  held_[i] -= amount;
  accounts_->give_back(uid_, i, amount);
}

uint64_t Account::held(Resource resource) const {
  const std::lock_guard lock(accounts_->mutex_);
  return held_[static_cast<size_t>(resource)];
}

Accounts::Counters::Counters(std::string_view name)
    : held(fmt::format("agent.held.{}", name)), refused(fmt::format("agent.refused.{}", name)) {}

Accounts::Accounts(const BoundsTable& bounds, uint32_t own_uid)
    : bounds_(bounds), own_uid_(own_uid) {
  for (size_t i = 0; i < kResourceCount; ++i) {
    counters_.emplace_back(name_of(static_cast<Resource>(i)));
  }
}

bool Accounts::may_take(const Account& account, size_t resource, uint64_t amount) const {
  const Bounds& bounds = bounds_[resource];
  const bool takes_all = has_no_share(account.uid_);
  const auto fits = [&](uint64_t held, uint64_t share) {
    const uint64_t most = takes_all ? bounds.all : share;
    return held <= most && amount <= most - held;
  };
  const auto user = users_.find(account.uid_);
  const uint64_t of_user = user == users_.end() ? 0 : user->second[resource];
  return fits(account.held_[resource], bounds.session) && fits(of_user, bounds.user) &&
         fits(all_[resource], bounds.users);
}

// Users that hold nothing are forgotten: there may be many of them over the years.
void Accounts::give_back(uint32_t uid, size_t resource, uint64_t amount) {
  const auto user = users_.find(uid);
  if (user == users_.end()) {
    ASSERT(amount == 0);
    return;
  }
  ASSERT(user->second[resource] >= amount && all_[resource] >= amount);
  user->second[resource] -= amount;
  all_[resource] -= amount;
  counters_[resource].held.set(all_[resource]);
  const auto is_nothing = [](uint64_t held) { return held == 0; };
  if (std::all_of(user->second.begin(), user->second.end(), is_nothing)) users_.erase(user);
}

std::vector<UserStatus> Accounts::status() const {
  const std::lock_guard lock(mutex_);
  std::vector<UserStatus> out;
  for (const auto& [uid, held] : users_) {
    UserStatus user{uid, {}};
    for (size_t i = 0; i < kResourceCount; ++i) {
      const uint64_t most = has_no_share(uid) ? bounds_[i].all : bounds_[i].user;
      user.shares.push_back({name_of(static_cast<Resource>(i)), held[i], most});
    }
    out.push_back(std::move(user));
  }
  return out;
}

std::vector<ResourceStatus> Accounts::resources() const {
  const std::lock_guard lock(mutex_);
  std::vector<ResourceStatus> out;
  for (size_t i = 0; i < kResourceCount; ++i) {
    out.push_back({name_of(static_cast<Resource>(i)), all_[i], bounds_[i].all, bounds_[i].users,
                   bounds_[i].user, counters_[i].refused.value()});
  }
  return out;
}

Result<Charge> Charge::take(std::shared_ptr<Account> account, Resource resource, uint64_t amount) {
  ASSERT(account != nullptr && static_cast<size_t>(resource) < kResourceCount);
  TRY(account->charge(resource, amount));
  Charge charge;
  charge.account_ = std::move(account);
  charge.resource_ = resource;
  charge.amount_ = amount;
  return charge;
}

}  // namespace penstock::resources
