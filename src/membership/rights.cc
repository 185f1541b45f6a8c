// Who may ask the controller what.
#include "keeper_thread.h"

#include <cstring>

namespace penstock::membership {

using controller::Refused;
using engine::kRoleAdmin;
using engine::kRoleController;
using engine::kRoleMeta;
using engine::kRoleStorage;

namespace {

template <class... Kinds>
bool is_one_of(const Request& request) {
  return (std::holds_alternative<Kinds>(request) || ...);
}

// What a node says of itself: the step looks at the sender.
bool is_of_sender(const Request& request) {
  return is_one_of<controller::OpenTarget, controller::Heartbeat, controller::Leave>(request);
}
// What only the controller's own process passes on: who could say it elsewhere could free itself.
bool is_of_tokens(const Request& request) {
  return is_one_of<controller::MakeToken, controller::RevokeToken, AskTokens, controller::Restrict>(
      request);
}
bool is_order(const Request& request) {
  return is_one_of<controller::TablePlan, controller::Move, controller::Drain, controller::Remove,
                   controller::Forget, controller::Trust, controller::DrainTarget,
                   controller::Fence, controller::PublishKey>(request);
}

// Of itself, and of its own targets, a node may say that they are to go: it has them in its hands.
bool is_of_own(const Request& request, const controller::State& state, NodeId node) {
  const auto has = [&](TargetId target) {
    return state.has(target) && state.at(target).node == node;
  };
  if (const auto* drain = std::get_if<controller::Drain>(&request)) return drain->node == node;
  if (const auto* drain = std::get_if<controller::DrainTarget>(&request)) {
    return has(drain->target);
  }
  const auto* forget = std::get_if<controller::Forget>(&request);
  return forget != nullptr && has(forget->target);
}

// A node that has proven who it is says which directory's it is.
bool is_own_directory(const controller::Join& join, const controller::State& state, NodeId node) {
  return state.has(node) && state.at(node).uuid == join.node;
}

// A certificate of a key that the node had once.
bool has_other_key(const engine::Peer& peer, const controller::State& state) {
  if (!state.has(peer.node) || peer.key == engine::Peer().key) return false;
  const controller::KeyPrint& known = state.at(peer.node).key;
  return known != controller::KeyPrint() &&
         std::memcmp(known.bytes.data(), peer.key.data(), sizeof known.bytes) != 0;
}

}  // namespace

std::optional<Refused> why_not(const KeeperJob& job, const controller::State& state, NodeId home,
                               bool proves) {
  const Request& request = job.request;
  const NodeId from = job.from.node;
  if (job.is_at_home) return std::nullopt;
  if (has_other_key(job.from, state)) {
    return Refused{Code::access_denied,
                   "node " + std::to_string(from.value) +
                       " has another key now than the one of this certificate"};
  }
  if (is_one_of<AskToEnroll, AskCertificate>(request)) {
    if (proves) return std::nullopt;
    return Refused{Code::not_supported,
                   "join: this cluster was begun with --insecure: nobody has a certificate (join "
                   "with --insecure, if that is what you want)"};
  }
  if (const auto* join = std::get_if<controller::Join>(&request)) {
    if (!proves || is_own_directory(*join, state, from)) return std::nullopt;
    return Refused{Code::access_denied,
                   "join: prove who this is, by a token ('penstock token create' on the first "
                   "node) or a certificate"};
  }
  if (is_of_sender(request)) {
    const bool is_storage = (job.from.roles & kRoleStorage) != 0;
    if (is_storage || !is_one_of<controller::OpenTarget>(request)) return std::nullopt;
    return Refused{Code::not_permitted, "open: a node without the role storage has no targets"};
  }
  if (!state.has(from)) {
    return Refused{Code::access_denied, "only nodes of the cluster may ask this; join it first"};
  }
  if (state.at(from).standing == controller::Standing::removed) {
    return Refused{Code::not_permitted, "the node that asks was removed from the cluster"};
  }
  if (is_one_of<AskAuthorities>(request) && !proves) {
    return Refused{Code::not_supported, "this cluster was begun with --insecure: it has none"};
  }
  if (from == home) return std::nullopt;
  if (is_of_tokens(request)) {
    return Refused{Code::not_permitted,
                   "tokens are made, shown and revoked, and nodes restricted, on the node with the "
                   "controller, node " +
                       std::to_string(home.value)};
  }
  uint8_t may = kRoleAdmin | kRoleController;
  if (is_one_of<controller::TablePlan>(request)) may |= kRoleMeta;
  // Sessions are ended, and capabilities signed, by who has the names, not by persons.
  if (is_one_of<controller::Fence, controller::PublishKey>(request)) {
    may = kRoleMeta | kRoleController;
  }
  const bool is_free = !is_order(request) || is_of_own(request, state, from);
  if (is_free || (job.from.roles & may) != 0) return std::nullopt;
  return Refused{Code::not_permitted, "orders are given on node " + std::to_string(home.value) +
                                          ", or on one that has the role admin; node " +
                                          std::to_string(from.value) + " has not"};
}

}  // namespace penstock::membership
