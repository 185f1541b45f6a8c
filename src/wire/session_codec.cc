#include "session.pb.h"

#include <cstring>

#include "penstock/wire.h"

namespace penstock::wire {
namespace {

// ---- requests out: one function a message, chosen by the variant ----

void put(std::monostate, proto::Request&) {}
void put(const Hello& m, proto::Request& out) {
  out.mutable_hello()->set_version(m.version);
}
void put(const RegisterRegion& m, proto::Request& out) {
  auto& to = *out.mutable_register_region();
  to.set_region(m.region);
  to.set_offset(m.offset);
  to.set_size(m.size);
}
void put(const AttachRegion& m, proto::Request& out) {
  auto& to = *out.mutable_attach_region();
  to.set_region(m.region);
  to.set_name(m.name);
}
void put(const ReleaseRegion& m, proto::Request& out) {
  out.mutable_release_region()->set_region(m.region);
}
void put(const CreateRing& m, proto::Request& out) {
  auto& to = *out.mutable_create_ring();
  to.set_ring(m.ring);
  to.set_size(m.size);
}
void put(const DestroyRing& m, proto::Request& out) {
  out.mutable_destroy_ring()->set_ring(m.ring);
}
void put(const CancelOperation& m, proto::Request& out) {
  auto& to = *out.mutable_cancel_operation();
  to.set_ring(m.ring);
  to.set_lane(m.lane);
  to.set_slot(m.slot);
  to.set_sequence(m.sequence);
}
void put(const OpenPath& m, proto::Request& out) {
  auto& to = *out.mutable_open_path();
  to.set_file(m.file);
  to.set_path(m.path);
  to.set_flags(m.flags);
  to.set_mode(m.mode);
}
void put(const OpenDescriptor& m, proto::Request& out) {
  out.mutable_open_descriptor()->set_file(m.file);
}
void put(const Reopen& m, proto::Request& out) {
  auto& to = *out.mutable_reopen();
  to.set_file(m.file);
  to.set_token(m.token);
}
void put(const CloseFile& m, proto::Request& out) {
  out.mutable_close_file()->set_file(m.file);
}
void put(const FileAttributes& m, proto::Request& out) {
  out.mutable_file_attributes()->set_file(m.file);
}
void put(const TruncateFile& m, proto::Request& out) {
  auto& to = *out.mutable_truncate_file();
  to.set_file(m.file);
  to.set_length(m.length);
}
void put(const SyncFile& m, proto::Request& out) {
  out.mutable_sync_file()->set_file(m.file);
}
void put(const PathAttributes& m, proto::Request& out) {
  auto& to = *out.mutable_path_attributes();
  to.set_path(m.path);
  to.set_follow(m.follow);
}
void put(const ChangeAttributes& m, proto::Request& out) {
  auto& to = *out.mutable_change_attributes();
  to.set_path(m.path);
  to.set_follow(m.follow);
  if (m.mode) to.set_mode(*m.mode);
  if (m.uid) to.set_uid(*m.uid);
  if (m.gid) to.set_gid(*m.gid);
  if (m.accessed) to.set_accessed(*m.accessed);
  if (m.modified) to.set_modified(*m.modified);
  to.set_accessed_now(m.accessed_now);
  to.set_modified_now(m.modified_now);
}
void put(const MakeDirectory& m, proto::Request& out) {
  auto& to = *out.mutable_make_directory();
  to.set_path(m.path);
  to.set_mode(m.mode);
}
void put(const Remove& m, proto::Request& out) {
  auto& to = *out.mutable_remove();
  to.set_path(m.path);
  to.set_directory(m.directory);
}
void put(const Rename& m, proto::Request& out) {
  auto& to = *out.mutable_rename();
  to.set_from(m.from);
  to.set_to(m.to);
}
void put(const MakeLink& m, proto::Request& out) {
  auto& to = *out.mutable_make_link();
  to.set_from(m.from);
  to.set_to(m.to);
}
void put(const MakeSymlink& m, proto::Request& out) {
  auto& to = *out.mutable_make_symlink();
  to.set_target(m.target);
  to.set_path(m.path);
}
void put(const ReadSymlink& m, proto::Request& out) {
  out.mutable_read_symlink()->set_path(m.path);
}
void put(const ListDirectory& m, proto::Request& out) {
  auto& to = *out.mutable_list_directory();
  to.set_path(m.path);
  to.set_after(m.after);
}
void put(const SyncAll&, proto::Request& out) {
  out.mutable_sync_all();
}
void put(const MapCache&, proto::Request& out) {
  out.mutable_map_cache();
}
void put(const MapSlab& m, proto::Request& out) {
  out.mutable_map_slab()->set_slab(m.slab);
}
void put(const KeepTouchLog&, proto::Request& out) {
  out.mutable_keep_touch_log();
}

// ---- requests in ----

std::optional<RequestBody> take_ring_body(const proto::Request& in) {
  using B = proto::Request;
  switch (in.body_case()) {
    case B::kHello:
      return Hello{in.hello().version()};
    case B::kRegisterRegion:
      return RegisterRegion{in.register_region().region(), in.register_region().offset(),
                            in.register_region().size()};
    case B::kAttachRegion:
      return AttachRegion{in.attach_region().region(), in.attach_region().name()};
    case B::kReleaseRegion:
      return ReleaseRegion{in.release_region().region()};
    case B::kCreateRing:
      return CreateRing{in.create_ring().ring(), in.create_ring().size()};
    case B::kDestroyRing:
      return DestroyRing{in.destroy_ring().ring()};
    case B::kCancelOperation: {
      const auto& from = in.cancel_operation();
      return CancelOperation{from.ring(), from.lane(), from.slot(), from.sequence()};
    }
    case B::kMapCache:
      return MapCache{};
    case B::kMapSlab:
      return MapSlab{in.map_slab().slab()};
    case B::kKeepTouchLog:
      return KeepTouchLog{};
    default:
      return std::nullopt;
  }
}

std::optional<RequestBody> take_file_body(const proto::Request& in) {
  using B = proto::Request;
  switch (in.body_case()) {
    case B::kOpenPath: {
      const auto& from = in.open_path();
      return OpenPath{from.file(), from.path(), from.flags(), from.mode()};
    }
    case B::kOpenDescriptor:
      return OpenDescriptor{in.open_descriptor().file()};
    case B::kReopen:
      return Reopen{in.reopen().file(), in.reopen().token()};
    case B::kCloseFile:
      return CloseFile{in.close_file().file()};
    case B::kFileAttributes:
      return FileAttributes{in.file_attributes().file()};
    case B::kTruncateFile:
      return TruncateFile{in.truncate_file().file(), in.truncate_file().length()};
    case B::kSyncFile:
      return SyncFile{in.sync_file().file()};
    default:
      return std::nullopt;
  }
}

ChangeAttributes take_changes(const proto::ChangeAttributes& from) {
  ChangeAttributes m;
  m.path = from.path();
  m.follow = from.follow();
  if (from.has_mode()) m.mode = from.mode();
  if (from.has_uid()) m.uid = from.uid();
  if (from.has_gid()) m.gid = from.gid();
  if (from.has_accessed()) m.accessed = from.accessed();
  if (from.has_modified()) m.modified = from.modified();
  m.accessed_now = from.accessed_now();
  m.modified_now = from.modified_now();
  return m;
}

std::optional<RequestBody> take_path_body(const proto::Request& in) {
  using B = proto::Request;
  switch (in.body_case()) {
    case B::kPathAttributes:
      return PathAttributes{in.path_attributes().path(), in.path_attributes().follow()};
    case B::kChangeAttributes:
      return take_changes(in.change_attributes());
    case B::kMakeDirectory:
      return MakeDirectory{in.make_directory().path(), in.make_directory().mode()};
    case B::kRemove:
      return Remove{in.remove().path(), in.remove().directory()};
    case B::kRename:
      return Rename{in.rename().from(), in.rename().to()};
    case B::kMakeLink:
      return MakeLink{in.make_link().from(), in.make_link().to()};
    case B::kMakeSymlink:
      return MakeSymlink{in.make_symlink().target(), in.make_symlink().path()};
    case B::kReadSymlink:
      return ReadSymlink{in.read_symlink().path()};
    case B::kListDirectory:
      return ListDirectory{in.list_directory().path(), in.list_directory().after()};
    case B::kSyncAll:
      return SyncAll{};
    default:
      return std::nullopt;
  }
}

// Whether what a message names is within the limits, one function for those that have any.
struct Good {
  bool operator()(const auto&) const { return true; }
  bool operator()(const RegisterRegion& m) const {
    return m.region < kRegionsMax && m.size > 0 && m.size <= kRegionBytesMax &&
           m.offset <= INT64_MAX - m.size;
  }
  bool operator()(const AttachRegion& m) const {
    return m.region < kRegionsMax && !m.name.empty() && m.name.size() <= limits::kNameBytesMax;
  }
  bool operator()(const ReleaseRegion& m) const { return m.region < kRegionsMax; }
  bool operator()(const CreateRing& m) const { return m.ring < kRingsMax && m.size > 0; }
  bool operator()(const DestroyRing& m) const { return m.ring < kRingsMax; }
  bool operator()(const CancelOperation& m) const { return m.ring < kRingsMax; }
  bool operator()(const OpenPath& m) const {
    return m.file < kFilesMax && (m.flags & ~kOpenFlagsAll) == 0 && m.mode <= 07777;
  }
  bool operator()(const OpenDescriptor& m) const { return m.file < kFilesMax; }
  bool operator()(const Reopen& m) const { return m.file < kFilesMax && m.token.size() <= 256; }
  bool operator()(const CloseFile& m) const { return m.file < kFilesMax; }
  bool operator()(const FileAttributes& m) const { return m.file < kFilesMax; }
  bool operator()(const TruncateFile& m) const { return m.file < kFilesMax; }
  bool operator()(const SyncFile& m) const { return m.file < kFilesMax; }
  bool operator()(const ChangeAttributes& m) const { return !m.mode || *m.mode <= 07777; }
  bool operator()(const MakeDirectory& m) const { return m.mode <= 07777; }
};

// ---- replies ----

void put(std::monostate, proto::Reply&) {}
void put(const Welcome& m, proto::Reply& out) {
  auto& to = *out.mutable_welcome();
  to.set_version(m.version);
  to.set_session(m.session);
}
void put(const Opened& m, proto::Reply& out) {
  auto& to = *out.mutable_opened();
  to.set_inode(m.inode);
  to.set_access(m.access);
  to.set_token(m.token);
}
void put(const Attributes& m, proto::Reply& out) {
  auto& to = *out.mutable_attributes();
  to.set_inode(m.inode);
  to.set_type(m.type);
  to.set_mode(m.mode);
  to.set_uid(m.uid);
  to.set_gid(m.gid);
  to.set_links(m.links);
  to.set_length(m.length);
  to.set_device(m.device);
  to.set_accessed(m.accessed);
  to.set_modified(m.modified);
  to.set_changed(m.changed);
  to.set_chunk_bytes(m.chunk_bytes);
}
void put(const Target& m, proto::Reply& out) {
  out.mutable_target()->set_text(m.text);
}
void put(const Page& m, proto::Reply& out) {
  auto& page = *out.mutable_page();
  page.set_end(m.end);
  for (const Entry& entry : m.entries) {
    auto& to = *page.add_entries();
    to.set_name(entry.name);
    to.set_inode(entry.inode);
    to.set_type(entry.type);
    to.set_cookie(entry.cookie);
  }
}
void put(const Mapping& m, proto::Reply& out) {
  out.mutable_mapping()->set_size(m.size);
}

Attributes take_attributes(const proto::Attributes& from) {
  Attributes m;
  m.inode = from.inode();
  m.type = from.type();
  m.mode = from.mode();
  m.uid = from.uid();
  m.gid = from.gid();
  m.links = from.links();
  m.length = from.length();
  m.device = from.device();
  m.accessed = from.accessed();
  m.modified = from.modified();
  m.changed = from.changed();
  m.chunk_bytes = from.chunk_bytes();
  return m;
}

Page take_page(const proto::Page& from) {
  Page page;
  page.end = from.end();
  page.entries.reserve(static_cast<size_t>(from.entries_size()));
  for (const proto::Entry& entry : from.entries()) {
    page.entries.push_back({entry.name(), entry.inode(), entry.type(), entry.cookie()});
  }
  return page;
}

ReplyBody take_body(const proto::Reply& in) {
  switch (in.body_case()) {
    case proto::Reply::kWelcome:
      return Welcome{in.welcome().version(), in.welcome().session()};
    case proto::Reply::kOpened:
      return Opened{in.opened().inode(), in.opened().access(), in.opened().token()};
    case proto::Reply::kAttributes:
      return take_attributes(in.attributes());
    case proto::Reply::kTarget:
      return Target{in.target().text()};
    case proto::Reply::kPage:
      return take_page(in.page());
    case proto::Reply::kMapping:
      return Mapping{in.mapping().size()};
    case proto::Reply::BODY_NOT_SET:
      break;
  }
  return std::monostate{};
}

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

}  // namespace

size_t descriptors_of(const RequestBody& body) {
  if (std::holds_alternative<CreateRing>(body)) return 2;
  const bool one = std::holds_alternative<RegisterRegion>(body) ||
                   std::holds_alternative<OpenDescriptor>(body) ||
                   std::holds_alternative<KeepTouchLog>(body);
  return one ? 1 : 0;
}

size_t descriptors_of(const ReplyBody& body) {
  return std::holds_alternative<Mapping>(body) ? 1 : 0;
}

Result<std::string> encode(const Request& request) {
  proto::Request out;
  out.set_id(request.id);
  std::visit([&out](const auto& message) { put(message, out); }, request.body);
  return serialise(out);
}

Result<std::string> encode(const Reply& reply) {
  proto::Reply out;
  out.set_id(reply.id);
  out.set_code(static_cast<uint32_t>(reply.status.code()));
  out.set_detail(reply.status.detail());
  out.set_text(reply.text);
  std::visit([&out](const auto& message) { put(message, out); }, reply.body);
  return serialise(out);
}

Result<Request> decode_request(Bytes message) {
  proto::Request in;
  if (!parse(message, in) || in.id() == 0) return Code::bad_message;
  std::optional<RequestBody> body = take_ring_body(in);
  if (!body) body = take_file_body(in);
  if (!body) body = take_path_body(in);
  if (!body || !std::visit(Good{}, *body)) return Code::bad_message;
  return Request{in.id(), std::move(*body)};
}

Result<Reply> decode_reply(Bytes message) {
  proto::Reply in;
  if (!parse(message, in) || in.id() == 0 || in.code() > UINT16_MAX) return Code::bad_message;
  Reply reply;
  reply.id = in.id();
  reply.status = Status(static_cast<Code>(in.code()), in.detail());
  reply.text = in.text();
  reply.body = take_body(in);
  return reply;
}

}  // namespace penstock::wire
