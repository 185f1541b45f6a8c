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
inline void put_attributes(const Attributes& m, proto::Attributes& to) {
  to.set_inode(m.inode);
  to.set_type(m.type);
  to.set_mode(m.mode);
  to.set_uid(m.uid);
  to.set_gid(m.gid);
  to.set_links(m.links);
  to.set_length(m.length);
  to.set_device(m.device);
  put_time(m.accessed, *to.mutable_accessed());
  put_time(m.modified, *to.mutable_modified());
  put_time(m.changed, *to.mutable_changed());
  put_time(m.created, *to.mutable_created());
  to.set_allocated(m.allocated);
  to.set_chunk_bytes(m.chunk_bytes);
}
inline Attributes take_attributes(const proto::Attributes& from) {
  Attributes m;
  m.inode = from.inode();
  m.type = from.type();
  m.mode = from.mode();
  m.uid = from.uid();
  m.gid = from.gid();
  m.links = from.links();
  m.length = from.length();
  m.device = from.device();
  m.accessed = take_time(from.accessed());
  m.modified = take_time(from.modified());
  m.changed = take_time(from.changed());
  m.created = take_time(from.created());
  m.allocated = from.allocated();
  m.chunk_bytes = from.chunk_bytes();
  return m;
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
