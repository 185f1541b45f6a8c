#include "penstock/serving/ring_server.h"

#include <algorithm>
#include <utility>

namespace penstock::serving {

void RingServer::add(ShardShare& share) {
  User& user = users_[share.uid()];
  if (user.shares++ == 0) user.flow.join(nullptr, share.terms().user);
  share.join(user.flow);
  ASSERT(std::find(shares_.begin(), shares_.end(), &share) == shares_.end());
  shares_.push_back(&share);
}

void RingServer::remove(ShardShare& share) {
  std::erase(shares_, &share);
  const auto user = users_.find(share.uid());
  ASSERT(user != users_.end() && user->second.shares > 0);
  if (--user->second.shares == 0) users_.erase(user);
}

// Since the last look: for which ring is not known, so all that doze are looked at.
bool RingServer::was_called() {
  const uint64_t calls = parker_ != nullptr ? parker_->writes_seen() : 0;
  if (std::exchange(calls_seen_, calls) == calls) return false;
  for (ShardShare* share : shares_) share->called();
  return true;
}

bool RingServer::poll() {
  bool worked = was_called();
  for (ShardShare* share : shares_) worked |= share->poll();
  return worked;
}

bool RingServer::prepare_sleep() {
  if (was_called()) return false;
  for (ShardShare* share : shares_) {
    if (!share->prepare_sleep()) return false;
  }
  return true;
}

void RingServer::woke() {
  for (ShardShare* share : shares_) share->woke();
}

}  // namespace penstock::serving
