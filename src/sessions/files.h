// The open files of a session.
#pragma once

#include "context.h"
#include "shares.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "penstock/engine.h"

namespace penstock::sessions {

// Thread safe.
class Files {
 public:
  Files(const Context& context, Shares& shares) : context_(context), shares_(shares) {}
  ~Files() { ASSERT(files_.empty()); }

  Answer open_path(const wire::OpenPath& m);
  // A file of a mount, of which the application sent a descriptor.
  Answer open_descriptor(const wire::OpenDescriptor& m, int fd);
  Answer reopen(const wire::Reopen& m);
  Answer close(const wire::CloseFile& m);
  Answer attributes(const wire::FileAttributes& m);
  Answer truncate(const wire::TruncateFile& m);
  Answer sync(const wire::SyncFile& m);

  // Makes all files known to a share. No file is opened or closed meanwhile.
  void announce_all(serving::Announced& announced);
  void add_to(SessionStatus* status) const;
  // No request runs and no share is left.
  void end();

 private:
  struct File {
    client::FileRef ref;  // null while it is being opened or closed
    resources::Charge heap;
    uint32_t access = 0;
    uint32_t users = 0;  // requests that work on it
  };
  // A request works on a file, which is closed only after that.
  class Use {
   public:
    Use(Files& files, uint32_t id, File& file)
        : files_(files), id_(id), ref_(file.ref), access_(file.access) {
      ++file.users;  // with mutex_ held
    }
    ~Use() { files_.end_use(id_); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    const client::FileRef& ref() const { return ref_; }
    uint32_t access() const { return access_; }

   private:
    Files& files_;
    const uint32_t id_;
    const client::FileRef ref_;
    const uint32_t access_;
  };

  using Open = std::function<Result<client::FileRef>()>;
  // Reserves the id, opens, and makes the file known to the rings.
  Answer open_as(uint32_t id, const std::string& what, uint32_t access, const Open& open);
  Outcome<void> reserve(uint32_t id, const std::string& what);
  // Null: there is no such file, or it is being opened or closed.
  std::unique_ptr<Use> use(uint32_t id);
  void end_use(uint32_t id);

  const Context& context_;
  Shares& shares_;
  mutable engine::Mutex mutex_;  // never held while something blocks
  std::map<uint32_t, File> files_;
  engine::Condition unused_;  // a file has no users any more
  serving::TableRoom room_;
};

}  // namespace penstock::sessions
