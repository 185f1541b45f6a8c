// One application's connection: its regions, rings and files, and its rights.
#pragma once

#include "accounts.h"
#include "allowances.h"
#include "foreign_memory.h"
#include "handle_table.h"
#include "link_table.h"
#include "node_cache.h"
#include "outbox.h"
#include "repeated_log.h"
#include "session_socket.h"
#include "shard_share.h"
#include "shared_buffers.h"
#include "token.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unistd.h>
#include <vector>

#include "penstock/agent.h"

namespace penstock::agent {

struct FileOp;

// A shard, as sessions see it. All pointers outlive the sessions.
struct SessionShard {
  engine::Loop* loop = nullptr;
  client::Client* client = nullptr;
  engine::Parker* parker = nullptr;
  engine::Disk* disk = nullptr;       // null: regions are not registered with a disk
  RingServer rings;                   // added to the loop by whoever runs it
  std::unique_ptr<ShardFills> fills;  // the cache's; null: there is none
};

// Which devices are mounts of this file system. Thread safe.
class MountTable {
 public:
  // `connection` is the mount's FUSE device, open until it is removed.
  void add(uint64_t device, int connection);
  void remove(uint64_t device);
  // Not one that was unmounted: any other file system may have its number now.
  bool holds(uint64_t device) const;

 private:
  mutable std::mutex mutex_;
  std::multimap<uint64_t, int> connections_;
};

// What sessions share. Everything is thread safe.
struct SessionNode {
  client::FileSystem* files = nullptr;
  std::vector<std::unique_ptr<SessionShard>> shards;
  TokenMaker tokens{{0, 0}};
  MountTable mounts;
  std::shared_ptr<Accounts> accounts = Accounts::make(bounds_of_process(), ::geteuid());
  LinkTable links{accounts};
  HandleTable handles;
  BufferNumbers buffers;
  Allowances allowances;
  RepeatedLog log;
  std::chrono::milliseconds reply_timeout = limits::kReplyTimeout;
  std::unique_ptr<NodeCache> cache;  // null: there is none
  std::atomic<uint32_t> next_shard{
      0};  // rings go to the shards in turn; relaxed: any order will do
};

// What a session asks of its server. Any thread; must not block.
class SessionHost {
 public:
  virtual ~SessionHost() = default;
  virtual void end_session(uint64_t id) = 0;
  // Unparks the shard whenever `eventfd` is written, until forgotten.
  virtual Status watch(int eventfd, uint32_t shard) = 0;
  virtual void forget(int eventfd) = 0;
};

// Requests of one session run on several threads at once; each blocks as long as it must.
class Session {
 public:
  Session(SessionNode& node, SessionHost& host, uint64_t id, UniqueFd socket, Peer peer,
          std::shared_ptr<Account> account);
  ~Session();

  uint64_t id() const { return id_; }
  int socket() const { return socket_.get(); }
  const Peer& peer() const { return peer_; }
  client::Terms& terms() { return terms_; }
  Outbox& outbox() { return outbox_; }
  const std::shared_ptr<Account>& account() const { return account_; }
  SessionStatus status();

  // Executes one request and puts its reply into the outbox.
  void execute(Message message);
  // Nobody finds any more what the session has published. At once, so that an application that
  // comes again may publish the same.
  void withdraw_all();
  // Ends everything: cancels and waits for what is in flight, unmaps, closes. No request runs or
  // comes any more.
  void finish();

 private:
  struct File {
    client::FileRef ref;  // null while it is being opened or closed
    uint32_t access = 0;
    uint32_t users = 0;  // requests that work on it
  };
  // A request works on a file, which is closed only after that.
  class FileUse {
   public:
    FileUse(Session& session, uint32_t id, File& file)
        : session_(session), id_(id), ref_(file.ref), access_(file.access) {
      ++file.users;  // with mutex_ held
    }
    ~FileUse() { session_.end_use(id_); }
    FileUse(const FileUse&) = delete;
    FileUse& operator=(const FileUse&) = delete;

    const client::FileRef& ref() const { return ref_; }
    uint32_t access() const { return access_; }

   private:
    Session& session_;
    const uint32_t id_;
    const client::FileRef ref_;
    const uint32_t access_;
  };
  struct Region {
    std::unique_ptr<ForeignMemory> memory;  // null while it is being made or released
    Charge pinned;
    engine::BufferId buffer = engine::kNoBuffer;
  };
  struct Ring {
    Charge heap, mapping;                   // of its operations
    std::unique_ptr<ForeignMemory> memory;  // null while it is being made or destroyed
    ForeignFd wake;
    uint32_t shard = 0;
    bool watched_by_shard = false;
  };
  using Answer = Outcome<wire::ReplyBody>;
  // The descriptor that goes with a reply, if any. It is open as long as the session's segment, or
  // its keeper, lives.
  struct Given {
    int fd = -1;
    std::shared_ptr<const void> keeper;
  };

