#include "many_files.h"

#include "session_packet.h"

#include <algorithm>

namespace penstock::wire {
namespace {

bool is_good_count(size_t count, size_t most = kFilesAtOnceMax) {
  return count > 0 && count <= most;
}

bool is_good_place(uint64_t length, uint32_t region) {
  if (region == kNoRegion) return length == 0;
  return length <= limits::kIoBytesMax && region < kRegionsMax;
}

bool is_good_time(const std::optional<Time>& time) {
  return !time || time->nanoseconds < 1'000'000'000;
}

// Nothing when it is no status.
template <class Message>
std::optional<Status> take_status(const Message& from) {
  if (from.code() > UINT16_MAX) return std::nullopt;
  return Status(static_cast<Code>(from.code()), from.detail());
}

template <class Message>
void put_status(Status status, Message& out) {
  out.set_code(static_cast<uint32_t>(status.code()));
  out.set_detail(status.detail());
}

ReadFiles take(const proto::ReadFiles& from) {
  ReadFiles m;
  m.files.reserve(std::min<size_t>(static_cast<size_t>(from.files_size()), kFilesAtOnceMax + 1));
  for (const proto::FileToRead& file : from.files()) {
    if (m.files.size() > kFilesAtOnceMax) break;  // is_within_limits() refuses it
    m.files.push_back({file.path(), file.offset(), file.length(), file.region(),
                       file.region_offset(), file.unless_cached()});
  }
  return m;
}

CreateFiles take(const proto::CreateFiles& from) {
  CreateFiles m;
  m.files.reserve(std::min<size_t>(static_cast<size_t>(from.files_size()), kFilesAtOnceMax + 1));
  for (const proto::NewFile& file : from.files()) {
    if (m.files.size() > kFilesAtOnceMax) break;
    NewFile& to = m.files.emplace_back();
    to.path = file.path();
    to.mode = file.mode();
    to.length = file.length();
    to.region = file.region();
    to.region_offset = file.region_offset();
    if (file.has_uid()) to.uid = file.uid();
    if (file.has_gid()) to.gid = file.gid();
    if (file.has_accessed()) to.accessed = take_time(file.accessed());
    if (file.has_modified()) to.modified = take_time(file.modified());
    to.replace = file.replace();
  }
  return m;
}

LookAtFiles take(const proto::LookAtFiles& from) {
  LookAtFiles m;
  m.paths.reserve(std::min<size_t>(static_cast<size_t>(from.paths_size()), kLooksAtOnceMax + 1));
  for (const std::string& path : from.paths()) {
    if (m.paths.size() > kLooksAtOnceMax) break;
    m.paths.push_back(path);
  }
  return m;
}

}  // namespace

void put(const ReadFiles& m, proto::Request& out) {
  auto& files = *out.mutable_read_files();
  for (const FileToRead& file : m.files) {
    auto& to = *files.add_files();
    to.set_path(file.path);
    to.set_offset(file.offset);
    to.set_length(file.length);
    to.set_region(file.region);
    to.set_region_offset(file.region_offset);
    to.set_unless_cached(file.unless_cached);
  }
}

void put(const CreateFiles& m, proto::Request& out) {
  auto& files = *out.mutable_create_files();
  for (const NewFile& file : m.files) {
    auto& to = *files.add_files();
    to.set_path(file.path);
    to.set_mode(file.mode);
    to.set_length(file.length);
    to.set_region(file.region);
    to.set_region_offset(file.region_offset);
    if (file.uid) to.set_uid(*file.uid);
    if (file.gid) to.set_gid(*file.gid);
    if (file.accessed) put_time(*file.accessed, *to.mutable_accessed());
    if (file.modified) put_time(*file.modified, *to.mutable_modified());
    to.set_replace(file.replace);
  }
}

void put(const LookAtFiles& m, proto::Request& out) {
  auto& files = *out.mutable_look_at_files();
  for (const std::string& path : m.paths) files.add_paths(path);
}

void put(const FilesRead& m, proto::Reply& out) {
  auto& files = *out.mutable_files_read();
  for (const FileRead& file : m.files) {
    auto& to = *files.add_files();
    put_status(file.status, to);
    to.set_inode(file.inode);
    to.set_size(file.size);
    to.set_bytes(file.bytes);
    to.set_cached(file.cached);
  }
}

void put(const FilesCreated& m, proto::Reply& out) {
  auto& files = *out.mutable_files_created();
  for (const Status status : m.files) put_status(status, *files.add_files());
}

void put(const FilesSeen& m, proto::Reply& out) {
  auto& files = *out.mutable_files_seen();
  for (const FileSeen& file : m.files) {
    auto& to = *files.add_files();
    put_status(file.status, to);
    if (file.status.ok()) put_attributes(file.attributes, *to.mutable_attributes());
  }
}

std::optional<RequestBody> take_many_body(const proto::Request& in) {
  switch (in.body_case()) {
    case proto::Request::kReadFiles:
      return take(in.read_files());
    case proto::Request::kCreateFiles:
      return take(in.create_files());
    case proto::Request::kLookAtFiles:
      return take(in.look_at_files());
    default:
      return std::nullopt;
  }
}

bool is_within_limits(const ReadFiles& m) {
  return is_good_count(m.files.size()) &&
         std::all_of(m.files.begin(), m.files.end(), [](const FileToRead& file) {
           return is_good_place(file.length, file.region) &&
                  range_within(file.offset, file.length, limits::kFileBytesMax);
         });
}

bool is_within_limits(const CreateFiles& m) {
  return is_good_count(m.files.size()) &&
         std::all_of(m.files.begin(), m.files.end(), [](const NewFile& file) {
           return is_good_place(file.length, file.region) && file.mode <= 07777 &&
                  is_good_time(file.accessed) && is_good_time(file.modified);
         });
}

bool is_within_limits(const LookAtFiles& m) {
  return is_good_count(m.paths.size(), kLooksAtOnceMax);
}

std::optional<ReplyBody> take_files(const proto::FilesRead& from) {
  if (!is_good_count(static_cast<size_t>(from.files_size()))) return std::nullopt;
  FilesRead m;
  m.files.reserve(static_cast<size_t>(from.files_size()));
  for (const proto::FileRead& file : from.files()) {
    const std::optional<Status> status = take_status(file);
    if (!status) return std::nullopt;
    m.files.push_back({*status, file.inode(), file.size(), file.bytes(), file.cached()});
  }
  return m;
}

std::optional<ReplyBody> take_files(const proto::FilesCreated& from) {
  if (!is_good_count(static_cast<size_t>(from.files_size()))) return std::nullopt;
  FilesCreated m;
  m.files.reserve(static_cast<size_t>(from.files_size()));
  for (const proto::FileCreated& file : from.files()) {
    const std::optional<Status> status = take_status(file);
    if (!status) return std::nullopt;
    m.files.push_back(*status);
  }
  return m;
}

std::optional<ReplyBody> take_files(const proto::FilesSeen& from) {
  if (!is_good_count(static_cast<size_t>(from.files_size()), kLooksAtOnceMax)) return std::nullopt;
  FilesSeen m;
  m.files.reserve(static_cast<size_t>(from.files_size()));
  for (const proto::FileSeen& file : from.files()) {
    const std::optional<Status> status = take_status(file);
    if (!status) return std::nullopt;
    m.files.push_back({*status, take_attributes(file.attributes())});
  }
  return m;
}

}  // namespace penstock::wire
