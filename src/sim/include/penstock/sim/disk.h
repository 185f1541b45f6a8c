// SimDisk: engine::Disk in memory, with power cuts, torn writes, errors and silent corruption.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "penstock/sim/world.h"

namespace penstock::sim {

// Faults are off unless set. Permille are per operation.
struct SimDiskFaults {
  Duration latency_min = std::chrono::microseconds(20);
  Duration latency_max = std::chrono::microseconds(200);

  uint32_t read_error_permille = 0;
  uint32_t write_error_permille = 0;  // any sectors of the write may have been written
  uint32_t sync_error_permille = 0;   // what it covered may never become durable, as on Linux

  // Silent: the operation reports success.
  uint32_t lost_write_permille = 0;
  uint32_t misdirected_write_permille = 0;  // lands elsewhere in the same file
  uint32_t flipped_read_permille = 0;       // one bit of what is read is wrong, this time

  // At a power cut, of each write (allocate, discard) that no sync covers; also of those in flight.
  // What is neither lost nor torn is kept. Of a torn one each 512-byte sector is kept or not.
  uint32_t lose_unsynced_permille = 400;
  uint32_t tear_unsynced_permille = 300;
};

inline constexpr uint64_t kSimSectorBytes = 512;

namespace internal {
struct SimInode;
struct SimTree;
}  // namespace internal

class SimDisk;

// What is on the platter and in the page cache: outlives the SimDisks that work on it. A new image
// holds the empty directory "/"; relative paths begin there.
class SimDiskImage {
 public:
  explicit SimDiskImage(SimWorld& world, uint64_t capacity_bytes = kTiB);
  ~SimDiskImage();
  SimDiskImage(const SimDiskImage&) = delete;
  SimDiskImage& operator=(const SimDiskImage&) = delete;

  SimDiskFaults faults;

  // Both end the "process": every SimDisk of this image becomes a ghost, whose operations, in
  // flight or later, end with Code::closed and have no effect, so that its users can be run to
  // their end and destroyed as usual.
  //
  // Power is cut: of what was not synced, anything may be missing. Creation and removal of names,
  // make_directory() and replace_file() are durable when they return.
  void power_cut();
  // The process is killed: what completed stays, of each write in flight a prefix may have
  // happened.
  void kill();

  // For tests, on the content as it is read and as it would survive a power cut.
  void flip_bit(const std::string& path, uint64_t offset, int bit);
  std::vector<std::byte> peek(const std::string& path, uint64_t offset, uint64_t length) const;
  void poke(const std::string& path, uint64_t offset, Bytes bytes);
  std::vector<std::string> files() const;  // all paths of files
  uint64_t size(const std::string& path) const;
  uint64_t used_bytes() const;  // allocated, in pages of 4 KiB
  uint64_t unsynced_writes() const;
  void set_capacity(uint64_t bytes);

  // A node's directories may turn read-only.
  void set_read_only(bool read_only) { read_only_ = read_only; }

  uint64_t operations() const { return operations_; }

  SimWorld& world() { return world_; }

 private:
  friend class SimDisk;
  void end_instances(bool power);

  SimWorld& world_;
  std::unique_ptr<internal::SimTree> tree_;
  std::vector<SimDisk*> instances_;
  bool read_only_ = false;
  uint64_t operations_ = 0;
};

struct SimDiskOptions {
  bool direct = true;  // false: as on a file system that refuses O_DIRECT
  uint64_t alignment = 4096;
};

// The disk of one loop in one life of the process. Nothing may be in flight when it is destroyed
// (a power cut or kill ends what is).
class SimDisk final : public engine::Disk {
 public:
  SimDisk(SimDiskImage& image, engine::Loop& loop, SimDiskOptions options = {});
  ~SimDisk() override;

  bool poll() override { return false; }

  const engine::DiskFacts& facts() const override { return facts_; }
  Outcome<engine::DiskFile> open(const std::string& path, engine::DiskOpenOptions options) override;
  void close(engine::DiskFile file) override;
  Result<uint64_t> size(engine::DiskFile file) override;
  void submit(engine::DiskOp& op) override;
  Status register_buffer(engine::BufferId id, MutableBytes memory) override;
  void unregister_buffer(engine::BufferId id) override;
  Status make_directory(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Status remove(const std::string& path) override;
  Result<std::string> read_file(const std::string& path) override;
  Status replace_file(const std::string& path, const std::string& content) override;
  Result<std::unique_ptr<engine::DirectoryLock>> lock_directory(const std::string& path) override;
  Result<engine::DiskSpace> space(const std::string& path) override;

 private:
  friend class SimDiskImage;
  struct OpenFile {
    std::shared_ptr<internal::SimInode> inode;
    bool direct = false;
    bool read_only = false;
    uint32_t in_flight = 0;
  };

  struct Pending {
    SimWorld::EventId event = 0;
    uint64_t mark = 0;  // the newest change that a sync covers
  };

  OpenFile* find(engine::DiskFile file);
  Status check(const engine::DiskOp& op, const OpenFile* file) const;
  void begin(engine::DiskOp& op);
  void finish(engine::DiskOp& op);
  void end(engine::DiskOp& op, Status status);
  Status perform(engine::DiskOp& op, OpenFile& file);
  Status perform_write(engine::DiskOp& op, OpenFile& file);
  void become_ghost(bool power);

  SimDiskImage& image_;
  engine::Loop& loop_;
  engine::DiskFacts facts_;
  std::vector<std::unique_ptr<OpenFile>> files_;
  std::map<uint32_t, MutableBytes> buffers_;
  std::unordered_map<const engine::DiskOp*, Pending> pending_;
  IntrusiveList<engine::DiskOp> in_flight_;
  IntrusiveList<engine::DiskOp> waiting_;
  uint32_t in_flight_count_ = 0;
  bool ghost_ = false;
};

}  // namespace penstock::sim
