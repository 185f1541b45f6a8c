// One connection: its queue pair, the work requests that are under way on it, and the credits of
// both sides. What the messages mean is the derived side's.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "penstock/verbs/message.h"

namespace penstock::verbs::internal {

class LoopNet;

// What a work request was for.
struct Work {
  enum class Kind : uint8_t { free, message, bind, close, piece };
  Kind kind = Kind::free;
  engine::Op* owner = nullptr;  // of a close: the call; of a piece: the transfer
  uint32_t detail = 0;          // of a close: which exposure; of a piece: its bytes
};

// Owner thread of the loop only. Ends are asked for with doom(), and carried out by the net when no
// function of the link is under way.
class Link : public ListNode {
 public:
  Link(LoopNet& net, uint32_t id, NodeId other);
  virtual ~Link();

  Result<Offer> open(uint32_t calls);
  Status join(const Offer& theirs);

  uint32_t id() const { return id_; }
  QueuePairId pair() const { return pair_; }
  NodeId other() const { return other_; }
  bool joined() const { return joined_; }
  engine::Time joined_at() const { return joined_at_; }
  bool doomed() const { return doomed_; }
  bool over() const { return over_; }
  // False: something outside still leads here.
  virtual bool may_go() const { return true; }
  const std::string& trouble() const { return trouble_; }
  Status end_status() const { return end_; }

  void on_message(Bytes bytes);
  void on_completion(uint32_t index, Status status);
  // Posts what there is to post, as far as there is room for it.
  void pump();
  void look(engine::Time now);
  // The connection is to end.
  void doom(Status status, std::string_view why);
  // Ends it: nothing of it touches memory afterwards, and all that waited for it has ended.
  void end();

 protected:
  // Checked and counted; doom() for what makes no sense.
  virtual void handle(const Message& message) = 0;
  virtual void fill() = 0;
  virtual void on_work(const Work& work) = 0;
  // The queue pair has been broken: windows go.
  virtual void on_broken() = 0;
  // Nothing is under way any more.
  virtual void on_end(Status status) = 0;

  bool can_post(uint32_t requests) const { return free_count_ >= requests; }
  bool can_send(uint32_t other_requests = 0) const;
  // While can_send().
  void send(Message message);
  // While can_post(1). `request` needs no id.
  void post(WorkRequest request, const Work& work);
  // There is something for fill().
  void mark();
  uint32_t their_calls() const { return theirs_.calls; }

  LoopNet& net_;

 private:
  uint32_t take_work(const Work& work);
  Status count(const Header& header);
  MutableBytes buffer(uint32_t index) const;

  const uint32_t id_;
  const NodeId other_;
  QueuePairId pair_;
  bool opened_ = false;
  bool joined_ = false;
  engine::Time joined_at_{};
  bool doomed_ = false;
  bool over_ = false;
  Status end_ = Code::peer_gone;
  std::string trouble_;
  Offer theirs_;

  std::array<Work, limits::kWorkMax> work_;
  std::array<uint8_t, limits::kWorkMax> free_;
  uint32_t free_count_ = limits::kWorkMax;
  std::unique_ptr<std::byte[]> buffers_;  // a message for each work request
  MemoryId buffers_memory_;

  // Messages that used a credit: sent, of these taken by the other side as it said; taken here, of
  // these told. They wrap around.
  uint32_t sent_ = 0;
  uint32_t sent_taken_ = 0;
  uint32_t taken_ = 0;
  uint32_t told_ = 0;
  engine::Time heard_{};
  bool pinged_ = false;  // since something was heard
  bool ping_ = false;
  bool pong_ = false;
};
static_assert(limits::kWorkMax <= 256, "an index is a byte");

}  // namespace penstock::verbs::internal
