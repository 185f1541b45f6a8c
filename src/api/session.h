// The application's end of a session: control calls, what the session owns, and setting it up again
// when the agent died.
//
// A monitor thread receives all replies and notices the end of the connection. It then looks for
// the agent's successor; regions, rings and files are made again there under the same ids, and each
// lane moves over by itself (lane.h). When nobody comes for a while the session is dead: every call
// and every operation ends with ECONNRESET, until somebody comes after all.
#pragma once

#include "cache_map.h"
#include "channel.h"
#include "forked.h"
#include "limits.h"
#include "numbers.h"
#include "ring.h"
#include "shared_memory.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

#include "penstock/base.h"
#include "penstock/engine.h"
#include "penstock/wire.h"

namespace penstock::route {
class Transfers;
}

namespace penstock::api {

class DeviceRings;
class Session;
class StagingPool;

// A table of words that are 0 at first. Its pages are made when they are used.
class ZeroedWords {
 public:
  explicit ZeroedWords(size_t count);
  std::atomic<uint64_t>& operator[](size_t i) const { return words_.get()[i]; }

 private:
  struct Free {
    void operator()(std::atomic<uint64_t>* words) const;
  };
  const std::unique_ptr<std::atomic<uint64_t>, Free> words_;
};

// What the agent is told of a region for other processes.
struct Publication {
  wire::PublishDevice request;
  ParentsFd fd;        // if the handle has one
  bool known = false;  // to the agent; false while it is on its way
};

// What another process has published.
struct PublishedMemory {
  engine::DeviceHandle handle;
  uint64_t size = 0;
  std::array<uint8_t, 16> gpu{};
};

// Shared with the operations on GPU memory that name it, which may be prepared when it is released.
struct Region : std::enable_shared_from_this<Region> {
  Session* session = nullptr;
  uint32_t id = 0;
  uint64_t generation = 0;  // of those that have had this number
  std::byte* base = nullptr;
  size_t size = 0;
  uint64_t offset = 0;  // of the memory behind the descriptor
  int fd = -1;          // memory's, or owned_fd; -1: found again by `path`
  SharedMemory memory;  // of regions made here
  UniqueFd owned_fd;    // of memory that the caller made
  // Of memory whose file has a name: no descriptor is kept, of which a process often has no more
  // than 1,024. A file that has taken its place under that name is told by device and inode.
  std::string path;
  dev_t file_device = 0;
  ino_t file_inode = 0;

  // GPU memory, which the agent does not know of; `base` is its address there then.
  std::optional<engine::DeviceSpan> device;
  engine::DeviceMemory* owner = nullptr;  // who allocated or imported it; null: the caller did
  // In progress, by the transfers that carry them out: lanes that share none do not meet here.
  // Release at the end, and the last that is done with the region; acquire of who waits.
  // Sequentially consistent with `released`: either the release waits for a transfer that starts,
  // or that sees that it may not.
  struct alignas(64) Count {
    std::atomic<uint32_t> value{0};
  };
  std::array<Count, limits::kLaneTransfersMax> transfers;
  std::atomic<bool> released{false};
  std::atomic<uint32_t> device_rings{0};     // whose kernels read into it; relaxed
  std::unique_ptr<Publication> publication;  // guarded by the session's mutex
};

// The file of a named region, while it has that name; none otherwise.
UniqueFd open_again(const Region& region);

// As long as it lives, no control call that this thread makes waits longer than until `time`; it
// ends with timed_out then. For work of many calls with one deadline.
class CallsEndBy {
 public:
  explicit CallsEndBy(engine::Time time);
  ~CallsEndBy();
  CallsEndBy(const CallsEndBy&) = delete;
  CallsEndBy& operator=(const CallsEndBy&) = delete;

 private:
  const engine::Time before_;
};

class Session {
 public:
  static Outcome<std::unique_ptr<Session>> connect(const std::string& socket_path);
  // The agent lives in this process and ends with the session.
  static Outcome<std::unique_ptr<Session>> open_store(const std::string& directory, bool create);
  // Ends everything. No other thread is in a call of this session.
  ~Session();

  bool forked() const;
  // Changes whenever lanes have to look where they stand: at every new connection, and at death.
  uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }
  bool dead() const { return dead_.load(std::memory_order_acquire); }

  // One control call. A call whose connection is lost is made again if it is `repeatable`, else it
  // ends with peer_gone: it may have happened.
  using Answer = Outcome<wire::ReplyBody>;
  Answer call(const wire::RequestBody& body, bool repeatable,
              const std::vector<int>& descriptors = {}, UniqueFd* given = nullptr);
  // One that is not repeated and is answered with a descriptor.
  Answer call_for(const wire::RequestBody& body, UniqueFd* given) {
    return call(body, false, {}, given);
  }

