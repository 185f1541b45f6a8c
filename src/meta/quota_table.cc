#include "quota_table.h"

#include "view.h"

#include <algorithm>

#include "penstock/meta/records/limits.h"

namespace penstock::meta {
namespace {

void add_to(UsageRecord& sum, const UsageRecord& more) {
  sum.bytes += more.bytes;
  sum.inodes += more.inodes;
}
void take_from(UsageRecord& sum, const UsageRecord& less) {
  sum.bytes -= less.bytes;
  sum.inodes -= less.inodes;
}
// Only what gets more waits for its commit: what gets less may not be used before it happened.
UsageRecord growth(const UsageRecord& by) {
  return {std::max<int64_t>(by.bytes, 0), std::max<int64_t>(by.inodes, 0)};
}
bool is_within(uint64_t limit, int64_t used, int64_t more) {
  return limit == 0 || more <= 0 ||
         (used <= static_cast<int64_t>(std::min<uint64_t>(limit, INT64_MAX)) - more);
}

}  // namespace

bool QuotaEntry::has_room_for(const UsageRecord& more, uint64_t covered) const {
  if (!record.counted) return true;
  ASSERT(covered <= promised);
  const int64_t bytes = used.bytes + pending.bytes + static_cast<int64_t>(promised - covered);
  return is_within(record.limits.bytes, bytes, more.bytes) &&
         is_within(record.limits.inodes, used.inodes + pending.inodes, more.inodes);
}

Quota QuotaEntry::told() const {
  const auto shown = [](int64_t value) {
    return static_cast<uint64_t>(std::max<int64_t>(value, 0));
  };
  return {subject,  record.limits,  {shown(used.bytes), shown(used.inodes)},
          promised, record.counted, record.path};
}

void QuotaTable::put(QuotaSubject subject, const QuotaRecord& record) {
  const std::lock_guard lock(mutex_);
  auto& entry = entries_[subject];
  if (entry == nullptr) {
    entry = std::make_shared<QuotaEntry>();
    entry->subject = subject;
    if (subject.kind == QuotaSubject::Kind::directory) directories_.fetch_add(1);
  }
  entry->record = record;
  ways_.clear();
  any_.store(true, std::memory_order_release);
}

void QuotaTable::erase(QuotaSubject subject) {
  const std::lock_guard lock(mutex_);
  if (entries_.erase(subject) == 0) return;
  if (subject.kind == QuotaSubject::Kind::directory) directories_.fetch_sub(1);
  ways_.clear();
  any_.store(!entries_.empty(), std::memory_order_release);
}

void QuotaTable::forget_ways() {
  const std::lock_guard lock(mutex_);
  ways_.clear();
}

void QuotaTable::set_used(QuotaSubject subject, const UsageRecord& used) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(subject);
  if (found == entries_.end()) return;
  // Nobody counts at the moment.
  ASSERT(found->second->pending.bytes == 0 && found->second->pending.inodes == 0);
  found->second->used = used;
}

size_t QuotaTable::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

// What is remembered stays right whether or not this transaction commits: the gate is held, so no
// directory has got another parent since its records were written.
Result<QuotaEntries> QuotaTable::above(View& view, InodeId directory) {
  QuotaEntries found;
  if (directory == InodeId() || !any_of_directories()) return found;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = ways_.find(directory); known != ways_.end()) return known->second;
  }
  InodeId here = directory;
  for (int depth = 0;; ++depth) {
    if (auto entry = find(QuotaSubject::of_directory(here))) found.push_back(std::move(entry));
    if (here == kRootInode) break;
    if (depth == kDepthMax) {
      log::error("metadata corrupt: directory {} is not below the root", directory.value);
      return Code::corrupt;
    }
    const Result<Inode> inode = view.inode(here);
    if (!inode && inode.error().code() == Code::not_found) return QuotaEntries();
    if (!inode) return inode.error();
    // What is removed counts for its owner alone.
    if (inode->trash != TrashPart::none) return QuotaEntries();
    here = inode->parent;
    if (here == InodeId()) return Code::corrupt;
  }
  const std::lock_guard lock(mutex_);
  if (ways_.size() >= kQuotaWaysMax) ways_.clear();
  ways_[directory] = found;
  return found;
}

