// Records of TLS 1.3 with AES-128-GCM (RFC 8446, 5), sealed from where bytes lie and opened into
// where they belong: one pass over them, which is also their copy. Keys come from a handshake
// (handshake.h).
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "penstock/base.h"
#include "penstock/tls/limits.h"

struct evp_cipher_ctx_st;

namespace penstock::tls {

// What is in a record (RFC 8446, B.1).
enum class Content : uint8_t { alert = 21, handshake = 22, bytes = 23 };

// The secret of one direction (RFC 8446, 7.1), of which keys are made.
class TrafficSecret {
 public:
  static constexpr size_t kBytes = 32;

  TrafficSecret() = default;
  explicit TrafficSecret(std::span<const std::byte, kBytes> bytes);
  ~TrafficSecret();  // leaves nothing in memory
  TrafficSecret(const TrafficSecret&) = default;
  TrafficSecret& operator=(const TrafficSecret&) = default;

  Bytes bytes() const { return bytes_; }
  // Of the keys after these (RFC 8446, 7.2).
  TrafficSecret next() const;

 private:
  std::array<std::byte, kBytes> bytes_{};
};

// The key and the nonces of one direction (RFC 8446, 5.3 and 7.3), for records one after the other.
class RecordKey {
 public:
  enum class Use : uint8_t { seal, open };
  // `sequence`: of the next record, where others have gone with this secret before.
  RecordKey(Use use, const TrafficSecret& secret, uint64_t sequence);
  ~RecordKey();
  RecordKey(const RecordKey&) = delete;
  RecordKey& operator=(const RecordKey&) = delete;

  // Records since the secret is used. The owner renews it at limits::kRecordsOfKey.
  uint64_t records() const { return sequence_; }
  // Goes on with the secret after this one.
  void renew();
  // For who seals or opens in its place (kernel.h), and leaves nothing of it in memory.
  struct Raw {
    std::array<std::byte, 16> key;
    std::array<std::byte, 12> nonce;  // of record 0
  };
  Raw raw() const;

  // Takes the numbers of the next `count` records, and returns the first. Threads may work on these
  // at once, one after the other for each `hand` below `hands`; the owner waits for all of them
  // before it uses the key for anything else.
  uint64_t share(uint32_t hands, uint64_t count);

 protected:
  // What libcrypto keeps for one hand.
  using Context = evp_cipher_ctx_st*;
  Context context(uint32_t hand = 0) const { return contexts_[hand].get(); }
  uint64_t next() { return sequence_++; }
  // That record's nonce and header are taken; its bytes follow.
  void begin(Context context, uint64_t number, Bytes header) const;
  // Of the record, in any parts. `to` may be where `from` is.
  static void pass(Context context, Bytes from, std::byte* to);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  void use_secret();
  void use_key(uint32_t hands);

  const Use use_;
  TrafficSecret secret_;
  std::array<std::byte, 12> nonce_{};
  uint64_t sequence_ = 0;
  std::vector<std::unique_ptr<evp_cipher_ctx_st, Free>> contexts_;  // the first is the owner's
};

// One thread at a time, but for what it says of hands.
class Sealer : public RecordKey {
 public:
  explicit Sealer(const TrafficSecret& secret, uint64_t sequence = 0)
      : RecordKey(Use::seal, secret, sequence) {}

  // One record of all pieces, 1 byte to limits::kContentMax together, into `to`, which has room for
  // limits::kRecordExtraBytes more. Returns its length.
  size_t seal(Content content, std::span<const Bytes> pieces, MutableBytes to) {
    return seal(context(), next(), content, pieces, to);
  }
  // The same of bytes, with a number that was shared.
  void seal_shared(uint32_t hand, uint64_t number, Bytes bytes, MutableBytes to) const {
    (void)seal(context(hand), number, Content::bytes, {&bytes, 1}, to);
  }

 private:
  size_t seal(Context context, uint64_t number, Content content, std::span<const Bytes> pieces,
              MutableBytes to) const;
};

// How many bytes follow a record's header, as it says.
inline uint32_t bytes_behind(std::span<const std::byte, limits::kRecordHeaderBytes> header) {
  return std::to_integer<uint32_t>(header[3]) << 8 | std::to_integer<uint32_t>(header[4]);
}

// One thread at a time, but for what it says of hands. Of a record header, content and trailer are
// given, in that order, the content in parts as they come.
class Opener : public RecordKey {
 public:
  explicit Opener(const TrafficSecret& secret, uint64_t sequence = 0)
      : RecordKey(Use::open, secret, sequence) {}

  // How long the content is of the record with that header; bad_message for what is no record that
  // a Sealer makes.
  static Result<uint32_t> content_behind(
      std::span<const std::byte, limits::kRecordHeaderBytes> header);
  // The same, and the record begins; bad_message also for one that comes after
  // limits::kRecordsOfKeyMax of the same key.
  Result<uint32_t> begin(std::span<const std::byte, limits::kRecordHeaderBytes> header);
  // What is there is not to be believed before the record has ended. `to` may be where `part` is.
  void open(Bytes part, std::byte* to) { pass(context(), part, to); }
  // The last part of the content with the type behind it, where `to` has room for that, too. Spares
  // a call for one byte. Returns the type, which is no more to be believed than the rest.
  std::byte open_with_type(Bytes part_and_type, std::byte* to);
  // corrupt: something has changed the record, or it is not the next one of that sender.
  Result<Content> end(std::span<const std::byte, limits::kTrailerBytes> trailer);
  // The same after open_with_type().
  Result<Content> end(std::byte type, std::span<const std::byte, limits::kTagBytes> tag) {
    return end(context(), type, tag);
  }
  // All of a record that content_behind() has judged, with a number that was shared: as end().
  Result<Content> open_shared(uint32_t hand, uint64_t number, Bytes record, std::byte* to) const;

 private:
  static Result<Content> end(Context context, std::byte type,
                             std::span<const std::byte, limits::kTagBytes> tag);
};

}  // namespace penstock::tls
