#include "capabilities.h"

#include <utility>

namespace penstock::agent {

Capabilities::Capabilities(Fetch fetch) : fetch_(std::move(fetch)) {
  ASSERT(fetch_ != nullptr);
  thread_ = engine::Thread("penstock-rights", [this] { run(); });
}

void Capabilities::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// With the lock.
void Capabilities::want(InodeId inode) {
  if (wanted_.size() >= limits::kCapabilitiesWanted || !is_wanted_.insert(inode).second) return;
  wanted_.push_back(inode);
  ASSERT(wanted_.size() <= limits::kCapabilitiesWanted);
  wake_.notify_one();
}

Result<std::optional<wire::Capability>> Capabilities::find(InodeId inode, uint64_t session,
                                                           uint8_t rights) {
  const std::lock_guard lock(mutex_);
  const auto allows = [&](const wire::Capability& one) {
    const uint8_t has = (one.rights & wire::kMayWrite) != 0 ? wire::kCapabilityRights : one.rights;
    return one.session == session && (has & rights) == rights;
  };
  if (whole_ && allows(*whole_)) return whole_;
  if (const auto found = files_.find(inode); found != files_.end() && allows(found->second)) {
    return std::optional(found->second);
  }
  if (const auto refused = refused_.find(inode); refused != refused_.end()) {
    const Status why = refused->second;
    refused_.erase(refused);
    return why;
  }
  if (session != 0) want(inode);
  return std::optional<wire::Capability>();
}

void Capabilities::drop(const wire::Capability& capability) {
  const std::lock_guard lock(mutex_);
  const auto is_that = [&](const wire::Capability& one) {
    return one.signature == capability.signature;
  };
  if (whole_ && is_that(*whole_)) whole_.reset();
  const auto found = files_.find(InodeId(capability.inode_first));
  if (found != files_.end() && is_that(found->second)) files_.erase(found);
}

void Capabilities::take(InodeId inode, const Result<wire::Capability>& fetched) {
  const std::lock_guard lock(mutex_);
  is_wanted_.erase(inode);
  if (!fetched) {
    // Anything else may pass: whoever waits asks again.
    if (fetched.error() != Code::access_denied) return;
    if (refused_.size() >= limits::kCapabilitiesKept) refused_.clear();
    refused_[inode] = fetched.error();
    return;
  }
  refused_.erase(inode);
  if (fetched->is_of_all()) {
    whole_ = *fetched;
    files_.clear();
    return;
  }
  whole_.reset();
  if (files_.size() >= limits::kCapabilitiesKept) files_.clear();
  files_[inode] = *fetched;
  ASSERT(files_.size() <= limits::kCapabilitiesKept && !whole_);
}

void Capabilities::keep(const wire::Capability& capability) {
  take(InodeId(capability.inode_first), capability);
}

std::optional<wire::Capability> Capabilities::kept(InodeId inode) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(inode);
  return found == files_.end() ? std::nullopt : std::optional(found->second);
}

void Capabilities::run() {
  while (true) {
    InodeId inode;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return is_stopping_ || !wanted_.empty(); });
      if (is_stopping_) return;
      inode = wanted_.front();
      wanted_.pop_front();
    }
    take(inode, fetch_(inode));
  }
}

}  // namespace penstock::agent
