// FarPair: a queue pair beside the connection to a PE of another node. From one frame on it carries
// the stream's bytes, and large puts and gets go around the stream (decision 0080).
#pragma once

#include "far_card.h"

#include <unordered_map>
#include <unordered_set>

namespace penstock::symm {

// A large put or get, in pieces. It begins when the peer has applied and answered what was asked
// for before.
struct FarOp {
  bool is_put = false;
  bool is_posted = false;    // all of it
  bool is_released = false;  // its answer has been told
  FarPlace place;            // of what is left
  std::byte* local = nullptr;
  uint64_t left = 0;
  uint64_t after = 0;        // of the stream's puts
  uint64_t after_asked = 0;  // and questions
  uint64_t sent_until = 0;   // of the stream: pieces that go as frames, from where they are
  uint32_t works = 0;
  uint32_t lent_works = 0;
  FarAnswer frames;             // of pieces that come as frames
  FarAnswer* answer = nullptr;  // null: nobody waits for it alone
};

// One thread at a time, that of its card and stream; both outlive it.
class FarPair {
 public:
  FarPair(FarCard& card, FarStream& stream, uint32_t pe);
  ~FarPair();
  FarPair(const FarPair&) = delete;
  FarPair& operator=(const FarPair&) = delete;

  // Makes the queue pair, and says where it is; or that there will be none.
  void begin();
  // What the stream has heard. bad_message: the peer is none, only end() may follow.
  Status hear_all();
  // What has come by messages, as far as it may be taken yet. The same.
  Status take_in();
  // Does what can be done now: sends, and begins puts and gets.
  void pump();
  bool wants_pump() const;

  // Whether it will be used is known; and whether puts and gets go by it.
  bool is_decided() const { return has_moved() || lack_ != FarLack::none || is_over_; }
  bool has_moved() const { return moved_at_ != UINT64_MAX; }
  bool has_moved_in() const { return has_moved_in_; }
  FarLack lack() const { return lack_; }  // why not
  bool is_lack_of_peer() const { return is_lack_of_peer_; }
  // The stream's bytes before it go by the connection.
  uint64_t moved_at() const { return moved_at_; }

  // Asks, where has_moved(). A put's answer comes when `source` may change; null of a get: done()
  // is waited for.
  void put(FarPlace dest, Bytes source, FarAnswer* answer);
  void get(FarPlace source, MutableBytes dest, FarAnswer* answer);
  // Puts and gets, counted in their order.
  uint64_t started() const { return started_; }
  uint64_t done() const { return done_; }

  bool is_idle() const { return in_flight_ == 0 && ops_.empty(); }
  // Something is to be looked at in time: look().
  bool has_times() const { return in_flight_ != 0 || !is_decided(); }
  void look(engine::Time now);
  // The queue pair is: only end() may follow.
  bool is_broken() const { return is_broken_; }
  Status why() const { return why_; }
  // From its return on nothing that the peer does touches memory here, and nothing is under way.
  // What waits ends with `status`. The stream has ended before.
  void end(Status status);

 private:
  friend class FarCard;
  struct Key {
    bool is_known = false;
    bool is_refused = false;
    uint64_t address = 0;
    uint32_t place = 0;
    uint32_t fetch = 0;
  };
  struct Held {
    uint32_t slot;
    uint32_t length;
  };
  static uint64_t key_number(uint8_t segment, uint64_t part) {
    return (uint64_t{segment} << 32) | part;
  }

  // By the card.
  void arrived(uint32_t slot, uint32_t length);
  void completed(const FarWork& work, Status status);
  void break_by(Status why);

  // How it comes to be used.
  Status hear(const FarHeard& heard);
  Status hear_offer(const FarHeard& heard);
  void say(FarCardWord word, FarLack lack = FarLack::none);
  void refuse(FarLack lack);
  void try_out();
  void move_if_agreed();
  void close();

  // Messages.
  Status take_message(const Held& held);
  Status take_header(const Held& held, FarMessage* header);
  bool post_message(FarMessage::Kind kind, uint32_t slot, uint32_t bytes);
  void send_messages();
  void return_credit();
  uint32_t credits() const { return limits::kFarCredits - (sent_ - taken_there_); }

  // Windows.
  Status hear_wanted(const FarFrame& frame);
  Status hear_window(const FarFrame& frame);
  void show_windows();
  bool show(uint8_t segment, uint32_t part);
  std::optional<uint32_t> bind(MutableBytes bytes, verbs::MemoryId memory, engine::Access access);
  const Key* key_of(FarPlace place, uint64_t left);

  // Puts and gets.
  FarOp& start(FarPlace place, std::byte* local, uint64_t bytes, FarAnswer* answer);
  void post_ops();
  bool post(FarOp& op);
  uint64_t by_card(FarOp& op, const Key& key, uint64_t most);
  uint64_t by_frames(FarOp& op, uint64_t most);
  void release_if_done(FarOp& op);
  void settle();

  FarCard& card_;
  FarStream& stream_;
  const uint32_t pe_;
  std::optional<verbs::QueuePairId> id_;

  FarLack lack_ = FarLack::none;
  bool is_lack_of_peer_ = false;
  bool is_connected_ = false;
  bool is_peer_ready_ = false;
  bool is_trying_ = false;
  bool has_passed_ = false;
  bool has_peer_passed_ = false;
  bool has_moved_in_ = false;
  bool is_broken_ = false;
  bool is_over_ = false;
  bool was_late_ = false;
  Status why_;
  uint64_t moved_at_ = UINT64_MAX;
  engine::Time begun_{};
  engine::Time since_{};  // that nothing has completed, where something is under way

  uint32_t sent_ = 0;         // messages with credit
  uint32_t taken_there_ = 0;  // of these, by the peer
  uint32_t arrived_ = 0;
  uint32_t taken_ = 0;
  uint32_t told_ = 0;  // that so many were taken
  uint32_t sends_ = 0;
  uint32_t credit_sends_ = 0;
  uint32_t binds_ = 0;
  uint32_t pieces_ = 0;
  uint64_t piece_bytes_ = 0;
  uint32_t in_flight_ = 0;  // all of these
  std::deque<Held> held_;

  std::vector<verbs::WindowId> windows_;
  std::unordered_set<uint64_t> shown_;
  std::deque<FarFrame> wanted_;
  std::unordered_map<uint64_t, Key> keys_;
  uint32_t keys_awaited_ = 0;

  std::deque<FarOp> ops_;
  size_t posted_ops_ = 0;  // the first of them
  uint64_t started_ = 0;
  uint64_t done_ = 0;
};

}  // namespace penstock::symm