  // The node cache, as far as this process has mapped it.
  CacheMap& cache() { return cache_; }

  // The table of files, for checks without a lock: the access of an open file, 0 if it is none.
  uint8_t access_of(int32_t file) const {
    if (file < 0 || file >= static_cast<int32_t>(wire::kFilesMax)) return 0;
    return access_[static_cast<size_t>(file)].load(std::memory_order_relaxed);
  }
  // That of the region which has this number now, or will have it next. Relaxed: see
  // release_region().
  uint64_t region_generation(uint32_t id) const {
    return region_generations_[id].load(std::memory_order_relaxed) + 1;
  }
  // Of an open file.
  InodeId inode_of(uint32_t file) const {
    return InodeId(inodes_[file].load(std::memory_order_relaxed));
  }
  // Opens by a request whose `file` is filled in here.
  Outcome<int32_t> open_file(const std::function<wire::RequestBody(uint32_t id)>& request,
                             const std::vector<int>& descriptors);
  Outcome<void> close_file(int32_t file);
  // Does not wait for the agent; what it has to say against it is logged.
  Outcome<void> close_file_later(int32_t file);

  Outcome<Region*> make_region(uint64_t size);
  Outcome<Region*> register_region(int fd, uint64_t offset, void* base, uint64_t size);
  // Keeps no descriptor: an agent's successor is given what then has this name, if that is still
  // the same file. keep_descriptor() is for when it is about to lose its name.
  // `link`: a name for it in the virtual directory, or empty.
  Outcome<Region*> register_named_region(int fd, const std::string& path, const std::string& link,
                                         void* base, uint64_t size);
  Outcome<void> keep_descriptor(Region& region);
  Outcome<void> release_region(Region* region);
  // device_regions.cc. `owner` gives the memory back with the region; null: it is the caller's.
  Outcome<Region*> add_device_region(engine::DeviceMemory& devices, const engine::DeviceSpan& span,
                                     engine::DeviceMemory* owner);
  // published_regions.cc. The handle is one of the region's memory.
  Outcome<void> publish_region(Region& region, const wire::DeviceMemoryId& id,
                               const std::array<uint8_t, 16>& gpu, engine::DeviceHandle handle);
  Outcome<void> unpublish_region(Region& region);
  Outcome<PublishedMemory> open_published(const wire::DeviceMemoryId& id);
  // Made with the first region of GPU memory; null before that.
  route::Transfers* transfers() const { return transfers_.get(); }
  // For a lane that begins to use GPU memory: those, or others, so that a few threads with lanes of
  // their own do not wait for one another. Null while there are none.
  struct LaneTransfers {
    route::Transfers* transfers = nullptr;
    uint32_t number = 0;  // below kLaneTransfersMax
  };
  LaneTransfers lane_transfers();
  // For loads: transfers for so many links, each with its own thread and slots as far as
  // kLinkTransfersMax goes, then the same ones again. They are kept as long as the session.
  Outcome<std::vector<route::Transfers*>> link_transfers(engine::DeviceMemory& devices,
                                                         size_t links);
  DeviceRings& device_rings() { return *device_rings_; }
  StagingPool& staging() { return *staging_; }

  Outcome<Ring*> make_ring(uint32_t entries, uint32_t lanes);
  Outcome<void> destroy_ring(Ring* ring);

 private:
  // A call under way. Who takes it out of pending_ ends it: the monitor, with what became of it, or
  // a caller that does not wait any longer. It has a mutex of its own, which nobody holds who wakes
  // its caller: a caller that is woken to wait for the next lock costs two more turns of threads.
  struct Pending {
    enum class State : uint8_t { waiting, answered, lost };
    void end(State how);
    bool wait_until(std::chrono::steady_clock::time_point deadline);

    std::optional<uint32_t> closes;  // this file; nobody waits then
    wire::Reply reply;               // with `given`: written before `state`, read after it
    UniqueFd given;
    std::mutex mutex;
    std::condition_variable wake;
    // Changed once, with `mutex` held: release, pairs with the acquire of who looks without it.
    std::atomic<State> state{State::waiting};
  };
  struct Socket {
    ParentsFd fd;  // else a child would keep the session of a parent that is killed
  };
  struct Begun {
    uint64_t id = 0;
    Status sent;
    std::shared_ptr<Socket> socket;
  };
  struct File {
    std::string token;
    bool ready = false;
  };

