// Makes records of what a connection sends, and bytes of the records that come (decision 0057).
#pragma once

#include "batch.h"
#include "crew.h"
#include "frame_reader.h"

#include <memory>
#include <vector>

#include "penstock/tls.h"

namespace penstock::tcp {

// What a process in the clear hears of one that is not.
inline constexpr std::string_view kOnlyOneInsecure =
    "it speaks TLS, and this process was started with --insecure";
// Whether bytes that should begin a frame begin a handshake of TLS, or an alert.
inline bool begins_like_tls(Bytes bytes) {
  return !bytes.empty() && (bytes[0] == static_cast<std::byte>(tls::Content::handshake) ||
                            bytes[0] == static_cast<std::byte>(tls::Content::alert));
}

// Owner thread only.
class Seal {
 public:
  explicit Seal(const tls::Secured& secured)
      : sealer_(secured.sends, secured.sent), opener_(secured.receives, secured.received) {}

  // From now on the kernel does it on that socket, which nothing of this was received from in
  // part; as KernelTls::take().
  Status hand_over(tls::KernelTls& kernel, int socket, engine::Time now) const {
    ASSERT(kept_ == 0 && !in_record_ && !update_asked_);
    return kernel.take(socket, sealer_, opener_, now);
  }

  // From now on it helps with large payloads, and this thread does `meanwhile` each time that it
  // has begun to. It outlives this; null: nobody helps.
  void share_with(Crew* crew, Crew::Meanwhile meanwhile = {}) {
    crew_ = crew;
    meanwhile_ = std::move(meanwhile);
  }
  bool is_helped() const { return crew_ != nullptr; }

  // The next bytes of the connection, however it was cut. Payload is opened into its place, and
  // told to the reader when its record has proved to be true; all else is opened into memory of its
  // own. corrupt: something has changed the stream; peer_gone: the other side ends it; bad_message:
  // it renews its keys too seldom, or again though it has said nothing with them.
  Status take(Bytes bytes, FrameReader& reader);

  // Records of what is left of the batch, as much as there is room for; returns their length. 0:
  // all has been sealed. New keys, of its own or because the other side has asked for them, come in
  // front of bytes only: so nobody sees two in a row.
  size_t seal(Batch& batch, MutableBytes to);
  // One record of so many bytes, which one may have.
  size_t seal(Bytes bytes, MutableBytes to) {
    return sealer_.seal(tls::Content::bytes, {&bytes, 1}, to);
  }
  // So many bytes of the connection come at least until the payload is whole that is coming; 0:
  // none is, or it has no place.
  size_t expected(const FrameReader& reader) const;
  // How much to receive at a time of what is expected: `most` at most, to the end of a record where
  // these are of the largest size.
  size_t piece(size_t expected, size_t most) const;

 private:
  Status take_run(Bytes& bytes, FrameReader& reader);
  size_t seal_run(Bytes from, MutableBytes to);
  Status take_header(Bytes& bytes);
  void take_content(Bytes& bytes, FrameReader& reader);
  void open(Bytes& bytes, size_t count, MutableBytes to);
  Status take_trailer(Bytes& bytes, FrameReader& reader);
  Status tell(FrameReader& reader);
  Status take_handshake();
  Status take_alert() const;
  Bytes opened() const { return {opened_.get(), opened_bytes_}; }

  tls::Sealer sealer_;
  tls::Opener opener_;
  Crew* crew_ = nullptr;
  Crew::Meanwhile meanwhile_;
  bool update_asked_ = false;  // before the next bytes
  bool updated_ = false;       // by the other side, with nothing since

  // Of the record that is coming: its ends, until they are whole,
  uint32_t kept_ = 0;
  std::array<std::byte, tls::limits::kTrailerBytes> ends_{};
  bool has_type_ = false;  // of the trailer the type is opened already
  // how much content is still to come,
  bool in_record_ = false;
  bool is_long_ = false;
  uint32_t left_ = 0;
  // how much was opened into the payload's place, and what came behind that.
  size_t placed_ = 0;
  uint32_t opened_bytes_ = 0;
  std::unique_ptr<std::byte[]> opened_;
};

// Memory for records that are being sent, or that come, of one loop. Made when it is needed, up to
// a limit, and kept; what was used last is given first, as caches have it.
class SealedPool {
 public:
  using Buffer = std::unique_ptr<std::byte[]>;  // of limits::kSealedBytes

  explicit SealedPool(uint32_t most) : most_(most) {}
  Buffer take();  // null: all are taken
  // One more for who has one already; null: half are taken, and the others are for who has none.
  Buffer take_second();
  void give_back(Buffer buffer);

 private:
  const uint32_t most_;
  std::vector<Buffer> free_;
  uint32_t taken_ = 0;
};

}  // namespace penstock::tcp