std::shared_ptr<QuotaEntry> QuotaTable::find(QuotaSubject subject) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(subject);
  return found == entries_.end() ? nullptr : found->second;
}

std::shared_ptr<QuotaEntry> QuotaTable::of_user(uint32_t uid) const {
  return find(QuotaSubject::of_user(uid));
}

std::vector<Quota> QuotaTable::all(std::optional<QuotaSubject> after, size_t limit) const {
  const std::lock_guard lock(mutex_);
  std::vector<Quota> told;
  auto at = after ? entries_.upper_bound(*after) : entries_.begin();
  for (; at != entries_.end() && told.size() < limit; ++at) told.push_back(at->second->told());
  return told;
}

Quota QuotaTable::told(const QuotaEntry& entry) const {
  const std::lock_guard lock(mutex_);
  return entry.told();
}

bool QuotaTable::fits(const std::vector<Change>& changes) {
  const std::lock_guard lock(mutex_);
  const bool fits = std::all_of(changes.begin(), changes.end(),
                                [](const Change& one) { return one.entry->has_room_for(one.by); });
  if (!fits) refused_.add();
  return fits;
}

Status QuotaTable::admit(const std::vector<Change>& changes, bool always, InodeId covered) {
  const std::lock_guard lock(mutex_);
  const auto known = promises_.find(covered);
  const auto credit = [&](const std::shared_ptr<QuotaEntry>& entry) {
    if (known == promises_.end()) return uint64_t{0};
    const QuotaEntries& paid = known->second.entries;
    const bool is_among = std::find(paid.begin(), paid.end(), entry) != paid.end();
    return is_among ? known->second.bytes : 0;
  };
  if (!always) {
    for (const Change& one : changes) {
      if (one.entry->has_room_for(one.by, credit(one.entry))) continue;
      refused_.add();
      return Code::over_quota;
    }
  }
  for (const Change& one : changes) add_to(one.entry->pending, growth(one.by));
  return {};
}

void QuotaTable::undo(const std::vector<Change>& changes) {
  const std::lock_guard lock(mutex_);
  for (const Change& one : changes) take_from(one.entry->pending, growth(one.by));
}

void QuotaTable::apply(const std::vector<Change>& changes) {
  const std::lock_guard lock(mutex_);
  for (const Change& one : changes) {
    take_from(one.entry->pending, growth(one.by));
    add_to(one.entry->used, one.by);
    ASSERT(one.entry->pending.bytes >= 0 && one.entry->pending.inodes >= 0);
  }
}

void QuotaTable::correct(QuotaSubject subject, const UsageRecord& by) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(subject);
  if (found == entries_.end()) return;
  add_to(found->second->used, by);
  found->second->record.counted = true;
}

uint64_t QuotaTable::take_lane() {
  const std::lock_guard lock(mutex_);
  if (free_lanes_.empty()) return lanes_++;
  std::pop_heap(free_lanes_.begin(), free_lanes_.end(), std::greater<>());
  const uint64_t lane = free_lanes_.back();
  free_lanes_.pop_back();
  return lane;
}

void QuotaTable::give_lane(uint64_t lane) {
  const std::lock_guard lock(mutex_);
  ASSERT(lane > 0 && lane < lanes_);
  free_lanes_.push_back(lane);
  std::push_heap(free_lanes_.begin(), free_lanes_.end(), std::greater<>());
}

void QuotaTable::change_promise(Promise& promise, uint64_t bytes) {
  for (const auto& entry : promise.entries) {
    ASSERT(entry->promised >= promise.bytes);
    entry->promised = entry->promised - promise.bytes + bytes;
  }
  promise.bytes = bytes;
}

