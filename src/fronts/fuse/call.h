// One request, from libfuse's function with its arguments to exactly one reply.
#pragma once

#define FUSE_USE_VERSION 312
#include "figures.h"
#include "front.h"

#include <cerrno>
#include <fuse3/fuse_lowlevel.h>
#include <new>
#include <optional>
#include <sys/stat.h>
#include <utility>

namespace penstock::fuse {

// Used by the worker that reads the request, within one function. Every function that replies ends
// the call; what comes after must not touch it.
class Call {
 public:
  explicit Call(fuse_req_t request) : request_(request) {}

  Front& front() { return *static_cast<Front*>(fuse_req_userdata(request_)); }
  fuse_req_t request() { return request_; }
  bool replied() const { return replied_; }
  // The operation changes names: if the mount is to make such changes durable, they are before they
  // are answered.
  void changes_names() { changes_names_ = true; }

  // The caller's ids; the kernel has checked permissions already (default_permissions).
  client::Credentials credentials();
  // For what the kernel cannot check: with the caller's groups, to be enforced by us.
  client::Credentials enforced_credentials();
  // For what only the owner may do to a file with these attributes. The kernel has judged that by
  // the owner and group that it was told last, of an open file perhaps long ago, and another node
  // may have changed them since: where it may, we judge once more, but for callers that may do it
  // to files of anybody.
  client::Credentials owner_credentials(const meta::Attributes& attributes);
  // The caller with groups where they count for the set-id bits that such a file keeps.
  client::Credentials credentials_for(const meta::Attributes& attributes);
  // The caller, if the node is to take privileges from the file that the request changes; with its
  // groups if the file may have some. Nothing where the kernel does that itself.
  std::optional<client::FileWriter> writer(const client::OpenFile& file, bool keeps_set_ids);

  // The request, for whoever answers it when this call is over.
  fuse_req_t answered_later() { return ending(); }
  void error(int error);
  void status(Status status) { error(status.to_errno()); }
  void none();
  void attributes(const meta::Attributes& attributes);
  // Attributes of something virtual, and how long the kernel may keep them.
  void virtual_attributes(const struct stat& attributes, double cache_seconds);
  void text(const std::string& link_target);
  void written(size_t length);
  // True if the kernel got it, and with it open files or references to inodes.
  bool data(const void* bytes, size_t length);
  bool open(const fuse_file_info& info);
  bool entry(const fuse_entry_param& entry);
  bool created(const fuse_entry_param& entry, const fuse_file_info& info);
  void statistics(const struct statvfs& statistics);
  void xattr_size(size_t size);
  void found_at(off_t offset);
  void controlled(const void* out, size_t length);

 private:
  // Its supplementary groups, as the kernel tells them.
  void add_groups(client::Credentials& credentials);
  fuse_req_t ending() {
    replied_ = true;
    return request_;
  }
  // False, and the call has ended, if a change of names could not be made durable.
  bool sync_names();

  const fuse_req_t request_;
  bool replied_ = false;
  bool changes_names_ = false;
};

struct stat to_stat(const meta::Attributes& attributes);
// An entry that the kernel may keep.
fuse_entry_param to_entry(const meta::Attributes& attributes, const Front& front);

// Replies with an inode that the kernel may not know yet, as one more reference to it.
void reply_entry(Call& call, const meta::Attributes& attributes);
// The same of an entry that the kernel may keep for so many seconds, as entry_seconds() says
// before.
void reply_entry(Call& call, const meta::Attributes& attributes, double seconds);
// With no inode: that there is none of that name.
double entry_seconds(Front& front, InodeId parent, const char* name, InodeId inode);
// The same, and with the open file in `info`; true if the kernel got it.
bool reply_created(Call& call, const meta::Attributes& attributes, const fuse_file_info& info);

// An operation that changes names.
template <auto kOperation>
struct ChangesNames;

template <class... Arguments, void (*kOperation)(Call&, Arguments...)>
struct ChangesNames<kOperation> {
  static void run(Call& call, Arguments... arguments) {
    call.changes_names();
    kOperation(call, arguments...);
  }
};

// Makes libfuse's function of ours: `void operation(Call&, arguments...)`. Whatever is thrown below
// (memory is short, in practice) becomes an error reply.
template <auto kOperation>
struct Guarded;

template <class... Arguments, void (*kOperation)(Call&, Arguments...)>
struct Guarded<kOperation> {
  inline static RequestFigures figures;
  static void run(fuse_req_t request, Arguments... arguments) noexcept {
    const Served served(figures);
    Call call(request);
    try {
      kOperation(call, arguments...);
    } catch (const std::bad_alloc&) {
      if (!call.replied()) call.error(ENOMEM);
    } catch (...) {
      if (!call.replied()) call.error(EIO);
    }
    if (!call.replied()) call.error(EIO);
  }
};

}  // namespace penstock::fuse
