// How a target ends that cannot commit any more: with what is committed.
#include "core.h"

namespace penstock::store {

// From now on no update goes on. What is being committed may still succeed; once that is known,
// the rest is forgotten.
void Committer::begin_failure(Group& group, Status status) {
  report_failure(status, group.stage == Group::Stage::synced ? "a sync" : "a commit");
  group.stage = Group::Stage::failed;
}

void Committer::report_failure(Status status, const char* what) {
  if (!core_.failed.ok()) return;
  core_.failed = status;
  if (status.code() == Code::closed) return;
  log::error(
      "store: {}: {} failed: {}; the target takes no updates any more and goes back to what was "
      "committed (find the cause, then restart)",
      core_.config.directory, what, status.name());
}

void Committer::fail(Status status) {
  if (!core_.failed.ok()) return;
  report_failure(status, "reading the block maps of an update that is committed");
  if (committing_ == 0) finish_failure();
}

void Committer::finish_failure() {
  core_.loop.cancel(timer_);
  core_.maps.start_over();
  queue_.push_back(gathering_);
  for (Group* group : queue_) {
    abandon(*group, core_.failed);
    // Its syncs end in their own time; on_synced() does the rest.
    group->abandoned = group->syncs > 0;
    if (!group->abandoned) recycle(*group);
  }
  queue_.clear();
  submitted_ = syncing_ = 0;
  gathering_ = idle_group();
  ASSERT(gathering_ != nullptr);
  gathering_->stage = Group::Stage::gathering;
  while (Request* request = room_waiters_.pop_front()) core_.resume_later(*request);
  core_.write_log.resume();
  core_.updater.space_changed();
  core_.check_closed();
}

void Committer::abandon(Group& group, Status status) {
  for (CachedMap* map : group.maps) {
    ASSERT(map->pending > 0 && !map->committing);
    if (map->logged) core_.lost.insert(map->key);
    --map->pending;
    map->gathered = false;
    core_.maps.forget(*map);
  }
  group.maps.clear();
  group.freed.clear();
  complete_all(group.waiters, status);
  end_doomed(group);
}

}  // namespace penstock::store
