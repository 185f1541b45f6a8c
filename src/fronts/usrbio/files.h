// Registered descriptors: descriptor number -> open file of a session, found without a lock.
//
// Thread safe. The caller must not use a number while another thread deregisters it.
#pragma once

#include "limits.h"
#include "penstock.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <sys/types.h>

#include "penstock/front.h"

namespace penstock::usrbio {

// What a descriptor number stands for, in one word so that it changes in one step.
class FileWord {
 public:
  FileWord() = default;
  explicit FileWord(uint64_t bits) : bits_(bits) {}
  FileWord(uint16_t session, penstock_file file, bool readable, bool writable)
      : bits_(kRegistered | (readable ? kReadable : 0) | (writable ? kWritable : 0) |
              uint64_t{session} << 32 | static_cast<uint32_t>(file)) {}

  uint64_t bits() const { return bits_; }
  bool free() const { return bits_ == 0; }
  // False while it is being registered, too.
  bool registered() const { return (bits_ & kRegistered) != 0; }
  bool inherited() const { return (bits_ & kInherited) != 0; }
  bool allows(bool read) const { return (bits_ & (read ? kReadable : kWritable)) != 0; }
  uint16_t session() const { return static_cast<uint16_t>(bits_ >> 32); }
  penstock_file file() const { return static_cast<penstock_file>(static_cast<uint32_t>(bits_)); }

  static FileWord reserved() { return FileWord(kReserved); }
  // Registered by the parent process: the access mode is known, the handle is not ours.
  FileWord as_inherited() const {
    return FileWord(kInherited | (bits_ & (kRegistered | kReadable | kWritable)));
  }

 private:
  static constexpr uint64_t kRegistered = uint64_t{1} << 63;
  static constexpr uint64_t kReadable = uint64_t{1} << 62;
  static constexpr uint64_t kWritable = uint64_t{1} << 61;
  static constexpr uint64_t kInherited = uint64_t{1} << 60;
  static constexpr uint64_t kReserved = uint64_t{1} << 59;
  uint64_t bits_ = 0;
};

class Files {
 public:
  explicit Files(front::Sessions& sessions) : sessions_(sessions) {}
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  ~Files();

  // 0 or a positive errno.
  int add(int fd);
  void remove(int fd);

  // Registers `fd` as this file, whatever it was before. For tests and add().
  void put(int fd, FileWord word);

  // The word of `fd`, which may also be what hf3fs_reg_fd() returned for it; a free word if there
  // is none.
  FileWord find(int fd) {
    std::atomic<uint64_t>* slot = slot_of(fd);
    if (slot == nullptr) return {};
    const FileWord word(slot->load(std::memory_order_acquire));
    if (!word.registered()) return {};
    return word.inherited() ? adopt(fd, *slot) : word;
  }

  // In the child of a fork(): registrations become inherited ones.
  void inherit();

 private:
  static constexpr uint32_t kPerChunk = 1024;
  // Release when a word is published (add) pairs with the acquire in find(): the session that the
  // word names must be seen whole.
  using Chunk = std::array<std::atomic<uint64_t>, kPerChunk>;

  std::atomic<uint64_t>* slot_of(int fd) const {
    if (fd < 0) fd = fd == INT32_MIN ? INT32_MAX : -fd;
    const uint32_t number = static_cast<uint32_t>(fd);
    if (number >= kDescriptors) return nullptr;
    Chunk* chunk = chunks_[number / kPerChunk].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : &(*chunk)[number % kPerChunk];
  }
  std::atomic<uint64_t>& make_slot(uint32_t number);
  std::optional<front::MountNumbers> mount_of(int fd);
  int open_in_session(int fd, uint64_t& bits);
  FileWord adopt(int fd, std::atomic<uint64_t>& slot);

  front::Sessions& sessions_;
  // Chunks are made once and stay. Release in make_slot() pairs with the acquire in slot_of().
  std::array<std::atomic<Chunk*>, kDescriptors / kPerChunk> chunks_{};
};

}  // namespace penstock::usrbio
