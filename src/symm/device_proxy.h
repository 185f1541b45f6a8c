// Carries out what this PE's kernels ask of far PEs, and what far PEs ask of this PE's GPU.
#pragma once

#include "asked_queue.h"
#include "device_mail.h"
#include "proxy_device.h"

#include <bitset>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace penstock::symm {

struct ProxyOptions {
  uint32_t me = 0;
  uint32_t pes = 0;
  std::bitset<device::kFarPesMax> far;  // the PEs that it serves
  uint64_t heap = 0;                    // its address in this GPU's memory
  uint64_t heap_bytes = 0;
  // In the heap, but this PE's own: far PEs reach it as little as near kernels should.
  uint64_t private_begin = 0;
  uint64_t private_end = 0;
  uint32_t* trouble = nullptr;  // of kernels: set when a far PE is gone
  MutableBytes staging;         // that copy engines reach: some frames' bodies
};

// Bytes of a heap, as offsets.
struct Stretch {
  uint64_t begin;
  uint64_t end;
};

struct ProxyStats {
  uint64_t asked = 0;    // by kernels
  uint64_t refused = 0;  // of these: what there is not
  uint64_t frames = 0;   // that came
  uint64_t copies = 0;
};

// One thread calls all of it. What it is given outlives it.
class DeviceProxy {
 public:
  DeviceProxy(const ProxyOptions& options, AskedQueue& queue, ProxyDevice& device,
              DeviceMail& mail);

  // Does what can be done now, without waiting for anybody. False: that was nothing. Not ok: the
  // device is gone.
  Result<bool> turn();
  // Whether kernels have asked for something that is not on its way yet.
  bool is_owing() const;

  // What far PEs reach, and kernels have on their side, behind the heap: lengths by offset.
  void set_adopted(const std::map<uint64_t, uint64_t>& adopted);
  // How many changes of words, and copies, kernels were ever to make for far PEs; and whether they
  // have made the first `changes` of them.
  uint64_t changes() const { return queue_.posted(); }
  bool have_made(uint64_t changes) const { return queue_.served() >= changes; }

  bool is_gone(uint32_t pe) const { return peers_[pe].is_gone; }
  const ProxyStats& stats() const { return stats_; }

 private:
  // A kernel's request, as far as it was sent.
  struct Pending {
    uint64_t position;
    device::FarAsk asked;
    uint64_t sent;                // bytes, or elements of a row
    std::optional<uint64_t> tag;  // of a get, once its first part was asked for
  };
  // A request whose answer is to come.
  struct Awaited {
    bool is_used = false;
    uint32_t generation = 0;
    uint32_t pe = 0;
    uint64_t position = 0;
    MailKind kind{};    // of the answer
    uint64_t here = 0;  // where bytes go
    uint32_t width_log2 = 0;
    uint64_t stride = 0;  // here, in elements; 0: no row
    uint64_t left = 0;    // bytes
    uint64_t landed = 0;
  };
  struct Peer {
    bool is_gone = false;
    std::deque<Pending> pending;
    uint64_t planned[kMailLanes] = {};  // of its lanes' room, in this turn
    // A change that it asked for, until a kernel has made it: nothing later is applied before.
    bool is_blocked = false;
    std::optional<uint64_t> posted;  // its number, once it is posted
    MailFrame change;
  };
  // What is done once the copies of this turn are.
  struct Later {
    enum class What : uint8_t { send, send_word, answer, post, complete } what;
    uint32_t pe = 0;
    MailLane lane{};
    MailFrame frame{};
    MutableBytes body{};    // of a frame, or the word that goes into it
    uint64_t position = 0;  // of answer and complete
    uint64_t value = 0;     // of an answer
  };

  bool serve_mail(uint32_t pe);
  bool hear_answer(uint32_t pe);
  bool apply_asked(uint32_t pe);
  bool apply(uint32_t pe, const MailFrame& frame);
  bool apply_put(uint32_t pe, const MailFrame& frame);
  bool apply_get(uint32_t pe, const MailFrame& frame);
  bool apply_change(uint32_t pe, const MailFrame& frame);
  bool land(uint32_t pe, const MailFrame& frame, Awaited& awaited);
  bool serve_change(uint32_t pe);

  bool take_asked();
  void refuse(const AskedQueue::Taken& taken, device::SymmFailure why);
  device::SymmFailure fault_of(const device::FarAsk& asked) const;
  device::SymmFailure fault_of_bytes(const device::FarAsk& asked) const;
  device::SymmFailure fault_of_row(const device::FarAsk& asked) const;
  bool is_here(uint64_t address, uint64_t bytes) const;
  bool is_open(uint64_t offset, uint64_t bytes) const;
  uint64_t reach() const { return open_.back().end; }
  bool send_pending(uint32_t pe);
  bool send_next(uint32_t pe, Pending& next);
  bool send_bytes(uint32_t pe, Pending& next);
  bool ask_for_bytes(uint32_t pe, Pending& next);
  bool send_change(uint32_t pe, Pending& next);

  std::optional<MutableBytes> stage(uint64_t bytes);
  bool has_room(uint32_t pe, MailLane lane, uint64_t body);
  void send_later(uint32_t pe, MailLane lane, const MailFrame& frame, MutableBytes body);
  enum class Way : bool { in, out };
  // Elements between the staged bytes and this GPU's memory, `stride` of them apart there.
  struct Row {
    MutableBytes staged;
    uint64_t at;
    uint32_t width_log2 = 0;
    uint64_t stride = 1;
  };
  bool copy(const Row& row, Way way);
  bool copy_by_engines(const Row& row, Way way);
  bool copy_by_kernel(const Row& row, Way way);
  Status wait_for_kernels(uint64_t copies);
  std::optional<uint64_t> await(const Awaited& what);
  Awaited* awaited(uint64_t tag);
  void forget(Awaited& what);
  void lose(uint32_t pe);
  Status finish_turn();
  void run(const Later& later);

  const ProxyOptions options_;
  AskedQueue& queue_;
  ProxyDevice& device_;
  DeviceMail& mail_;
  std::vector<Stretch> open_;  // ascending, and none touches the next
  std::vector<Peer> peers_;
  std::vector<Awaited> awaited_;
  std::vector<uint32_t> free_;  // of awaited_
  // Of a turn.
  std::vector<Later> later_;
  uint64_t staged_ = 0;
  bool has_copied_ = false;
  uint64_t kernels_copy_ = 0;  // as many were posted when the last copy was
  Status failed_;              // of the device
  uint32_t first_ = 0;         // the PE that is served first: each in its turn
  ProxyStats stats_;
};

}  // namespace penstock::symm
