// FarStream: one PE's side of the connection to a PE of another node, without the connection. It
// takes the bytes that come and gives those that go.
#pragma once

#include "far_frame.h"
#include "limits.h"

#include <deque>
#include <memory>
#include <sys/uio.h>
#include <vector>

namespace penstock::symm {

// This process's own memory, by segment; empty: there is none.
using FarSegments = std::array<MutableBytes, kSegments>;

// A card frame, window_wanted or window, as it came.
struct FarHeard {
  FarFrame frame;
  std::array<std::byte, limits::kFarOfferBytes> offer{};
};

// One thread at a time. What comes from the peer is checked: it reaches nothing but the segments
// and what was asked for. Answers belong to who waits for them; end() ends all.
class FarStream {
 public:
  explicit FarStream(const FarSegments& segments);
  FarStream(const FarStream&) = delete;
  FarStream& operator=(const FarStream&) = delete;

  // Requests. Places are the peer's, and were checked.
  void put(FarPlace dest, Bytes source);
  // Sent from where they are: they stay until sent() has reached queued() as it is afterwards.
  void put_lent(FarPlace dest, Bytes source);
  // `packed`: the elements one after the other, at most limits::kFarRowBytes.
  void put_row(FarPlace dest, const FarRow& row, Bytes packed);
  void change(FarPlace word, const Change& change);
  // Not counted among them: no flush asks for it.
  void tell(FarPlace word, const Change& change);
  // These are answered, and there may be limits::kFarAsked at once: see may_ask().
  void get(FarPlace source, MutableBytes dest, FarAnswer* answer);
  void get_row(FarPlace source, const FarRow& row, MutableBytes packed, FarAnswer* answer);
  void change(FarPlace word, const Change& change, FarAnswer* answer);
  // The same, where a flush is waited for instead: counted among puts. What was there is written to
  // `dest`, of the word's width, when it has come.
  void get_later(FarPlace source, MutableBytes dest);
  void change_later(FarPlace word, const Change& change, void* dest);
  bool may_ask() const { return asked_.size() < limits::kFarAsked; }
  size_t asked() const { return asked_.size(); }
  // So far, and of these answered.
  uint64_t questions() const { return answers_ + asked_.size(); }
  uint64_t answers() const { return answers_; }
  // Nothing is sent after it.
  void say_bye();
  // What is not of memory but of cards; `after` follows the frame.
  void say(const FarFrame& frame, Bytes after = {});
  std::optional<FarHeard> hear();

  // Puts and changes without answers are numbered. Asks the peer to say when it has applied all up
  // to now, unless that was asked; needs may_ask().
  void flush();
  bool wants_flush() const { return flush_asked_ < puts_; }
  bool has_asked_for(uint64_t number) const { return flush_asked_ >= number; }
  uint64_t puts() const { return puts_; }
  uint64_t applied() const { return applied_; }
  // Of these the last that went as a frame; and one more, that a card has written.
  uint64_t framed() const { return framed_; }
  void note_written() { ++puts_; }

  // Bytes to send, at most `room` pieces; 0: none.
  uint32_t unsent(iovec* pieces, uint32_t room) const;
  void sent(uint64_t bytes);
  uint64_t queued() const { return queued_; }
  uint64_t sent() const { return sent_; }
  bool has_unsent() const { return sent_ != queued_; }

  // Where bytes that come are to be put, one or two pieces; and that so many have come, in that
  // order. bad_message: the peer is none; only end() may follow.
  uint32_t room(iovec* pieces);
  Status received(uint64_t bytes);
  bool has_said_bye() const { return has_said_bye_; }

  // The connection is over: answers end with `status`, what was not sent is dropped.
  void end(Status status);

 private:
  struct Piece {
    const std::byte* lent;  // null: the next of small_
    uint64_t bytes;
  };
  struct Asked {
    FarKind answer;
    MutableBytes dest;
    uint64_t number;    // of a flush
    FarAnswer* waiter;  // null: of a flush, or nobody waits for it alone
  };

  void queue(const FarFrame& frame);
  void queue_copy(Bytes bytes);
  void queue_lent(Bytes bytes);
  std::byte* checked(const FarFrame& frame, uint64_t bytes) const;
  Status take_all();
  // Bytes of staging that the next frame takes now; 0: more of it must come.
  Result<uint64_t> take(const FarFrame& frame, Bytes after);
  Result<uint64_t> take_payload(std::byte* to, uint64_t length, Bytes after);
  Status serve_get(const FarFrame& frame);
  Status serve_row(const FarFrame& frame);
  Status scatter(const FarFrame& frame, Bytes packed);
  Status serve_change(const FarFrame& frame);
  Status take_answer(const FarFrame& frame);
  Result<uint64_t> take_word(const FarFrame& frame, Bytes after);
  void answered();

  const FarSegments segments_;

  std::vector<std::byte> small_;
  uint64_t small_head_ = 0;
  std::deque<Piece> pieces_;
  uint64_t queued_ = 0;
  uint64_t sent_ = 0;

  std::deque<Asked> asked_;
  uint64_t answers_ = 0;
  uint64_t puts_ = 0;
  uint64_t framed_ = 0;
  uint64_t flush_asked_ = 0;
  uint64_t applied_ = 0;

  std::vector<std::byte> staging_;
  uint64_t staged_begin_ = 0;
  uint64_t staged_end_ = 0;
  MutableBytes direct_;            // the rest of a payload that is on its way
  bool is_direct_answer_ = false;  // of what was asked for
  std::deque<FarHeard> heard_;
  uint32_t heard_words_ = 0;  // of cards: a bit for each
  bool has_said_bye_ = false;
  bool is_silent_ = false;  // bye was said, or the connection is over
  bool is_over_ = false;
};

}  // namespace penstock::symm
