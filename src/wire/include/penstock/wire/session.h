// Session messages: what an application's library asks of an agent over its UNIX socket
// (SOCK_SEQPACKET; one message a datagram, one reply a request, in any order). Bulk data never goes
// this way. Format: docs/formats/session.md.
#pragma once

#include <string>
#include <string_view>

#include "penstock/base.h"
#include "penstock/wire/session_limits.h"
#include "penstock/wire/session_replies.h"
#include "penstock/wire/session_requests.h"
#include "penstock/wire/session_version.h"

namespace penstock::wire {

// Descriptors that must come with this request, or this reply: exactly so many.
size_t descriptors_of(const RequestBody& body);
size_t descriptors_of(const ReplyBody& body);

// too_large when the message would not fit a datagram.
Result<std::string> encode(const Request& request);
Result<std::string> encode(const Reply& reply);

// Foreign input: bad_message for anything but one well-formed message whose ids, flags and sizes
// are within the limits above. Paths and names are bounded by the size of the message only: what
// they mean is for the file system to judge.
Result<Request> decode_request(Bytes message);
Result<Reply> decode_reply(Bytes message);

// Bytes that an entry takes in a Page, at most; for filling one.
constexpr size_t page_bytes_of(const Entry& entry) {
  return entry.name.size() + element_bytes_around<Entry>();
}
inline constexpr size_t kPageBytesMax = kSessionMessageMax - 256;

// The same for many files: with the longest path a request has room for one.
constexpr size_t request_bytes_of(const FileToRead& file) {
  return file.path.size() + element_bytes_around<FileToRead>();
}
constexpr size_t request_bytes_of(const NewFile& file) {
  return file.path.size() + element_bytes_around<NewFile>();
}
// Of a path in LookAtFiles.
constexpr size_t request_bytes_of(std::string_view path) {
  return path.size() + 1 + kLengthBytesMax;
}
inline constexpr size_t kFilesBytesMax = kSessionMessageMax - 256;
static_assert(kFilesAtOnceMax * element_bytes_around<FileRead>() <= kFilesBytesMax);
static_assert(kFilesAtOnceMax * (1 + kVarintBytesMax) <= kFilesBytesMax, "a Status each");
static_assert(kLooksAtOnceMax * element_bytes_around<FileSeen>() <= kFilesBytesMax);

}  // namespace penstock::wire
