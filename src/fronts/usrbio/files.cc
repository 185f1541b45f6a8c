#include "files.h"

#include <cerrno>
#include <fcntl.h>
#include <memory>

#include "penstock/front.h"

namespace penstock::usrbio {

Files::~Files() {
  for (std::atomic<Chunk*>& pointer : chunks_) delete pointer.load(std::memory_order_relaxed);
}

std::atomic<uint64_t>& Files::make_slot(uint32_t number) {
  std::atomic<Chunk*>& pointer = chunks_[number / kPerChunk];
  Chunk* chunk = pointer.load(std::memory_order_acquire);
  if (chunk == nullptr) {
    auto fresh = std::make_unique<Chunk>();
    if (pointer.compare_exchange_strong(chunk, fresh.get(), std::memory_order_acq_rel)) {
      chunk = fresh.release();
    }
  }
  return (*chunk)[number % kPerChunk];
}

// The mount of ours that it is a file of. The table of all mounts is long, and read only for mounts
// that are new here.
std::optional<front::MountNumbers> Files::mount_of(int fd) {
  const auto numbers = front::mount_numbers(fd);
  if (numbers && sessions_.knows(*numbers)) return *numbers;
  return front::mount_of_descriptor(fd);
}

// Gives the file of `fd` a handle in the session of its mount. 0 or a positive errno.
int Files::open_in_session(int fd, uint64_t& bits) {
  const auto mount = mount_of(fd);
  if (!mount) return EBADF;
  const int mode = ::fcntl(fd, F_GETFL);
  if (mode < 0 || (mode & O_PATH) != 0) return EBADF;
  const int access = mode & O_ACCMODE;
  // The second try is for an agent that came back since this session was last used.
  for (int tries = 0; tries < 2; ++tries) {
    auto session = sessions_.of_mount(*mount);
    if (!session) return session.error();
    const penstock_file file = (*session)->seen(penstock_open_fd((*session)->handle, fd));
    if (file >= 0) {
      bits = FileWord((*session)->index, file, access != O_WRONLY, access != O_RDONLY).bits();
      return 0;
    }
    if (file != -ECONNRESET || tries == 1) {
      log::warning("usrbio: {}", penstock_last_error());
      return -file;
    }
  }
  return ECONNRESET;
}

int Files::add(int fd) {
  if (fd < 0 || static_cast<uint32_t>(fd) >= kDescriptors) return EBADF;
  if (!mount_of(fd)) return EBADF;
  std::atomic<uint64_t>& slot = make_slot(static_cast<uint32_t>(fd));
  uint64_t expected = 0;
  // The reservation keeps other threads from registering the same number meanwhile.
  if (!slot.compare_exchange_strong(expected, FileWord::reserved().bits(),
                                    std::memory_order_acq_rel)) {
    return EINVAL;
  }
  uint64_t bits = 0;
  const int error = open_in_session(fd, bits);
  put(fd, error == 0 ? FileWord(bits) : FileWord());
  return error;
}

void Files::put(int fd, FileWord word) {
  make_slot(static_cast<uint32_t>(fd)).store(word.bits(), std::memory_order_release);
}

void Files::remove(int fd) {
  std::atomic<uint64_t>* slot = slot_of(fd);
  if (slot == nullptr) return;
  uint64_t bits = slot->load(std::memory_order_acquire);
  const FileWord word(bits);
  if (!word.registered()) return;
  if (!slot->compare_exchange_strong(bits, 0, std::memory_order_acq_rel)) return;
  if (word.inherited()) return;
  front::Session& session = sessions_.at(word.session());
  // All of its operations have ended, so nothing remains to be told.
  const int result = session.seen(penstock_file_close_later(session.handle, word.file()));
  if (result < 0 && result != -ECONNRESET) {
    log::warning("usrbio: descriptor {}: {}", fd < 0 ? -fd : fd, penstock_last_error());
  }
}

FileWord Files::adopt(int fd, std::atomic<uint64_t>& slot) {
  uint64_t inherited = slot.load(std::memory_order_acquire);
  if (!FileWord(inherited).inherited()) return FileWord(inherited);
  uint64_t bits = 0;
  if (open_in_session(fd < 0 ? -fd : fd, bits) != 0) return {};
  if (slot.compare_exchange_strong(inherited, bits, std::memory_order_acq_rel)) {
    return FileWord(bits);
  }
  // Another thread was faster; its handle stands.
  const FileWord mine(bits);
  front::Session& session = sessions_.at(mine.session());
  session.seen(penstock_file_close_later(session.handle, mine.file()));
  return FileWord(inherited).registered() ? FileWord(inherited) : FileWord();
}

void Files::inherit() {
  for (std::atomic<Chunk*>& pointer : chunks_) {
    Chunk* chunk = pointer.load(std::memory_order_relaxed);
    if (chunk == nullptr) continue;
    for (std::atomic<uint64_t>& slot : *chunk) {
      const FileWord word(slot.load(std::memory_order_relaxed));
      if (word.free()) continue;
      slot.store(word.registered() ? word.as_inherited().bits() : 0, std::memory_order_relaxed);
    }
  }
}

}  // namespace penstock::usrbio
