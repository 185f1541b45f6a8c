#include "many_files.h"
#include "session_packet.h"

#include "penstock/wire.h"

namespace penstock::wire {
namespace {

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
  put_attributes(m, *out.mutable_attributes());
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
void put(const DeviceHandle& m, proto::Reply& out) {
  put_handle(m, *out.mutable_device_handle());
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

// Nothing when the body is outside the limits.
std::optional<ReplyBody> take_body(const proto::Reply& in) {
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
    case proto::Reply::kDeviceHandle:
      return take_handle(in.device_handle());
    case proto::Reply::kFilesRead:
      return take_files(in.files_read());
    case proto::Reply::kFilesCreated:
      return take_files(in.files_created());
    case proto::Reply::kFilesSeen:
      return take_files(in.files_seen());
    case proto::Reply::BODY_NOT_SET:
      break;
  }
  return std::monostate{};
}

}  // namespace

size_t descriptors_of(const ReplyBody& body) {
  if (const auto* m = std::get_if<DeviceHandle>(&body)) return m->descriptor ? 1 : 0;
  return std::holds_alternative<Mapping>(body) ? 1 : 0;
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

Result<Reply> decode_reply(Bytes message) {
  proto::Reply in;
  if (!parse(message, in) || in.id() == 0 || in.code() > UINT16_MAX) return Code::bad_message;
  Reply reply;
  reply.id = in.id();
  reply.status = Status(static_cast<Code>(in.code()), in.detail());
  reply.text = in.text();
  std::optional<ReplyBody> body = take_body(in);
  if (!body) return Code::bad_message;
  reply.body = std::move(*body);
  return reply;
}

}  // namespace penstock::wire
