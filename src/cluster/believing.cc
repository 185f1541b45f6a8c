// Whom a process believes, while the cluster's authority is followed by another, and the orders for
// that (decision 0057).
#include "participant_impl.h"

#include <algorithm>
#include <fmt/format.h>

namespace penstock::cluster {

using membership::Answer;

namespace {

bool is_same(const std::vector<tls::Certificate>& some,
             const std::vector<tls::Certificate>& others) {
  return std::equal(some.begin(), some.end(), others.begin(), others.end(),
                    [](const auto& one, const auto& other) { return one.pem() == other.pem(); });
}

// The one that has signed the own certificate first; nothing if it is not among them.
std::vector<tls::Certificate> in_order(std::vector<tls::Certificate> told,
                                       const controller::KeyPrint& signed_by) {
  const auto own = std::find_if(told.begin(), told.end(),
                                [&](const auto& one) { return print_of(one) == signed_by; });
  if (own == told.end()) return {};
  std::rotate(told.begin(), own, own + 1);
  return told;
}

}  // namespace

// It comes with a token that names an authority which it does not know: by its certificate it would
// not find its cluster any more.
bool ParticipantImpl::has_token_of_another() const {
  if (!identity_->certificate || !config_.invitation || !config_.invitation->token) return false;
  const auto& known = identity_->authorities;
  return std::none_of(known.begin(), known.end(), [this](const tls::Certificate& one) {
    return one.fingerprint() == config_.invitation->token->authority;
  });
}

Outcome<void> Participant::begin_identity(const std::string& directory, bool again) {
  TRY_ASSIGN(const auto kept, read_kept_node(directory));
  const auto refused = [&](const char* why) {
    return Failure{Code::not_permitted, directory + ": " + why};
  };
  if (!kept) return refused("is of no cluster; a new one proves who its nodes are in any case");
  if (!runs_controller(kept->roles)) return refused("is not the first node of its cluster");
  TRY_ASSIGN(AuthorityFiles files, open_authorities(directory));
  TRY_ASSIGN(const auto identity, read_identity(directory));
  if (!files.root && identity && identity->certificate) files.root = identity->authorities.front();
  const bool has_key = files.own || (files.change && files.change->stage == Stage::signs);
  if (!again && has_key) return refused("has an authority already");
  if (!again && files.root) {
    return refused(
        "the key of its authority is lost: while certificates are good, start it and have another "
        "authority follow ('penstock identity renew'); else begin with --again, after which every "
        "other node has to join with a token that names it");
  }
  if (again && !files.root) return refused("its cluster has no authority: leave out --again");
  if (again && has_key) {
    return refused(
        "has the key of its authority: 'penstock identity renew' has another one follow it while "
        "nodes serve");
  }
  const uint64_t number = files.root ? files.root->serial() + 1 : 1;
  forget_change(directory);
  return keep(directory, tls::Authority::make(bytes_of(kept->cluster), now_on_the_wall(), number));
}

// The first node signs for all, and for itself.
Outcome<void> ParticipantImpl::begin_authority() {
  TRY_ASSIGN(AuthorityFiles files, open_authorities(config_.directory));
  const bool has_certificate = identity_->certificate.has_value();
  const bool is_first_time = !has_certificate && !files.change && (is_new_ || !files.root);
  if (!files.own && is_first_time) {
    files.own = tls::Authority::make(bytes_of(kept_.cluster), now_on_the_wall());
    TRY(keep(config_.directory, *files.own));
    files.root = files.own->certificate();
    files.lost.clear();
  }
  if (!files.root) files.root = identity_->authorities.front();
  if (!files.own && files.lost.empty()) files.lost = "identity/ca.key: is not there";
  const engine::Duration lasts = config_.certificate_time != engine::Duration::zero()
                                     ? config_.certificate_time
                                     : engine::Duration(limits::kCertificateTime);
  signer_ = std::make_unique<ClusterSigner>(
      ClusterSigner::Config{config_.directory, kept_.cluster, lasts, std::move(files)});
  return put_own_in_line();
}

// The own papers follow the files, whatever a process before has come to.
Outcome<void> ParticipantImpl::put_own_in_line() {
  const membership::Authorities told = signer_->authorities();
  const bool has_certificate = identity_->certificate.has_value();
  if (told.signs != controller::KeyPrint()) {
    const bool is_good = has_certificate &&
                         print_of(identity_->authorities.front()) == told.signs &&
                         !is_due(*identity_->certificate, now_on_the_wall());
    if (!is_good) return sign_own();
  } else {
    const bool is_over = !has_certificate || identity_->certificate->ends() <= now_on_the_wall();
    log::error(
        "{}: the key of the cluster's authority is lost ({}): no node can join, and no certificate "
        "be renewed. {}",
        config_.directory, signer_->status().lost,
        is_over ? "This node's certificate has ended, so that no other node believes it any more: "
                  "stop it, begin with another authority ('penstock identity begin --again'), and "
                  "have all other nodes join by tokens that name them"
                : "Restore it from a backup, or have another authority follow it while "
                  "certificates are good ('penstock identity renew'; docs/cluster.md)");
    if (!has_certificate) {
      return Failure{Code::not_permitted,
                     config_.directory +
                         ": the key of the cluster's authority is lost, and this node has no "
                         "certificate ('penstock identity begin --again')"};
    }
  }
  const AuthorityStatus status = signer_->status();
  if (status.ends_soon && !status.next) {
    log::warning(
        "{}: the cluster's authority ends at {}: have another one follow it ('penstock "
        "identity renew'), which takes some minutes while nodes serve",
        config_.directory, text_of(status.authority.ends));
  }
  TRY(believe(told));
  const std::lock_guard lock(identity_mutex_);
  identity_->shown = signer_->shown();
  return {};
}

// Takes what it is told, durably. True: that was something new.
Outcome<bool> ParticipantImpl::believe(const membership::Authorities& told) {
  Identity mine = identity();
  std::vector<tls::Certificate> authorities;
  for (const std::string& text : told.certificates) {
    auto one = tls::Certificate::parse(text);
    if (!one) {
      return Failure{Code::bad_message, "the controller's authorities: " + one.error().message};
    }
    authorities.push_back(std::move(*one));
  }
  authorities = in_order(std::move(authorities), print_of(mine.authorities.front()));
  if (authorities.empty() || is_same(authorities, mine.authorities)) return false;
  mine.authorities = std::move(authorities);
  TRY(take_identity(std::move(mine)));
  return true;
}

// Says whom it believes, and does as it is told. True: something is new, and is to be said. Where
// the controller does not take this node's certificate any more it is asked for another by its key.
Outcome<bool> ParticipantImpl::ask_whom_to_believe() {
  membership::AskAuthorities say;
  for (const tls::Certificate& one : identity().authorities) {
    say.believed.push_back(print_of(one));
  }
  say.signed_by = say.believed.front();
  const auto answer = ask(say, limits::kRenewAskTime);
  if (!answer) {
    const Status why = answer.error().status;
    const bool is_unheard = why == Code::peer_gone || why == Code::timed_out;
    if (is_first() || !is_unheard || !is_renewing() || !renew_as_guest()) return false;
    log::info(
        "{}: has a certificate by its key, as the controller did not take the one that it "
        "had",
        config_.directory);
    use_identity();
    return true;
  }
  const auto* told = std::get_if<membership::Authorities>(&*answer);
  if (told == nullptr) return Failure{Code::bad_message, "the controller answers otherwise"};
  if (told->signs != controller::KeyPrint() && told->signs != say.signed_by) {
    TRY(renew());
    return true;
  }
  TRY_ASSIGN(const bool is_new, believe(*told));
  if (is_new) use_identity();
  return is_new;
}

Outcome<void> ParticipantImpl::look_at_papers() {
  const std::lock_guard lock(looking_mutex_);
  const auto is_due_now = [this] { return is_due(*identity().certificate, now_on_the_wall()); };
  // Where it fails there may be another authority that can.
  const Outcome<void> renewed = is_due_now() ? renew() : Outcome<void>();
  for (int turn = 0; turn < limits::kBelieveTurns; ++turn) {
    TRY_ASSIGN(const bool is_new, ask_whom_to_believe());
    if (!is_new) break;
  }
  return is_due_now() ? renewed : Outcome<void>();
}

Outcome<void> ParticipantImpl::check_leads_authority() const {
  if (config_.insecure) {
    return Failure{Code::not_supported,
                   "this cluster was started with --insecure: it has no authority"};
  }
  if (signer_ != nullptr) return {};
  return Failure{Code::not_permitted,
                 fmt::format("the cluster's authority is on the node with the controller, at {}",
                             kept_.controller)};
}

// With what this node says itself, as it is one of those who are waited for.
Outcome<AuthorityStatus> ParticipantImpl::authority() {
  TRY(check_leads_authority());
  (void)look_at_papers();  // the thread that looks says what fails
  return signer_->status();
}

Outcome<AuthorityStatus> ParticipantImpl::renew_authority(bool force) {
  TRY(check_leads_authority());
  // Before and after: who is there is known by what the controller has just seen.
  (void)look_at_papers();
  if (identity().certificate->ends() <= now_on_the_wall()) {
    return Failure{Code::not_permitted,
                   "the certificate of this node has ended, so that no other one believes what it "
                   "says of another authority (stop it, 'penstock identity begin --again', and "
                   "have the others join by tokens)"};
  }
  TRY(force ? signer_->leave_behind() : signer_->begin_change(now_on_the_wall()));
  return authority();
}

}  // namespace penstock::cluster
