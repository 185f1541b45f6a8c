// The bytes of an update on its way, shared by all that still use them: the store, the call to the
// successor, what is pending. Written once, by whoever made it, before it is shared.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "penstock/base.h"
#include "penstock/chain/buffers.h"

namespace penstock::chain {

class Payload {
 public:
  Payload() = default;
  // Its bytes may be anything at first: whoever makes it fills it, mostly from a socket. `held`, if
  // any, accounts for its memory, and is let go of with the last of its users.
  Payload(Buffers& buffers, size_t length, std::shared_ptr<void> held = nullptr)
      : length_(length), held_(std::move(held)), bytes_(buffers.take(length)) {}

  size_t size() const { return length_; }
  bool empty() const { return length_ == 0; }
  std::byte* data() const { return bytes_.get(); }

  // One after the other; a single one is shared.
  static Payload joined(Buffers& buffers, std::span<const Payload> parts) {
    if (parts.size() == 1) return parts[0];
    size_t length = 0;
    for (const Payload& part : parts) length += part.size();
    Payload all(buffers, length);
    size_t at = 0;
    for (const Payload& part : parts) {
      if (!part.empty()) std::memcpy(all.data() + at, part.data(), part.size());
      at += part.size();
    }
    ASSERT(at == length);
    return all;
  }

 private:
  size_t length_ = 0;
  std::shared_ptr<void> held_;
  Buffers::Buffer bytes_;
};

}  // namespace penstock::chain
