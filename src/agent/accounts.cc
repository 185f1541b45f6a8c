#include "accounts.h"

#include "limits.h"

#include <algorithm>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

namespace penstock::agent {
namespace {

uint64_t open_files_of_process() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return std::min<uint64_t>(limit.rlim_cur, limits::kDescriptorsMax);
}

uint64_t memory_of_process() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  uint64_t memory = pages > 0 ? static_cast<uint64_t>(pages) * 4096 : kGiB;
  // Absent, or "max", where nobody limits us.
  uint64_t bytes = 0;
  if (std::ifstream limit("/sys/fs/cgroup/memory.max"); limit >> bytes) {
    memory = std::min(memory, bytes);
  }
  return memory;
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
    case Resource::heap_bytes:
      return "heap_bytes";
    case Resource::pinned_bytes:
      return "pinned_bytes";
  }
  return "";
}

BoundsTable bounds_of_process() {
  BoundsTable table;
  const auto set = [&](Resource resource, const Bounds& bounds) {
    table[static_cast<size_t>(resource)] = bounds;
  };
  set(Resource::sessions, shared_out(limits::kSessionsMax));
  // The other half is the node's own: databases, disks, mounts, and the administration.
  set(Resource::descriptors, shared_out(open_files_of_process() / 2));
  set(Resource::guards, shared_out(limits::kGuardsMax));
  const uint64_t memory = memory_of_process();
  set(Resource::heap_bytes, shared_out(std::max(memory / 8, limits::kClientHeapBytesMin)));
  set(Resource::pinned_bytes, shared_out(memory / 2));
  return table;
}

Account::~Account() {
  const std::lock_guard lock(accounts_->mutex_);
  for (size_t i = 0; i < kResourceCount; ++i) accounts_->give_back(uid_, i, held_[i]);
}

Status Account::charge(Resource resource, uint64_t amount) {
  const size_t i = static_cast<size_t>(resource);
  const Bounds& bounds = accounts_->bounds_[i];
  const bool takes_all = accounts_->has_no_share(uid_);
  const auto fits = [amount](uint64_t held, uint64_t most) {
    return held <= most && amount <= most - held;
  };
  const std::lock_guard lock(accounts_->mutex_);
  if (!fits(held_[i], takes_all ? bounds.all : bounds.session)) return Code::busy;
  if (!fits(accounts_->all_[i], takes_all ? bounds.all : bounds.users)) return Code::busy;
  uint64_t& of_user = accounts_->users_[uid_][i];
  if (!fits(of_user, takes_all ? bounds.all : bounds.user)) return Code::busy;
  of_user += amount;
  accounts_->all_[i] += amount;
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

// Users that hold nothing are forgotten: there may be many of them over the years.
void Accounts::give_back(uint32_t uid, size_t resource, uint64_t amount) {
  const auto user = users_.find(uid);
  if (user == users_.end()) return;
  user->second[resource] -= amount;
  all_[resource] -= amount;
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

Result<Charge> Charge::take(std::shared_ptr<Account> account, Resource resource, uint64_t amount) {
  TRY(account->charge(resource, amount));
  Charge charge;
  charge.account_ = std::move(account);
  charge.resource_ = resource;
  charge.amount_ = amount;
  return charge;
}

}  // namespace penstock::agent
