// What nodes are limited to, and the keys by which capabilities are signed (decision 0066).
#include "stepper.h"

namespace penstock::controller {

// Why nodes with those roles cannot be limited so; empty: they can.
std::string Stepper::fault_in(const rights::Restriction& what, uint8_t roles) const {
  if (!rights::is_good(what)) return "the users or the path cannot be";
  constexpr uint8_t kFreeThemselves = kRoleController | kRoleMeta | kRoleAdmin;
  if (what.is_nothing() || (roles & kFreeThemselves) == 0) return {};
  return "a node with the roles " + engine::roles_text(roles & kFreeThemselves) +
         " cannot be restricted: it could free itself";
}

void Stepper::restrict_node(const Node& node, const rights::Restriction& what) {
  const auto found = state_.restrictions.find(node.id);
  const bool is_known = found != state_.restrictions.end();
  if (is_known ? found->second.what == what : what.is_nothing()) return;
  state_.restrictions[node.id] = {node.id, what, {}};
  actions_.changes.restrictions.push_back(node.id);
  const std::string text = rights::text_of(what);
  notice(name_of(node) +
         (text.empty() ? ": is not restricted any more" : ": is restricted to " + text));
}

void Stepper::on(const Restrict& restrict) {
  if (!state_.has(restrict.node) || state_.at(restrict.node).standing == Standing::removed) {
    return refuse(Code::not_found, "restrict: there is no such node");
  }
  const Node& node = state_.at(restrict.node);
  if (const std::string fault = fault_in(restrict.what, node.facts.roles); !fault.empty()) {
    return refuse(Code::invalid_argument, "restrict " + name_of(node) + ": " + fault);
  }
  restrict_node(node, restrict.what);
}

// Whoever asks twice gets the same number.
void Stepper::on(const PublishKey& publish) {
  if (publish.key == PublicKey()) return refuse(Code::invalid_argument, "key: it is none");
  for (const auto& [id, known] : state_.signing_keys) {
    if (known.key == publish.key) return actions_.published_keys.push_back({id});
  }
  auto& keys = state_.signing_keys;
  const SigningKeyId id(keys.empty() ? 1 : keys.rbegin()->first.value + 1);
  while (keys.size() >= limits::kSigningKeysMax) {
    actions_.changes.signing_keys.push_back(keys.begin()->first);
    keys.erase(keys.begin());
  }
  keys[id] = {id, publish.key, {}};
  actions_.changes.signing_keys.push_back(id);
  actions_.published_keys.push_back({id});
}

}  // namespace penstock::controller
