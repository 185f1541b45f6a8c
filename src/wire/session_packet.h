// One session message as the bytes of a datagram.
#pragma once

#include "session.pb.h"

#include <algorithm>
#include <optional>
#include <string>

#include "penstock/wire.h"

namespace penstock::wire {

template <class Message>
Result<std::string> serialise(const Message& message) {
  if (message.ByteSizeLong() > kSessionMessageMax) return Code::too_large;
  return message.SerializeAsString();
}

template <class Message>
bool parse(Bytes bytes, Message& message) {
  return bytes.size() <= kSessionMessageMax &&
         message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

// Bytes of a fixed length: ids.
template <size_t kLength>
std::string text_of(const std::array<uint8_t, kLength>& id) {
  return {id.begin(), id.end()};
}
template <size_t kLength>
bool take_id(const std::string& from, std::array<uint8_t, kLength>* id) {
  if (from.size() != kLength) return false;
  std::copy(from.begin(), from.end(), id->begin());
  return true;
}

// These travel both ways.
inline void put_time(const Time& m, proto::Time& out) {
  out.set_seconds(m.seconds);
  out.set_nanoseconds(m.nanoseconds);
}
inline Time take_time(const proto::Time& from) {
  return {from.seconds(), from.nanoseconds()};
}
inline void put_handle(const DeviceHandle& m, proto::DeviceHandle& out) {
  out.set_bytes(m.bytes);
  out.set_size(m.size);
  out.set_gpu(text_of(m.gpu));
  out.set_descriptor(m.descriptor);
}
// Nothing when it is outside the limits.
inline std::optional<DeviceHandle> take_handle(const proto::DeviceHandle& from) {
  DeviceHandle m{from.bytes(), from.size(), {}, from.descriptor()};
  const bool good = !m.bytes.empty() && m.bytes.size() <= kDeviceHandleBytesMax && m.size > 0 &&
                    m.size <= kRegionBytesMax && take_id(from.gpu(), &m.gpu);
  if (!good) return std::nullopt;
  return m;
}

}  // namespace penstock::wire
