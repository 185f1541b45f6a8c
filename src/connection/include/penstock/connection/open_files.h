// The files that a session has open, under numbers of its own choice.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "penstock/connection/connection.h"
#include "penstock/connection/zeroed_words.h"

namespace penstock::connection {

// Thread safe. Opened again at the agent's successor.
class OpenFiles final : public Follower {
 public:
  explicit OpenFiles(Connection& connection);

  // For checks without a lock: the access of an open file, 0 if it is none.
  uint8_t access_of(int32_t file) const {
    if (file < 0 || file >= static_cast<int32_t>(wire::kFilesMax)) return 0;
    return access_[static_cast<size_t>(file)].load(std::memory_order_relaxed);
  }
  // Of an open file.
  InodeId inode_of(uint32_t file) const {
    return InodeId(inodes_[file].load(std::memory_order_relaxed));
  }
  // Opens by a request whose `file` is filled in here.
  Outcome<int32_t> open(const std::function<wire::RequestBody(uint32_t id)>& request,
                        const std::vector<int>& descriptors);
  Outcome<void> close(int32_t file);
  // Does not wait for the agent; what it has to say against it is logged.
  Outcome<void> close_later(int32_t file);

  void connection_lost() override {}
  Status set_up_again(const Ask& ask) override;
  void connected_again(uint64_t) override {}
  void epoch_changed() override {}

 private:
  struct File {
    std::string token;  // by which a successor opens it
    bool ready = false;
  };

  Outcome<void> begin_close(int32_t file);
  void forget(uint32_t id);

  Connection& connection_;
  std::mutex mutex_;
  std::map<uint32_t, File> files_;
  uint32_t next_ = 0;
  // Relaxed: a file's entries are set before the application gets its number.
  const std::unique_ptr<std::array<std::atomic<uint8_t>, wire::kFilesMax>> access_table_;
  std::array<std::atomic<uint8_t>, wire::kFilesMax>& access_;
  const ZeroedWords inodes_;
};

}  // namespace penstock::connection
