// Mover: moves file bytes to and from device memory, by the best way that there is.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "penstock/engine.h"
#include "penstock/route/deadlines.h"
#include "penstock/route/host_source.h"

namespace penstock::route {

// One read of a file into device memory, or one write from it. Reads end at the end of the file,
// short or with 0. After an error `transferred` counts the bytes before the first that failed, and
// the destination behind them is undefined.
//
// Ends with what the source says; corrupt when bytes did not verify where they landed (bad_offset
// says where); invalid_argument when the device memory is not allocated any more; io_error when the
// device is lost; cancelled; timed_out; not_supported when `only` names a route that cannot be
// taken. Whatever the end, nothing touches the device memory afterwards.
struct TransferOp : engine::Op {
  bool write = false;
  bool durable = false;  // writes
  uint32_t file = 0;     // a handle of the source
  uint64_t offset = 0;   // in the file, bytes
  engine::DeviceSpan memory;
  engine::Time deadline = engine::kNever;
  // Strict: this route or none; Route::none: the best one.
  engine::Route only = engine::Route::none;
  // For memory of a kernel that waits for it and may fill the device: only copy engines are used.
  // What was read is not verified where it landed; that is for the caller, which is told its
  // checksum.
  bool without_kernels = false;

  uint64_t transferred = 0;                   // out
  uint32_t crc32c = 0;                        // out with without_kernels: of what was read
  engine::Route route = engine::Route::none;  // out: the worst that a part took
  uint64_t bad_offset = 0;                    // out with corrupt: in the file

  // The mover's.
  struct {
    uint64_t next = 0;        // bytes that pieces were made of
    uint64_t good_end = 0;    // bytes before the first that failed, or that the file does not have
    uint32_t pieces = 0;      // in progress
    bool only_slots = false;  // there is no other way at `next`: it waits for a slot
    Status first_error;       // of the piece at good_end
    Status stop;              // not ok: no further pieces, and the end
    bool queued = false;
    bool running = false;
    size_t timed_index = 0;
  } progress;
  // The same, for crc32c: what is known of parts that have landed.
  struct PartSum {
    uint64_t begin = 0;
    uint64_t length = 0;
    uint32_t crc32c = 0;
  };
  std::vector<PartSum> sums;
};

// Pieces of at least so many bytes go by a copy engine, smaller ones by the gather kernel.
uint64_t engine_bytes_min(const engine::CopyCosts& costs);

struct MoverConfig {
  // Pinned host memory that the source can read into, page aligned; cut into slots with room for
  // checksums behind each.
  MutableBytes slots;
  engine::BufferId slots_buffer = engine::kNoBuffer;
  bool verify = true;            // checksums in device memory
  engine::CopyCosts costs = {};  // of devices that set_costs() says nothing of
};

// Owner thread of the loop, which polls it. Nothing may be in progress when it is destroyed.
class Mover final : public engine::Poller {
 public:
  Mover(engine::Loop& loop, engine::DeviceMemory& devices, HostSource& source, MoverConfig config);
  ~Mover() override;

  // Any number of operations; each gets a slot or a piece after the other.
  void submit(TransferOp& op);
  // Asks for an early end of an operation whose completion has not run.
  void cancel(TransferOp& op);
  void cancel_all();

  bool poll() override;
  // Copies are under way, whose end wakes no thread: poll() again by next_look().
  bool copies_in_flight() const { return lanes_->busy(); }
  engine::Time next_look() const { return lanes_->next_look(); }
  engine::Time latest_look() const { return lanes_->latest_look(); }
  // An operation is to be ended: poll() by then.
  engine::Time next_deadline() const { return deadlines_.next(); }
  bool idle() const { return operations_ == 0; }
  void set_costs(engine::DeviceId device, const engine::CopyCosts& costs);
  // For copies that are not the mover's, which share launches with its own; polled here.
  engine::CopyLanes& lanes() { return *lanes_; }

 private:
  struct Piece;
  class Slots;

  void stop(TransferOp& op, Status why);
  bool start_pieces();
  bool start_piece(TransferOp& op);
  bool start_resident(TransferOp& op, const Resident& resident);
  uint64_t direct_length(const TransferOp& op) const;
  bool start_direct(TransferOp& op, Reached reached);
  bool is_allocated(const TransferOp& op) const;
  uint64_t start_slot(TransferOp& op, uint64_t at, uint64_t length);
  bool start_retries();
  void host_done(Piece& piece);
  void direct_done(Piece& piece);
  void copy_done(Piece& piece);
  void copy_resident(Piece& piece);
  void verify_direct(Piece& piece);
  void copy_slot(Piece& piece);
  template <class Each>
  static void for_each_block(const Piece& piece, const std::byte* source, const uint32_t* checksums,
                             bool verifies, const Each& each);
  static bool is_good_in_slot(const Piece& piece, uint64_t block);
  void verify_later(Piece& piece, const std::byte* source, const uint32_t* checksums) const;
  static bool may_be_the_disk(const Piece& piece);
  static uint32_t sum_up(TransferOp& op);
  void submit_host(Piece& piece);
  void submit_copy(Piece& piece);
  void retry_by_slots(Piece& piece, Status why);
  void read_slot(Piece& piece);
  void write_slot(Piece& piece);
  void piece_done(Piece& piece, Status status, uint64_t good, engine::Route route);
  static void lower_end(TransferOp& op, uint64_t end, Status status);
  void end_if_done(TransferOp& op);
  Piece* take_piece(bool in_memory);
  void give_back(Piece& piece);
  static std::byte* device_address(const Piece& piece);

  engine::Loop& loop_;
  engine::DeviceMemory& devices_;
  HostSource& source_;
  const MoverConfig config_;
  std::array<uint64_t, engine::kDevicesMax> engine_bytes_min_;  // by device
  std::unique_ptr<engine::CopyLanes> lanes_;
  std::unique_ptr<Slots> slots_;
  std::vector<std::unique_ptr<Piece>> pieces_;
  IntrusiveList<Piece> free_pieces_;
  uint32_t pieces_in_memory_ = 0;      // in progress, of what was found there
  uint32_t direct_pieces_ = 0;         // in progress, of what the source reaches
  IntrusiveList<Piece> on_host_;       // a host read or write of theirs is in progress
  IntrusiveList<Piece> retries_;       // whose bytes must come through slots after all
  IntrusiveList<TransferOp> waiting_;  // of which not all pieces have been made; in turns
  Deadlines<TransferOp> deadlines_;
  uint64_t operations_ = 0;
  // Times of steps, and what they moved: where a transfer spends its time.
  metrics::Counter host_steps_{"route.host.steps"};
  metrics::Counter host_nanoseconds_{"route.host.nanoseconds"};
  metrics::Counter copy_steps_{"route.copy.steps"};
  metrics::Counter copy_nanoseconds_{"route.copy.nanoseconds"};
};

}  // namespace penstock::route
