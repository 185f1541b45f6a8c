// Nodes that prove who they are: the tokens that let them in, and their keys (decision 0057).
#include "stepper.h"

#include <algorithm>

namespace penstock::controller {
namespace {

bool has_let_in(const Token& token, const KeyPrint& key) {
  return std::find(token.used_by.begin(), token.used_by.end(), key) != token.used_by.end();
}

constexpr const char* kMakeOne = "; make another by 'penstock token create'";

}  // namespace

// Null, and refused, unless there is a token that lets this node in.
Token* Stepper::token_for(const Enroll& enroll) {
  const auto refused = [this](const std::string& why) {
    refuse(Code::access_denied, "join: " + why);
    return nullptr;
  };
  const auto found =
      std::find_if(state_.tokens.begin(), state_.tokens.end(),
                   [&](const auto& entry) { return entry.second.hash == enroll.token; });
  if (found == state_.tokens.end()) {
    return refused(std::string("the cluster does not know the token, or no more") + kMakeOne);
  }
  Token& token = found->second;
  if (enroll.at >= token.ends) {
    return refused("the token has ended at " + text_of(token.ends) + ", and here it is " +
                   text_of(enroll.at) + kMakeOne);
  }
  const uint8_t roles = enroll.join.facts.roles;
  if ((roles & ~token.roles) != 0) {
    return refused("the token is for the roles " + engine::roles_text(token.roles) +
                   ", and not for " +
                   engine::roles_text(static_cast<uint8_t>(roles & ~token.roles & kRoles)) +
                   "; make another by 'penstock token create --roles'");
  }
  if (token.used_by.size() >= token.uses && !has_let_in(token, enroll.key)) {
    return refused(std::string("the token was used already") + kMakeOne);
  }
  const Node* const known = find_node(state_, enroll.join.node);
  const NodeId number = known != nullptr ? known->id : NodeId();
  if (token.node != NodeId() && token.node != number) {
    return refused("the token is for node " + std::to_string(token.node.value) + kMakeOne);
  }
  const bool has_other_key =
      known != nullptr && known->key != enroll.key && token.node != known->id;
  if (has_other_key) {
    return refused(name_of(*known) +
                   " is known by another key, or by none; if that is lost, make a token by "
                   "'penstock token create --node " +
                   std::to_string(known->id.value) + "'");
  }
  return &token;
}

void Stepper::on(const Enroll& enroll) {
  drop_tokens(enroll.at);
  Token* const token = token_for(enroll);
  if (token == nullptr) return;
  const size_t admissions = actions_.admissions.size();
  admit(enroll.join);
  if (actions_.admissions.size() == admissions) return;  // refused, and nothing is used up
  Node& node = state_.at(actions_.admissions.back().node);
  if (node.key != enroll.key) {
    node.key = enroll.key;
    actions_.changes.keys.push_back(node.id);
  }
  // A token without one frees nobody.
  if (!token->restriction.is_nothing()) restrict_node(node, token->restriction);
  if (has_let_in(*token, enroll.key)) return;
  token->used_by.push_back(enroll.key);
  actions_.changes.tokens.push_back(token->id);
  notice(name_of(node) + ": let in by token " + std::to_string(token->id.value) +
         " with the roles " + engine::roles_text(node.facts.roles));
}

std::string Stepper::fault_in(const MakeToken& make) const {
  const bool has_roles = make.roles != 0 && (make.roles & ~kRoles) == 0;
  if (!has_roles || (make.roles & kRoleController) != 0) {
    return "it is for some of meta, storage, agent and admin";
  }
  if (make.uses == 0 || make.uses > limits::kTokenUsesMax) {
    return "it lets in from 1 to " + std::to_string(limits::kTokenUsesMax) + " nodes";
  }
  if (make.ends <= make.made) return "its end is before its beginning";
  if (const std::string fault = fault_in(make.restriction, make.roles); !fault.empty()) {
    return fault;
  }
  if (state_.tokens.size() >= limits::kTokensMax) {
    return "there are too many; revoke some ('penstock token list', 'penstock token revoke')";
  }
  if (make.node == NodeId()) return {};
  const bool is_there = state_.has(make.node) && state_.at(make.node).standing != Standing::removed;
  return is_there ? "" : "there is no node " + std::to_string(make.node.value);
}

void Stepper::on(const MakeToken& make) {
  drop_tokens(make.made);
  if (const std::string fault = fault_in(make); !fault.empty()) {
    return refuse(Code::invalid_argument, "token: " + fault);
  }
  const uint32_t last = state_.tokens.empty() ? 0 : state_.tokens.rbegin()->first.value;
  const TokenId id(last + 1);
  state_.tokens[id] = {id,        make.hash, make.roles, make.node,       make.uses,
                       make.made, make.ends, {},         make.restriction};
  actions_.changes.tokens.push_back(id);
  actions_.made_tokens.push_back({id});
}

void Stepper::on(const RevokeToken& revoke) {
  if (state_.tokens.erase(revoke.token) == 0) {
    return refuse(Code::not_found, "token: there is no token " +
                                       std::to_string(revoke.token.value) +
                                       " ('penstock token list' shows those that there are)");
  }
  actions_.changes.tokens.push_back(revoke.token);
}

// Those that ended some time ago: until then people may look what became of them.
void Stepper::drop_tokens(engine::WallTime now) {
  const int64_t shown = std::chrono::nanoseconds(limits::kTokenShown).count();
  std::erase_if(state_.tokens, [&](const auto& entry) {
    if (now.nanoseconds - shown < entry.second.ends.nanoseconds) return false;
    actions_.changes.tokens.push_back(entry.first);
    return true;
  });
}

}  // namespace penstock::controller
