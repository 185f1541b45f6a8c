#include "messages.h"

#include "fields.h"

#include <array>
#include <utility>

namespace penstock::meta_net {
namespace {

template <class... Calls>
constexpr bool are_in_order(const std::variant<Calls...>*) {
  const std::array<uint8_t, sizeof...(Calls)> kinds = {Calls::kKind...};
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] != i) return false;
  }
  return true;
}
static_assert(are_in_order(static_cast<const Request*>(nullptr)));

constexpr size_t kCalls = std::variant_size_v<Request>;

// One for each kind.
template <size_t... kKinds>
constexpr auto readers_of(std::index_sequence<kKinds...>) {
  using Read = void (*)(In&, Request&);
  return std::array<Read, sizeof...(kKinds)>{[](In& in, Request& request) {
    auto& call = request.emplace<kKinds>();
    std::variant_alternative_t<kKinds, Request>::fields(in, call);
  }...};
}

}  // namespace

bool changes(const Request& request) {
  return std::visit([](const auto& call) { return call.kChanges; }, request);
}

bool needs_hold(const Request& request) {
  return std::holds_alternative<ask::SetAttributes>(request) ||
         std::holds_alternative<ask::SetXattr>(request) ||
         std::holds_alternative<ask::RemoveXattr>(request) ||
         std::holds_alternative<ask::DropPrivileges>(request) ||
         std::holds_alternative<ask::BeginWrite>(request) ||
         std::holds_alternative<ask::Settle>(request) ||
         std::holds_alternative<ask::EndWrite>(request);
}

bool may_come_early(const Request& request) {
  return needs_hold(request) || std::holds_alternative<ask::Look>(request) ||
         std::holds_alternative<ask::GetAttributes>(request) ||
         std::holds_alternative<ask::Reserve>(request) ||
         std::holds_alternative<ask::NewestCookie>(request) ||
         std::holds_alternative<ask::Sync>(request);
}

bool waits_for_others(const Request& request) {
  return std::holds_alternative<ask::SetLayout>(request) ||
         std::holds_alternative<ask::Create>(request) ||
         std::holds_alternative<ask::MakeDirectory>(request) ||
         std::holds_alternative<ask::MakeNode>(request) ||
         std::holds_alternative<ask::MakeSymlink>(request) ||
         std::holds_alternative<ask::Link>(request) ||
         std::holds_alternative<ask::CreateFiles>(request) ||
         std::holds_alternative<ask::Unlink>(request) ||
         std::holds_alternative<ask::RemoveDirectory>(request) ||
         std::holds_alternative<ask::Rename>(request) ||
         std::holds_alternative<ask::SetQuota>(request) ||
         std::holds_alternative<ask::CheckQuota>(request) ||
         std::holds_alternative<ask::EmptyTrash>(request);
}

bool is_shown(const Request& request) {
  // Numbers are given for good, and times of access are best effort.
  const bool is_slight = std::holds_alternative<ask::UnusedId>(request) ||
                         std::holds_alternative<ask::PlaceFiles>(request) ||
                         std::holds_alternative<ask::RecordAccessed>(request);
  return changes(request) && !is_slight;
}

std::string encode(const Request& request) {
  constexpr size_t kUsualBytes = 128;
  meta::Writer writer(kUsualBytes);
  Out out(writer);
  std::visit(
      [&](const auto& call) {
        writer.byte(call.kKind);
        call.fields(out, call);
      },
      request);
  return writer.take();
}

Result<Request> decode_request(std::string_view bytes) {
  static constexpr auto kReaders = readers_of(std::make_index_sequence<kCalls>());
  meta::Reader reader(bytes);
  const uint8_t kind = reader.byte();
  if (kind >= kCalls) return Code::bad_message;
  Request request;
  In in(reader);
  kReaders[kind](in, request);
  if (!reader.finished()) return Code::bad_message;
  return request;
}

}  // namespace penstock::meta_net
