// Certificates and tokens, as the keeper's thread answers for them (decision 0057).
#include "keeper_thread.h"

namespace penstock::membership {

namespace {

// A piece's tokens, without those that let in hundreds.
constexpr size_t kTokensOfPiece = 16;
constexpr size_t kKeysOfPiece = 2 * controller::limits::kTokenUsesMax;
constexpr size_t kRestrictionBytesMax =
    16 + 16 * rights::limits::kRangesMax + rights::limits::kSubtreeBytesMax;
static_assert(kTokensOfPiece * (64 + kRestrictionBytesMax) +
                      kKeysOfPiece * sizeof(controller::KeyPrint) <
                  wire::kMembershipBytesMax,
              "a piece fits an answer");

}  // namespace

// The key of whoever asks for a certificate; none, and the job is refused, where a clock is wrong,
// which is told before anything else fails for it, or where the request proves no key.
std::optional<controller::KeyPrint> KeeperThread::key_of(KeeperJob& job, const std::string& request,
                                                         engine::WallTime asker) {
  constexpr int64_t kApart = std::chrono::nanoseconds(limits::kClocksApartMax).count();
  const engine::WallTime here = config_.clock->wall();
  if (asker.nanoseconds < here.nanoseconds - kApart ||
      asker.nanoseconds > here.nanoseconds + kApart) {
    refuse(job, Code::invalid_argument,
           "join: the clocks differ: at the controller it is " + engine::text_of(here) +
               ", at this node " + engine::text_of(asker) +
               "; certificates and leases count on time (set the clock, by chrony or ntp)");
    return std::nullopt;
  }
  auto key = signer_->key_of(request);
  if (key) return *key;
  refuse(job, Code::invalid_argument, "join: " + key.error().message);
  return std::nullopt;
}

void KeeperThread::answer_enroll(KeeperJob& job, const AskToEnroll& ask) {
  const auto key = key_of(job, ask.request, ask.at);
  if (!key) return;
  const controller::Enroll enroll{.join = ask.join,
                                  .token = signer_->hash_of(ask.secret),
                                  .key = *key,
                                  .at = config_.clock->wall()};
  answer_event(job, enroll);
}

void KeeperThread::answer_certificate(KeeperJob& job, const AskCertificate& ask) {
  const auto key = key_of(job, ask.request, ask.at);
  if (!key) return;
  const controller::Node* const node = controller::find_node(keeper_.state(), ask.node);
  if (node == nullptr || node->key != *key) {
    return refuse(job, Code::access_denied,
                  "certificate: the cluster knows this node by another key, or not at all; join "
                  "with a token ('penstock token create --node N' on the first node)");
  }
  if (node->standing == controller::Standing::removed) {
    return refuse(job, Code::not_permitted,
                  "certificate: node " + std::to_string(node->id.value) +
                      " was removed; let it join with a new directory");
  }
  sign(job, ask.request, node->id);
}

// Into the answer: papers, or beside the admission that is there.
void KeeperThread::sign(KeeperJob& job, const std::string& request, NodeId node) {
  auto papers = signer_->sign(request, node, keeper_.state().at(node).facts.roles);
  if (!papers) return refuse(job, papers.error().status.code(), papers.error().message);
  if (const auto* admitted = std::get_if<Admitted>(&job.answer)) {
    job.answer = Enrolled{*admitted, std::move(*papers)};
  } else {
    job.answer = std::move(*papers);
  }
  end(job);
}

void KeeperThread::answer_tokens(KeeperJob& job, const AskTokens& ask) {
  TokensPiece piece;
  size_t keys = 0;
  const auto& tokens = keeper_.state().tokens;
  for (auto next = tokens.lower_bound(ask.from); next != tokens.end(); ++next) {
    keys += next->second.used_by.size();
    piece.last = piece.tokens.size() < kTokensOfPiece && keys <= kKeysOfPiece;
    if (!piece.last) break;
    piece.tokens.push_back(next->second);
    piece.tokens.back().hash = {};
  }
  job.answer = std::move(piece);
  end(job);
}

std::vector<MemberSeen> KeeperThread::members() const {
  std::vector<MemberSeen> members;
  for (const controller::Node& node : keeper_.state().nodes) {
    if (node.standing == controller::Standing::removed) continue;
    // The controller's own process is there, whatever its lease is.
    members.push_back({node.id, node.seen.silent && node.id != home_});
  }
  return members;
}

// False: not all of them, and some may be there after all.
bool KeeperThread::revoke_tokens_before(engine::WallTime time) {
  std::vector<controller::TokenId> old;
  for (const auto& [id, token] : keeper_.state().tokens) {
    if (token.made < time) old.push_back(id);
  }
  for (const controller::TokenId id : old) {
    if (!keeper_.leads() || !step(controller::RevokeToken{id})) return false;
  }
  return true;
}

// Tokens of the authority before end first: a controller that dies in between does it again.
void KeeperThread::answer_authorities(KeeperJob& job, const AskAuthorities& ask) {
  signer_->hear(job.from.node, ask, members());
  if (const auto time = signer_->tokens_end()) {
    if (!revoke_tokens_before(*time)) {
      return refuse(job, Code::not_serving, "authorities: it could not be committed; ask again");
    }
    signer_->finish();
  }
  job.answer = signer_->authorities();
  end(job);
}

}  // namespace penstock::membership