  Session();
  Outcome<void> begin(UniqueFd socket);
  // Makes a call and, in the same instant as far as a new connection is concerned, `keep`s its
  // result in the tables. `again` replaces the request after the first time.
  Answer establish(wire::RequestBody body, std::vector<int> descriptors,
                   const std::function<void(const wire::ReplyBody&)>& keep,
                   const std::function<wire::RequestBody(const wire::ReplyBody&)>& again = {});
  // When a call that this thread begins now ends at the latest.
  static std::chrono::steady_clock::time_point call_deadline();
  // Sends a request as soon as there is a connection and room for one more call.
  Outcome<Begun> begin_call(const wire::RequestBody& body, const std::vector<int>& descriptors,
                            std::chrono::steady_clock::time_point deadline,
                            const std::shared_ptr<Pending>& pending, uint64_t* epoch);
  Answer call_once(const wire::RequestBody& body, const std::vector<int>& descriptors, bool* lost,
                   uint64_t* epoch, UniqueFd* given = nullptr);
  // Receives what comes, for a moment, until the call has ended: its own reply is read by whoever
  // waits for it, which spares the turn of the monitor.
  void look_for_reply(const std::shared_ptr<Socket>& socket, const Pending& pending);
  void take_reply(wire::Reply reply, UniqueFd given, const std::shared_ptr<Socket>& from);
  void monitor();
  void receive_all(const std::shared_ptr<Socket>& socket);
  void connection_lost();
  bool reconnect();
  bool try_to_reconnect();
  void set_dead(bool dead);
  void wait_for_attempt(std::unique_lock<std::mutex>& lock);
  struct RingUse {
    uint32_t ring = 0;
    std::shared_ptr<RingMemory> memory;
  };
  Status set_up_again(int socket, std::vector<RingUse>* rings);
  // With mutex_ held. `ask` makes one request of the new agent.
  using Ask = std::function<Status(const wire::RequestBody&, const std::vector<int>&)>;
  Status publish_again(const Ask& ask);
  void new_epoch();
  Outcome<void> begin_close(int32_t file);
  Outcome<Region*> add_region(std::unique_ptr<Region> region, const std::string& link = {});
  Outcome<void> number_region(Region& region);
  Outcome<std::unique_ptr<route::Transfers>> make_transfers(engine::DeviceMemory& devices,
                                                            uint64_t slots_bytes);
  void give_up(Region* slots, Ring* ring);
  Outcome<void> start_transfers(engine::DeviceMemory& devices);
  void release_device_region(Region& region);
  static void give_back_memory(const Region& region);

  std::string socket_path_;          // empty: the agent is in this process and has no successor
  std::shared_ptr<void> own_agent_;  // null, or the agent in this process, which ends with it
  const uint64_t generation_;
  const std::chrono::seconds reconnect_timeout_;
  std::thread monitor_;
  std::mutex transfers_mutex_;  // while they are made
  std::unique_ptr<route::Transfers> transfers_;
  std::vector<std::unique_ptr<route::Transfers>> more_transfers_;  // of the links behind the first
  std::vector<std::unique_ptr<route::Transfers>> lane_transfers_;  // of lanes behind the first
  engine::DeviceMemory* devices_ = nullptr;                        // of transfers_
  uint32_t lanes_begun_ = 0;                                       // that asked for transfers
  const std::unique_ptr<DeviceRings> device_rings_;
  const std::unique_ptr<StagingPool> staging_;

  std::atomic<uint64_t> epoch_{1};  // release by the monitor pairs with acquire in the lanes
  std::atomic<bool> dead_{false};   // set before the epoch changes; changed with mutex_ held

  std::mutex mutex_;
  std::condition_variable changed_;  // connected_, dead_, closing_, or a call has ended
  std::shared_ptr<Socket> socket_;
  bool connected_ = false;
  bool closing_ = false;
  uint64_t attempts_ = 0;        // to find a successor, that have ended
  bool attempt_wanted_ = false;  // by a call of a dead session: now, not after the next pause
  uint64_t next_call_ = 1;
  std::map<uint64_t, std::shared_ptr<Pending>> pending_;
  std::map<uint32_t, File> files_;
  CacheMap cache_{*this};  // before rings, which have views of it
  std::map<uint32_t, std::shared_ptr<Region>> regions_;
  std::map<uint32_t, std::unique_ptr<Ring>> rings_;
  // Free again when a region or ring is released, not while it is on its way.
  Numbers region_numbers_{wire::kRegionsMax};
  Numbers ring_numbers_{wire::kRingsMax};
  uint32_t next_file_ = 0;
  // Relaxed: a file's entries are set before its number is given to anybody.
  std::unique_ptr<std::array<std::atomic<uint8_t>, wire::kFilesMax>> access_table_;
  std::array<std::atomic<uint8_t>, wire::kFilesMax>& access_;
  const ZeroedWords inodes_;
  const ZeroedWords region_generations_;  // by number: releases
};

}  // namespace penstock::api
