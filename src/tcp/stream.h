// One connected socket: receives its bytes for a side, and sends that side's batches.
#pragma once

#include "seal.h"
#include "side.h"
#include "socket_ring.h"

#include <optional>
#include <string>

#include "penstock/tcp/net.h"

namespace penstock::tcp {

class Stream;

// What the streams of one loop share.
struct Sockets {
  Sockets(engine::Loop& owner, const Patience& limits, tls::KernelTls* tls_of_kernel, Crew* helpers)
      : loop(owner), patience(limits), kernel_tls(tls_of_kernel), crew(helpers) {}

  engine::Loop& loop;
  const Patience patience;
  tls::KernelTls* const kernel_tls;  // null: records are made and opened here
  Crew* const crew;                  // null: by the loop alone
  BatchPool batches;
  SealedPool sealed{limits::kSealedMax};
  SealedPool opened{limits::kOpenedMax};
  SocketRing ring;
  IntrusiveList<Stream> to_flush;  // with something to send, or waiting for a batch
  IntrusiveList<Stream> others;
};

// Owner thread only. At most one receive and one send are under way. Its side has ended, and
// nothing is under way, before it is destroyed.
class Stream final : public Pipe, public SocketUser, public ListNode {
 public:
  explicit Stream(Sockets& sockets) : sockets_(sockets) {}
  ~Stream();

  // Once, before anything else. `name` is for messages. What nobody uses for `idle` may go.
  void start(Side& side, std::string name, engine::Duration idle);
  // Once, when it is connected; with what seals it, where that is done here.
  void attach(UniqueFd socket, std::unique_ptr<Seal> seal = nullptr);
  // Sends what is to be sent; false when there is no batch to be had.
  bool flush();
  // It takes nothing more, and ends soon.
  bool failed() const { return failed_; }
  // Why it has failed, for people, where that is known.
  const std::string& why() const { return why_; }
  // What the kernel knows of it. Nothing: it is not connected.
  std::optional<ConnectionFacts> facts() const;
  // Looks whether the other side is still there.
  void look();
  // Its keys, which the kernel has and does not renew, are soon used up: another connection should
  // follow it.
  bool is_worn() const { return worn_; }
  enum class Sealed : uint8_t { no, here, by_kernel };
  Sealed sealed() const {
    return by_kernel_ ? Sealed::by_kernel : seal_ != nullptr ? Sealed::here : Sealed::no;
  }

  void send_soon() override;
  Batch* batch() override;
  void fail(Status status, std::string_view why) override;
  void finish() override;
  bool divert() override;
  bool release(engine::Op& owner) override;

  void on_completion(uint32_t what, int result, uint32_t flags) override;

 private:
  enum What : uint32_t { kStaged, kPlaced, kRecords, kSent };

  void let_kernel_seal();
  void receive();
  void on_staged(int result, uint32_t flags);
  void on_placed(int result);
  void on_records(int result);
  bool receive_records();
  void receive_ahead(size_t came);
  void receive_piece(size_t expected, size_t bytes);
  void on_send_end(int result);
  void end_flight();
  void give_back_sealed();
  void send_rest();
  void seal_ahead();
  bool advance(size_t sent);
  void take(Bytes bytes);
  void lost(int error);
  std::string_view why_lost(int error) const;
  void end_if_quiet();
  void look_at_silence();
  void look_at_sending();

  Sockets& sockets_;
  UniqueFd socket_;
  Side* side_ = nullptr;
  std::optional<FrameReader> reader_;
  std::unique_ptr<Seal> seal_;  // null: bytes travel as they are, or the kernel seals them
  bool by_kernel_ = false;
  bool worn_ = false;
  std::string name_;
  engine::Duration idle_{};

  bool receiving_ = false;
  What into_ = kStaged;     // what it fills: staging memory, a payload's place or records
  bool diverting_ = false;  // it is to end, as the place is touched no more
  bool large_ = false;      // the last payload was large: so may be the next
  uint32_t asked_ = 0;      // bytes that the receive under way may bring
  size_t behind_ = 0;       // what comes of the same payload behind these records, at least
  bool sending_ = false;
  Batch* filling_ = nullptr;
  Batch* flying_ = nullptr;
  SealedPool::Buffer opening_;  // records of the payload that is coming
  SealedPool::Buffer records_;  // of the batch that is being sent
  size_t records_sent_ = 0;     // of so many bytes
  size_t records_bytes_ = 0;
  SealedPool::Buffer ahead_;  // records that are sent next
  size_t ahead_bytes_ = 0;    // 0: none are sealed yet
  iovec records_piece_{};
  msghdr records_message_{};
  std::vector<engine::Op*> releasing_;
  bool failed_ = false;
  bool finishing_ = false;  // to end when all is sent
  bool goodbye_ = false;    // said
  bool over_ = false;
  bool began_ = false;  // something has come
  Status status_ = Code::peer_gone;
  std::string why_;

  engine::Time heard_;     // when something came
  engine::Time asked_at_;  // when it was last asked whether it is there
  engine::Time used_;      // when somebody waited for something
  engine::Time progress_;  // of what is sent
  uint64_t acknowledged_ = 0;
};

}  // namespace penstock::tcp