  // The application broke the protocol. Any thread.
  void end_broken(const char* why);
  wire::Reply greet(uint64_t id, const wire::Hello& hello);
  wire::Reply reply_to(Message& message, Given* given);
  Answer handle(const wire::RequestBody& body, std::vector<ForeignFd>& descriptors, Given* given);

  // session_memory.cc: regions and rings
  Answer on(const wire::RegisterRegion& m, int fd);
  Answer on(const wire::AttachRegion& m);
  Answer on(const wire::ReleaseRegion& m);
  Answer on(const wire::CreateRing& m, int memory, ForeignFd wake);
  Answer on(const wire::DestroyRing& m);
  Answer on(const wire::CancelOperation& m);
  Answer make_region(uint32_t id, int fd, uint64_t offset, uint64_t size);
  Status watch(Ring& ring);
  void destroy(uint32_t id, Ring ring);
  void release(uint32_t id, Region region);
  void pin(Region& region);
  static ServedRegion served(const Region& region);
  ShardShare& share_on(uint32_t shard);  // with publishing_ held exclusively

  // session_cache.cc: the node cache's memory
  Answer on(const wire::MapCache& m, Given* given);
  Answer on(const wire::MapSlab& m, Given* given);
  Answer on(const wire::KeepTouchLog& m, int fd);
  // The segment of this session's class, taken at the first call; null where there is no cache.
  std::shared_ptr<arena::Segment> segment();
  void leave_segment();

  // session_devices.cc: GPU memory for other processes
  Answer on(const wire::PublishDevice& m, ForeignFd fd);
  Answer on(const wire::WithdrawDevice& m);
  Answer on(const wire::OpenDevice& m, Given* given);
  Publisher publisher() const { return {id_, peer_.credentials.uid}; }

  // session_files.cc: open files
  Answer on(const wire::OpenPath& m);
  Answer on(const wire::OpenDescriptor& m, int fd);
  Answer on(const wire::Reopen& m);
  Answer on(const wire::CloseFile& m);
  Answer on(const wire::FileAttributes& m);
  Answer on(const wire::TruncateFile& m);
  Answer on(const wire::SyncFile& m);
  // Reserves the id, opens, and makes the file known to the rings.
  Answer open_as(uint32_t id, const std::string& what, uint32_t access,
                 const std::function<Result<client::FileRef>()>& open);
  // Null: there is no such file, or it is being opened or closed.
  std::unique_ptr<FileUse> use_file(uint32_t id);
  void end_use(uint32_t id);

  // session_many.cc: many files in one request
  Answer on(const wire::ReadFiles& m);
  Answer on(const wire::CreateFiles& m);
  Answer on(const wire::LookAtFiles& m);
  // Waits until all have ended.
  void run_batch(std::deque<FileOp>& ops);

  // session_paths.cc: names
  Answer on(const wire::PathAttributes& m);
  Answer on(const wire::ChangeAttributes& m);
  Answer on(const wire::MakeDirectory& m);
  Answer on(const wire::Remove& m);
  Answer on(const wire::Rename& m);
  Answer on(const wire::MakeLink& m);
  Answer on(const wire::MakeSymlink& m);
  Answer on(const wire::ReadSymlink& m);
  Answer on(const wire::ListDirectory& m);
  Answer on(const wire::SyncAll& m);

  // Runs `work` on a shard's loop and waits until it has completed the operation given to it.
  void on_shard(uint32_t shard, const std::function<void(engine::Op& done)>& work);
  // Takes something from every shard that serves a ring of this session, and waits until no
  // operation uses it; with publishing_ held. `is_unused` takes back what was only announced.
  void take_from_shares(const std::function<bool(ShardShare&)>& is_unused,
                        const std::function<void(ShardShare&, engine::Op& done)>& remove);

  SessionNode& node_;
  SessionHost& host_;
  const uint64_t id_;
  const UniqueFd socket_;
  const Peer peer_;
  const std::shared_ptr<Account> account_;
  client::Terms& user_terms_;
  client::Terms terms_;
  Outbox outbox_{socket_.get()};
  std::atomic<bool> greeted_{false};

  std::mutex mutex_;  // the tables; never held while something blocks
  std::map<uint32_t, File> files_;
  std::condition_variable file_unused_;  // a file has no users any more
  std::map<uint32_t, Region> regions_;
  std::map<uint32_t, Ring> rings_;
  TableRoom file_room_, region_room_;
  uint64_t region_bytes_ = 0;
  uint64_t ring_bytes_ = 0;
  std::shared_ptr<arena::Segment> segment_;
  std::unique_ptr<ForeignMemory> touch_log_;

  // Held shared while a file or region is made known to the shares or taken from them, exclusively
  // while a share is made from the tables: no share misses one.
  std::shared_mutex publishing_;
  std::vector<std::unique_ptr<ShardShare>> shares_;  // by shard; null where no ring is served
};

// "open /a/b: not found"
Failure failure_of(const std::string& what, Status status);
wire::Attributes to_wire(const client::Attributes& attributes);

}  // namespace penstock::agent
