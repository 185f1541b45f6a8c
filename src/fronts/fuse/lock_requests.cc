#include "lock_requests.h"

#include "call.h"
#include "operations.h"
#include "session.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>

namespace penstock::fuse {
namespace {

int errno_of(locks::Answer answer) {
  switch (answer) {
    case locks::Answer::done:
      return 0;
    case locks::Answer::held:
      return EAGAIN;
    case locks::Answer::deadlock:
      return EDEADLK;
    case locks::Answer::full:
      return ENOLCK;
    case locks::Answer::ended:
      return EINTR;
    case locks::Answer::refused:
      return ESTALE;
    case locks::Answer::waits:
    case locks::Answer::lost:
      break;
  }
  return EIO;
}

void reply_error(fuse_req_t request, int error) {
  count_error(error);
  (void)fuse_reply_err(request, error);
}

locks::Type type_of(int type) {
  return type == F_WRLCK   ? locks::Type::write
         : type == F_RDLCK ? locks::Type::read
                           : locks::Type::none;
}

// The kernel has made it a range from the beginning of the file.
std::optional<locks::Range> range_of(const struct flock& lock) {
  if (lock.l_start < 0 || lock.l_len < 0) return std::nullopt;
  const auto begin = static_cast<uint64_t>(lock.l_start);
  const auto length = static_cast<uint64_t>(lock.l_len);
  if (length == 0) return locks::Range{begin, locks::kEnd};
  if (length > locks::kEnd - begin) return std::nullopt;
  return locks::Range{begin, begin + length};
}

struct flock flock_of(const locks::Held& held, bool is_ours) {
  struct flock lock {};
  lock.l_type = held.type == locks::Type::write ? F_WRLCK : F_RDLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(held.range.begin);
  const uint64_t length = held.range.end - held.range.begin;
  lock.l_len = held.range.end == locks::kEnd ? 0 : static_cast<off_t>(length);
  // Of another node it would be somebody else's here.
  lock.l_pid = is_ours ? static_cast<pid_t>(held.pid) : 0;
  return lock;
}

std::optional<locks::Wanted> wanted_of(fuse_ino_t inode, const fuse_file_info& info,
                                       const struct flock& lock) {
  const std::optional<locks::Range> range = range_of(lock);
  if (!range) return std::nullopt;
  locks::Wanted wanted;
  wanted.inode = InodeId{inode};
  wanted.owner = {{}, locks::Kind::range, info.lock_owner};
  wanted.range = *range;
  wanted.type = type_of(lock.l_type);
  wanted.pid = static_cast<uint32_t>(lock.l_pid);
  return wanted;
}

}  // namespace

LockRequests::LockRequests(locks::Locking& locking) : locking_(locking) {}

uint64_t LockRequests::Waiting::add(fuse_req_t request, locks::RequestId waits) {
  const std::lock_guard lock(mutex);
  all.emplace(++numbers, Later{request, Session::device_of_worker(), waits});
  return numbers;
}

// With the lock, so that end() knows what was answered: a reply never waits for anything.
template <class Reply>
void LockRequests::Waiting::answer(uint64_t number, Reply reply) {
  const std::lock_guard lock(mutex);
  const auto found = all.find(number);
  if (found == all.end()) return;
  const Session::ReplyOn device(found->second.device);
  reply(found->second.request);
  all.erase(found);
}

void LockRequests::set(fuse_req_t request, const client::FileRef& file, const locks::Wanted& wanted,
                       bool waits) {
  const locks::RequestId number = waits ? locking_.next_request() : locks::RequestId();
  const uint64_t later = waiting_->add(request, number);
  // Before anybody may answer it.
  if (waits) fuse_req_interrupt_func(request, interrupted, reinterpret_cast<void*>(later));
  locking_.set(
      client::locks_of(*file), wanted, number, [waiting = waiting_, later](locks::Answer answer) {
        waiting->answer(later, [&](fuse_req_t its) { reply_error(its, errno_of(answer)); });
      });
  if (!waits) return;
  bool is_interrupted = false;
  {
    const std::lock_guard lock(waiting_->mutex);
    const auto found = waiting_->all.find(later);
    is_interrupted = found != waiting_->all.end() && found->second.is_interrupted;
  }
  // When it came, nothing was asked yet, perhaps.
  if (is_interrupted) locking_.cancel(number);
}

void LockRequests::get(fuse_req_t request, const client::FileRef& file,
                       const locks::Wanted& wanted) {
  const uint64_t later = waiting_->add(request, {});
  const auto told = [waiting = waiting_, later, locking = &locking_](
                        locks::Answer answer, const std::optional<locks::Held>& held) {
    waiting->answer(later, [&](fuse_req_t its) {
      if (answer != locks::Answer::done && !held) return reply_error(its, errno_of(answer));
      struct flock lock {};
      lock.l_type = F_UNLCK;
      if (held) lock = flock_of(*held, locking->is_ours(held->owner));
      (void)fuse_reply_lock(its, &lock);
    });
  };
  locking_.get(client::locks_of(*file), wanted, told);
}

void LockRequests::release(fuse_req_t request, InodeId inode, uint64_t owner, Status flushed) {
  const uint64_t later = waiting_->add(request, {});
  locking_.release({{}, locks::Kind::range, owner}, inode,
                   [waiting = waiting_, later, flushed](locks::Answer) {
                     waiting->answer(later, [&](fuse_req_t its) {
                       reply_error(its, flushed.ok() ? 0 : flushed.to_errno());
                     });
                   });
}

void LockRequests::closed(const client::FileRef& file) {
  locking_.closed(client::locks_of(*file), [](locks::Answer) {});
}

void LockRequests::interrupted(fuse_req_t request, void* number) {
  static_cast<Front*>(fuse_req_userdata(request))
      ->locks->interrupt(reinterpret_cast<uint64_t>(number));
}

void LockRequests::interrupt(uint64_t number) {
  locks::RequestId request;
  {
    const std::lock_guard lock(waiting_->mutex);
    const auto found = waiting_->all.find(number);
    if (found == waiting_->all.end()) return;
    found->second.is_interrupted = true;
    request = found->second.waits;
  }
  locking_.cancel(request);
}

void LockRequests::end() {
  std::map<uint64_t, Later> all;
  {
    const std::lock_guard lock(waiting_->mutex);
    all.swap(waiting_->all);
    for (const auto& [number, later] : all) {
      const Session::ReplyOn device(later.device);
      reply_error(later.request, ENODEV);
    }
  }
  for (const auto& [number, later] : all) {
    if (later.waits != locks::RequestId()) locking_.cancel(later.waits);
  }
}

// ---- operations ----

void get_lock(Call& call, fuse_ino_t inode, fuse_file_info* info, struct flock* lock) {
  const auto wanted = wanted_of(inode, *info, *lock);
  if (!wanted) return call.error(EINVAL);
  LockRequests& locks = *call.front().locks;
  locks.get(call.answered_later(), HandleTable::get(info->fh).file, *wanted);
}

void set_lock(Call& call, fuse_ino_t inode, fuse_file_info* info, struct flock* lock, int waits) {
  const auto wanted = wanted_of(inode, *info, *lock);
  if (!wanted) return call.error(EINVAL);
  LockRequests& locks = *call.front().locks;
  locks.set(call.answered_later(), HandleTable::get(info->fh).file, *wanted,
            waits != 0 && wanted->type != locks::Type::none);
}

void lock_whole(Call& call, fuse_ino_t inode, fuse_file_info* info, int operation) {
  const int what = operation & ~LOCK_NB;
  if (what != LOCK_SH && what != LOCK_EX && what != LOCK_UN) return call.error(EINVAL);
  locks::Wanted wanted;
  wanted.inode = InodeId{inode};
  wanted.owner = {{}, locks::Kind::whole, info->lock_owner};
  wanted.type = what == LOCK_EX   ? locks::Type::write
                : what == LOCK_SH ? locks::Type::read
                                  : locks::Type::none;
  LockRequests& locks = *call.front().locks;
  locks.set(call.answered_later(), HandleTable::get(info->fh).file, wanted,
            (operation & LOCK_NB) == 0 && what != LOCK_UN);
}

}  // namespace penstock::fuse
