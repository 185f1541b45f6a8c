#include "notifier.h"

namespace penstock::client {

void Notifier::remove(Observer& observer) {
  const uint32_t bit = core_.observers.remove(observer);
  if (bit != 0) core_.table.unwatch_all(bit);
}

void Notifier::watch(InodeId inode, Observer& observer) {
  const uint32_t bit = core_.observers.bit_of(observer);
  if (bit != 0) core_.table.watch(inode, bit);
}

void Notifier::unwatch(InodeId inode, Observer& observer) {
  const uint32_t bit = core_.observers.bit_of(observer);
  if (bit != 0) core_.table.unwatch(inode, bit);
}

void Notifier::changed(InodeId inode, uint64_t offset, uint64_t length, Observer* self) {
  const uint32_t watchers = core_.table.watchers(inode);
  if (!core_.observers.concerns(watchers, self)) return;
  const Status told = core_.targets.wait([&](engine::Loop& loop, engine::Op& done) {
    core_.observers.data_changed(watchers, self, inode, offset, length,
                                 [&loop, &done] { loop.complete_remote(done, Code::ok); });
  });
  static_cast<void>(told);  // It carries no news: the change has happened.
}

void Notifier::recalled(InodeId inode) {
  const uint32_t watchers = core_.table.watchers(inode);
  if (!core_.observers.concerns(watchers, nullptr)) return;
  const Status told = core_.targets.wait([&](engine::Loop& loop, engine::Op& done) {
    core_.observers.inode_recalled(watchers, inode,
                                   [&loop, &done] { loop.complete_remote(done, Code::ok); });
  });
  static_cast<void>(told);  // It carries no news.
}

void Notifier::mention(InodeId inode, uint32_t watchers, uint64_t offset, uint64_t length) {
  if (!core_.observers.concerns(watchers, nullptr)) return;
  core_.observers.data_changed(watchers, nullptr, inode, offset, length, [] {});
}

void Notifier::entry_changed(InodeId parent, std::string_view name, Observer* self) {
  const uint32_t watchers = core_.table.watchers(parent);
  if (watchers != 0) core_.observers.entry_changed(watchers, self, parent, name);
}

void Notifier::entries_recalled(InodeId parent, const holds::KeptEntries::Given& given) {
  const uint32_t watchers = core_.table.watchers(parent);
  if (watchers == 0) return;
  for (const std::string& name : given.names) {
    core_.observers.entry_recalled(watchers, parent, name, given.until);
  }
}

void Notifier::count_change(InodeId id) {
  if (const std::shared_ptr<Inode> inode = core_.table.peek(id)) {
    inode->changes.fetch_add(1, std::memory_order_seq_cst);
    const bool never = inode->no_access_times.load(std::memory_order_relaxed);
    inode->access_due.store(!never, std::memory_order_relaxed);
  }
}

void Notifier::count_written(Inode& inode) {
  inode.modified.store(core_.now(), std::memory_order_relaxed);
  count_change(inode.id);
}

}  // namespace penstock::client
