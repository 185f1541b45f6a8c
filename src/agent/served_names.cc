#include "served_names.h"

#include <fmt/format.h>

namespace penstock::agent {

namespace {

// What a call to an own chain is for; none: for no file, or it cannot be understood.
std::optional<std::pair<InodeId, meta_net::NodeRights::Right>> use_of(
    const engine::IncomingCall& call) {
  using Right = meta_net::NodeRights::Right;
  const auto request = wire::decode_chunk_request(call.method, call.request);
  if (!request) return std::nullopt;
  switch (static_cast<wire::ChunkMethod>(call.method)) {
    case wire::ChunkMethod::read:
    case wire::ChunkMethod::probe:
    case wire::ChunkMethod::end_query:
      return std::pair(InodeId(request->inode), Right::read);
    case wire::ChunkMethod::write:
    case wire::ChunkMethod::clear:
    case wire::ChunkMethod::remove:
      return std::pair(InodeId(request->inode), Right::write);
    case wire::ChunkMethod::inodes:
    case wire::ChunkMethod::sync:
      break;
  }
  return std::nullopt;
}

}  // namespace

void OwnChain::on_call(engine::IncomingCall& call) {
  const engine::Peer peer = call.peer();
  if (peer.node == self_) return own_.on_call(call);
  if ((peer.roles & engine::kRoleAgent) == 0) return call.reply(Code::access_denied, {});
  if (!may_ask_(peer.node)) return call.reply(Code::stale, {});
  if (rights_ != nullptr && rights_->limits(peer.node)) {
    const bool is_sync = call.method == static_cast<uint16_t>(wire::ChunkMethod::sync);
    const auto use = use_of(call);
    using Right = meta_net::NodeRights::Right;
    // Who may write reads what is around it.
    const bool may =
        use && (rights_->has(peer.node, use->first, use->second) ||
                (use->second == Right::read && rights_->has(peer.node, use->first, Right::write)));
    if (!may && !is_sync) return call.reply(Code::access_denied, {});
  }
  others_->on_call(call);
}

Outcome<std::unique_ptr<ServedNames>> ServedNames::start(const Config& config) {
  ASSERT(config.loop != nullptr && config.net != nullptr && config.meta != nullptr);
  ASSERT(config.self != NodeId());
  const Result<InodeId> first = config.meta->unused_id();
  if (!first) {
    return Failure{first.error(), fmt::format("the names cannot be served to other nodes: {}",
                                              first.error().name())};
  }
  std::unique_ptr<ServedNames> names(new ServedNames(config));
  meta_net::MetaServiceConfig service;
  service.loop = config.loop;
  service.net = config.net;
  service.address = {config.self, wire::kMetaService};
  service.meta = config.meta;
  service.durable_answers = true;
  service.least_new = *first;
  service.own_chains = config.own_chains;
  service.guard = config.guard;
  service.has_session = config.has_session;
  service.rights = config.rights;
  service.may_serve = config.may_serve;
  service.sign = config.sign;
  service.judged = config.judged;
  service.is_signed = config.is_signed;
  // No name changes before there is a file system.
  const std::atomic<client::FileSystem*>& files = names->files_;
  service.is_early = [&files] { return files.load(std::memory_order_acquire) == nullptr; };
  service.orphaned = [&files](InodeId inode) { files.load()->orphaned_elsewhere(inode); };
  service.named = [&files](InodeId inode) { files.load()->named_elsewhere(inode); };
  (void)engine::thread_caller().call(*config.loop, [&](engine::Op& done) {
    names->service_ = meta_net::MetaService::make(service);
    names->service_->start();
    config.loop->complete(done, Code::ok);
  });
  return names;
}

void ServedNames::stop() {
  if (service_ == nullptr) return;
  (void)engine::thread_caller().call(*config_.loop,
                                     [&](engine::Op& done) { service_->stop(done); });
  service_.reset();
}

}  // namespace penstock::agent
