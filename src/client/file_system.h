// FileSystem: the facade of a node. Its functions are spread over the files named below.
#pragma once

#include "access_times.h"
#include "drop_queue.h"
#include "inode_table.h"
#include "shard_client.h"
#include "target_calls.h"
#include "write_behind.h"
#include "written_ids.h"

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace penstock::client {

class FileSystemImpl final : public FileSystem {
 public:
  FileSystemImpl(meta::Meta& meta, FileSystemConfig config);
  ~FileSystemImpl() override;

  // Start and end: file_system.cc; what a dead process left: recovery.cc.
  Outcome<void> recover();
  void start();
  void close() override;

  Client& client(size_t shard) override { return *clients_[shard]; }
  meta::Meta& meta() override { return meta_; }
  FileSystemStatus status() override;
  void add_observer(Observer& observer) override;
  void remove_observer(Observer& observer) override;
  void watch(InodeId inode, Observer& observer) override;
  void unwatch(InodeId inode, Observer& observer) override;

  // namespace.cc
  Result<Attributes> lookup(const Credentials&, InodeId parent, std::string_view name) override;
  Result<Attributes> resolve(const Credentials&, std::string_view path, bool follow) override;
  Result<std::vector<Result<Attributes>>> resolve_many(const Credentials&,
                                                       const std::vector<std::string_view>& paths,
                                                       bool follow) override;
  Result<Attributes> attributes(InodeId inode) override;
  Result<Attributes> make_directory(const Credentials&, InodeId parent, std::string_view name,
                                    uint32_t mode, Observer* self) override;
  Result<Attributes> make_node(const Credentials&, InodeId parent, std::string_view name,
                               meta::FileType type, uint32_t mode, uint64_t device,
                               Observer* self) override;
  Result<Attributes> make_symlink(const Credentials&, InodeId parent, std::string_view name,
                                  std::string_view target, Observer* self) override;
  Result<Attributes> link(const Credentials&, InodeId inode, InodeId parent, std::string_view name,
                          Observer* self) override;
  Status unlink(const Credentials&, InodeId parent, std::string_view name, Observer* self) override;
  Status remove_directory(const Credentials&, InodeId parent, std::string_view name,
                          Observer* self) override;
  Status rename(const Credentials&, InodeId parent, std::string_view name, InodeId new_parent,
                std::string_view new_name, meta::RenameFlags flags, Observer* self) override;
  Status set_xattr(const Credentials&, InodeId inode, std::string_view name, std::string_view value,
                   meta::XattrMode mode, Observer* self) override;
  Status remove_xattr(const Credentials&, InodeId inode, std::string_view name,
                      Observer* self) override;
  Result<PathEnd> resolve_parent(const Credentials&, std::string_view path) override;

  // cut.cc
  Result<Attributes> set_attributes(const Credentials&, InodeId inode, const meta::SetAttributes&,
                                    Observer* self) override;

  // opens.cc
  Result<FileRef> open_inode(const Credentials&, InodeId inode, OpenFlags flags, bool check,
                             Observer* self) override;
  Result<FileRef> open_name(const Credentials&, InodeId parent, std::string_view name,
                            OpenFlags flags, uint32_t mode, std::optional<meta::Layout> layout,
                            bool check, Attributes* attributes, Observer* self) override;
  Result<FileRef> open_unnamed(const Credentials&, InodeId parent, OpenFlags flags, uint32_t mode,
                               Attributes* attributes, Observer* self) override;
  Result<FileRef> open_path(const Credentials&, std::string_view path, OpenFlags flags,
                            uint32_t mode, std::optional<meta::Layout> layout,
                            Attributes* attributes) override;
  // new_files.cc
  Status place_files(const Credentials&, std::span<NewFile> files) override;
  Status make_files(const Credentials&, std::span<NewFile> files, Observer* self) override;

  Result<std::vector<Result<Attributes>>> look_for_reading(
      const Credentials&, const std::vector<std::string_view>& paths) override;
  Status close_file(FileRef file) override;

  // io.cc
  Result<uint64_t> read(const FileRef&, uint64_t offset, engine::MemoryRef) override;
  Result<uint64_t> write(const FileRef&, uint64_t offset, engine::MemoryRef, bool durable,
                         Observer* self, const FileWriter* writer) override;
  Result<uint64_t> write_soon(const FileRef&, uint64_t offset, engine::MemoryRef, Observer* self,
                              const FileWriter* writer) override;
  Status flush_file(const FileRef&) override;
  void note_access(InodeId inode, AccessTimes times) override;
  Status sync_file(const FileRef&, bool only_data) override;
  Status sync_all() override;
  Result<uint64_t> seek(const FileRef&, uint64_t offset, bool hole) override;
  Status punch(const FileRef&, uint64_t offset, uint64_t length, Observer* self,
               const FileWriter* writer) override;
  Status touch(const FileRef&, Observer* self, const FileWriter* writer) override;

  // collector.cc
  Result<uint64_t> collect(size_t limit) override;

 private:
  // What is known of an inode that is to be opened.
  struct Opening {
    const Credentials& credentials;
    OpenFlags flags;
    bool check = true;
    const Attributes* created = nullptr;  // by this very call: there is nothing to find out
    Observer* self = nullptr;
    bool has_session = false;  // begun with the creation
  };

  meta::FileTime now() const { return config_.shards.front().loop->clock().wall(); }
  Status check_open() const {
    return closed_.load(std::memory_order_relaxed) ? Code::closed : Code::ok;
  }
  // Notes changes of bytes or attributes of one inode, and waits until they may be reported.
  void tell_changed(InodeId inode, uint64_t offset, uint64_t length, Observer* self);
  void named(InodeId id);
  void note_change(InodeId id);
  Status clear_range(const OpenFile& file, uint64_t offset, uint64_t end, const FileWriter* writer);
  void note_written(Inode& inode, uint64_t offset, uint64_t bytes, Observer* self);
  void tell_entry(InodeId parent, std::string_view name, Observer* self);
  void merge(Attributes& attributes, const Inode& inode) const;
  // Finds out what a file takes up; asks the targets if it may have holes.
  void fill_allocated(Attributes& attributes);
  void know_density(Inode& inode);
  Result<Attributes> merged(Result<Attributes> found, uint64_t drops_before);
  void removed(const meta::Removed& removed, Observer* self);

  struct NewName {
    InodeId parent;
    std::string_view name;
    uint32_t mode = 0;
    std::optional<meta::Layout> layout;
  };
  Result<FileRef> create_and_open(const NewName& wanted, const Opening& opening,
                                  Attributes* attributes, InodeId& existing);
  FileRef make_open(const std::shared_ptr<Inode>& inode, const Opening& opening);
  Result<FileRef> open_known(InodeId id, const Opening& opening, Attributes* attributes);
  Status prepare(Inode& inode, const Opening& opening, Attributes* attributes);
  Status load(Inode& inode, const Attributes& attributes, bool unnamed);
  void load_accessed(Inode& inode, const Attributes& attributes);
  Status know_tail(Inode& inode);
  Status open_unnamed(NewFile& file);
  struct Naming;
  Status name_some(const Credentials&, std::span<Naming* const> some);
  Status name_all(const Credentials&, std::span<Naming> all);
  void find_end(Naming& one);
  void tell_named(const Naming& one, Observer* self);
  void discard(std::span<const InodeId> lost);
  Result<Attributes> known_attributes(const Inode& inode);
  Result<FileRef> follow_and_create(const Credentials&, std::string_view path, OpenFlags flags,
                                    uint32_t mode, std::optional<meta::Layout> layout,
                                    Attributes* attributes);
  // Undoes one open: settles if it was a writer, lets go of the inode.
  Status give_back(const std::shared_ptr<Inode>& inode, bool writer);
  void give_back_dropped();

  // With the control lock held.
  Result<Attributes> change_length(Inode& inode, const Credentials&,
                                   const meta::SetAttributes& changes);
  Result<Attributes> record_length(Inode& inode, const Credentials&,
                                   const meta::SetAttributes& changes, bool careful);
  void close_gate(Inode& inode);
  // Takes what a write takes, before the bytes of a file change.
  Status drop_privileges_for(const OpenFile& file, const FileWriter* writer);
  // Around a change that may give the file something that writes take: no bytes change meanwhile,
  // and whoever changes some later takes it.
  void begin_giving(Inode& inode);
  Status giving(InodeId id, const std::function<Status()>& apply);

  Status run_io(IoOp& io);
  bool may_wait(const FileRef& file, uint64_t offset, engine::MemoryRef memory) const;
  Status put_gathered(const Gathered& gathered, bool durable);
  void tell_lost(const Gathered& gathered);
  Status recover_file(InodeId id);
  Result<std::vector<InodeId>> find_removed(size_t limit);
  bool make_room();
  void housekeeping();
  Status settle_all_ended();

  meta::Meta& meta_;
  FileSystemConfig config_;
  std::shared_ptr<DropQueue> drops_ = std::make_shared<DropQueue>();
  InodeTable table_;
  Observers observers_;
  Lengths lengths_;
  AccessTimesNoted accesses_;
  TargetCalls targets_;
  WrittenIds written_ids_;
  WriteBehind behind_;
  Company company_;
  DataPlane plane_;
  std::vector<std::unique_ptr<ShardClient>> clients_;

  // Relaxed: calls that overtake close() are as good as earlier ones.
  std::atomic<bool> closed_{false};
  std::atomic<bool> collect_wanted_{false};  // relaxed: the queue's mutex orders it
  std::mutex collect_mutex_;                 // one collection at a time
  InodeId collected_to_;                     // the collector's, under its mutex, as the next
  uint32_t collections_ = 0;
  std::thread housekeeper_;
};

}  // namespace penstock::client