Result<uint64_t> QuotaTable::reserve(InodeId inode, const QuotaEntries& entries, uint64_t length,
                                     uint64_t wanted, bool counts) {
  const std::lock_guard lock(mutex_);
  const uint64_t counted = counts ? quota_bytes(length) : 0;
  const uint64_t space = std::max(quota_bytes(wanted), counted);
  const uint64_t needed = space - counted;
  const auto known = promises_.find(inode);
  const uint64_t before = known == promises_.end() ? 0 : known->second.bytes;
  if (known != promises_.end()) change_promise(known->second, 0);
  uint64_t ahead = kQuotaAheadBytes;
  for (const auto& entry : entries) {
    const uint64_t limit = entry->record.limits.bytes;
    if (limit == 0 || !entry->record.counted) continue;
    const int64_t used = entry->used.bytes + entry->pending.bytes;
    const uint64_t taken = static_cast<uint64_t>(std::max<int64_t>(used, 0)) + entry->promised;
    const uint64_t left = limit > taken ? limit - taken : 0;
    if (needed > left) {
      if (known != promises_.end()) change_promise(known->second, before);
      refused_.add();
      return Code::over_quota;
    }
    ahead = std::min(ahead, align_down((left - needed) / kQuotaShare, kQuotaBlockBytes));
  }
  Promise& promise = promises_[inode];
  ASSERT(promise.bytes == 0);
  promise.entries = entries;
  promise.length = space + ahead;
  change_promise(promise, needed + ahead);
  return promise.length;
}

void QuotaTable::settled(InodeId inode, uint64_t length, bool ended) {
  const std::lock_guard lock(mutex_);
  const auto known = promises_.find(inode);
  if (known == promises_.end()) return;
  Promise& promise = known->second;
  const uint64_t counted = quota_bytes(length);
  // What was not counted before, as it had no name, is not now.
  const uint64_t left = promise.length > counted ? promise.length - counted : 0;
  change_promise(promise, ended ? 0 : std::min(promise.bytes, left));
  if (ended) promises_.erase(known);
}

Charges::Charges(QuotaTable& table, Gate gate) : table_(table), gate_(gate) {
  if (gate_ == Gate::alone) {
    table_.gate.lock();
  } else {
    table_.gate.lock_shared();
  }
}

Charges::~Charges() {
  withdraw();
  if (lane_ != 0) table_.give_lane(lane_);
  if (gate_ == Gate::alone) {
    table_.gate.unlock();
  } else {
    table_.gate.unlock_shared();
  }
}

void Charges::withdraw() {
  if (std::exchange(admitted_, false)) table_.undo(changes_);
  changes_.clear();
}

void Charges::begin() {
  withdraw();
}

void Charges::add(const std::shared_ptr<QuotaEntry>& entry, const UsageRecord& by) {
  for (QuotaTable::Change& change : changes_) {
    if (change.entry == entry) return add_to(change.by, by);
  }
  changes_.push_back({entry, by});
}

Status Charges::moved(View& view, InodeId directory, const UsageRecord& what, int sign) {
  ASSERT(!admitted_ && (sign == 1 || sign == -1));
  if (!table_.any_of_directories()) return {};
  TRY_ASSIGN(const QuotaEntries entries, table_.above(view, directory));
  for (const auto& entry : entries) add(entry, {sign * what.bytes, sign * what.inodes});
  return {};
}

Status Charges::count(View& view, const Inode& inode, int sign) {
  ASSERT(!admitted_);
  if (!table_.any() || inode.attributes.links == 0) return {};
  const UsageRecord what = usage_of(inode.attributes);
  // The root is in nothing.
  if (inode.id() != kRootInode) TRY(moved(view, inode.parent, what, sign));
  if (const auto user = table_.of_user(inode.attributes.uid)) {
    add(user, {sign * what.bytes, sign * what.inodes});
  }
  return {};
}

bool Charges::fits() {
  return changes_.empty() || table_.fits(changes_);
}

Status Charges::finish(View& view, bool always) {
  ASSERT(!admitted_);
  std::erase_if(changes_, [](const QuotaTable::Change& change) {
    return change.by.bytes == 0 && change.by.inodes == 0;
  });
  if (changes_.empty()) return {};
  TRY(table_.admit(changes_, always, covered_));
  admitted_ = true;
  if (lane_ == 0) lane_ = table_.take_lane();
  for (const QuotaTable::Change& change : changes_) {
    TRY_ASSIGN(UsageRecord usage, view.usage(change.entry->subject, lane_));
    add_to(usage, change.by);
    view.put(change.entry->subject, lane_, usage);
  }
  return {};
}

void Charges::end(Status status) {
  // Where nobody knows, what was to be counted is: a check finds what was not.
  const bool counts = status.ok() || status.code() == Code::may_have_happened;
  if (!counts) return withdraw();
  if (std::exchange(admitted_, false)) table_.apply(changes_);
  changes_.clear();
}

}  // namespace penstock::meta
