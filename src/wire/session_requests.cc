#include "many_files.h"
#include "session_packet.h"

#include "penstock/wire.h"

namespace penstock::wire {
namespace {

// ---- out: one function a message, chosen by the variant ----

void put(std::monostate, proto::Request&) {}
void put(const Hello& m, proto::Request& out) {
  out.mutable_hello()->set_version(m.version);
}
void put(const RegisterRegion& m, proto::Request& out) {
  auto& to = *out.mutable_register_region();
  to.set_region(m.region);
  to.set_offset(m.offset);
  to.set_size(m.size);
  to.set_link(m.link);
  to.set_path(m.path);
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
  if (m.accessed) put_time(*m.accessed, *to.mutable_accessed());
  if (m.modified) put_time(*m.modified, *to.mutable_modified());
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
void put(const PublishDevice& m, proto::Request& out) {
  auto& to = *out.mutable_publish_device();
  to.set_id(text_of(m.id));
  put_handle(m.handle, *to.mutable_handle());
}
void put(const WithdrawDevice& m, proto::Request& out) {
  out.mutable_withdraw_device()->set_id(text_of(m.id));
}
void put(const OpenDevice& m, proto::Request& out) {
  out.mutable_open_device()->set_id(text_of(m.id));
}

// ---- in ----

std::optional<RequestBody> take_ring_body(const proto::Request& in) {
  using B = proto::Request;
  switch (in.body_case()) {
    case B::kHello:
      return Hello{in.hello().version()};
    case B::kRegisterRegion:
      return RegisterRegion{in.register_region().region(), in.register_region().offset(),
                            in.register_region().size(), in.register_region().link(),
                            in.register_region().path()};
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
  if (from.has_accessed()) m.accessed = take_time(from.accessed());
  if (from.has_modified()) m.modified = take_time(from.modified());
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

template <class Message>
std::optional<RequestBody> take_id_of(const std::string& from) {
  Message m;
  if (!take_id(from, &m.id)) return std::nullopt;
  return m;
}

std::optional<RequestBody> take_device_body(const proto::Request& in) {
  using B = proto::Request;
  switch (in.body_case()) {
    case B::kPublishDevice: {
      PublishDevice m;
      std::optional<DeviceHandle> handle = take_handle(in.publish_device().handle());
      if (!handle || !take_id(in.publish_device().id(), &m.id)) return std::nullopt;
      m.handle = std::move(*handle);
      return m;
    }
    case B::kWithdrawDevice:
      return take_id_of<WithdrawDevice>(in.withdraw_device().id());
    case B::kOpenDevice:
      return take_id_of<OpenDevice>(in.open_device().id());
    default:
      return std::nullopt;
  }
}

// Whether what a message names is within the limits, one function for those that have any.
struct Good {
  bool operator()(const auto&) const { return true; }
  bool operator()(const RegisterRegion& m) const {
    return m.region < kRegionsMax && m.size > 0 && m.size <= kRegionBytesMax &&
           m.offset <= INT64_MAX - m.size && m.link.empty() == m.path.empty() &&
           m.link.size() <= limits::kNameBytesMax && m.path.size() <= 2 * limits::kNameBytesMax;
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
  bool operator()(const ChangeAttributes& m) const {
    constexpr Time kNone;
    return (!m.mode || *m.mode <= 07777) && is_good(m.accessed.value_or(kNone)) &&
           is_good(m.modified.value_or(kNone));
  }
  static bool is_good(const Time& time) { return time.nanoseconds < 1'000'000'000; }
  bool operator()(const MakeDirectory& m) const { return m.mode <= 07777; }
  bool operator()(const ReadFiles& m) const { return is_within_limits(m); }
  bool operator()(const CreateFiles& m) const { return is_within_limits(m); }
  bool operator()(const LookAtFiles& m) const { return is_within_limits(m); }
};

}  // namespace

size_t descriptors_of(const RequestBody& body) {
  if (std::holds_alternative<CreateRing>(body)) return 2;
  if (const auto* m = std::get_if<PublishDevice>(&body)) return m->handle.descriptor ? 1 : 0;
  const bool one = std::holds_alternative<RegisterRegion>(body) ||
                   std::holds_alternative<OpenDescriptor>(body) ||
                   std::holds_alternative<KeepTouchLog>(body);
  return one ? 1 : 0;
}

Result<std::string> encode(const Request& request) {
  proto::Request out;
  out.set_id(request.id);
  std::visit([&out](const auto& message) { put(message, out); }, request.body);
  return serialise(out);
}

Result<Request> decode_request(Bytes message) {
  proto::Request in;
  if (!parse(message, in) || in.id() == 0) return Code::bad_message;
  std::optional<RequestBody> body = take_ring_body(in);
  if (!body) body = take_file_body(in);
  if (!body) body = take_path_body(in);
  if (!body) body = take_device_body(in);
  if (!body) body = take_many_body(in);
  if (!body || !std::visit(Good{}, *body)) return Code::bad_message;
  return Request{in.id(), std::move(*body)};
}

}  // namespace penstock::wire
