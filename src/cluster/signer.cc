#include "signer.h"

#include "identity.h"
#include "limits.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace penstock::cluster {
namespace {

constexpr const char* kLost =
    "the key of the cluster's authority is lost: have another authority follow it ('penstock "
    "identity renew' on the first node)";

AuthorityStatus::One told(const tls::Certificate& authority) {
  return {text_of(controller::Uuid{print_of(authority).bytes}), authority.ends()};
}

std::string text_of(const std::vector<NodeId>& nodes) {
  std::vector<uint32_t> numbers;
  for (const NodeId node : nodes) numbers.push_back(node.value);
  return fmt::format("{}", fmt::join(numbers, ", "));
}

}  // namespace

ClusterSigner::ClusterSigner(Config config)
    : directory_(std::move(config.directory)),
      cluster_(config.cluster),
      lasts_(config.lasts),
      files_(std::move(config.files)) {
  ASSERT(files_.root);
}

// Nobody is let in, or waited for, who would get no certificate.
Outcome<controller::KeyPrint> ClusterSigner::key_of(const std::string& request) const {
  {
    const std::lock_guard lock(mutex_);
    if (signing() == nullptr) return Failure{Code::not_supported, kLost};
  }
  TRY_ASSIGN(const tls::Fingerprint print, tls::key_of_request(request));
  return print_of(print);
}

controller::TokenHash ClusterSigner::hash_of(const std::string& secret) const {
  const auto digest = tls::digest_of(std::as_bytes(std::span(secret)));
  controller::TokenHash hash;
  static_assert(sizeof hash.bytes == sizeof digest);
  std::memcpy(hash.bytes.data(), digest.data(), sizeof digest);
  return hash;
}

// Null: the key of the one before is lost, and not all believe the next one.
const tls::Authority* ClusterSigner::signing() const {
  if (files_.change && files_.change->stage != Stage::trusted) return &files_.change->next;
  return files_.own ? &*files_.own : nullptr;
}

// The one that signs first.
std::vector<std::string> ClusterSigner::believed() const {
  if (!files_.change) return {files_.root->pem()};
  const std::string before = files_.change->before.pem();
  const std::string next = files_.change->next.certificate().pem();
  if (files_.change->stage == Stage::trusted) return {before, next};
  return {next, before};
}

Outcome<membership::Papers> ClusterSigner::sign(const std::string& request, NodeId node,
                                                uint8_t roles) {
  const engine::WallTime now = engine::system_clock().wall();
  const engine::WallTime begins{now.nanoseconds -
                                std::chrono::nanoseconds(limits::kCertificateBackdate).count()};
  const engine::WallTime ends{now.nanoseconds + lasts_.count()};
  // Never 0, and never the same for two.
  const auto random = tls::random_secret();
  uint64_t serial = 0;
  std::memcpy(&serial, random.data(), sizeof serial);
  serial = serial >> 1 | 1;
  const std::lock_guard lock(mutex_);
  const tls::Authority* const authority = signing();
  if (authority == nullptr) {
    return Failure{Code::not_supported, kLost};
  }
  TRY_ASSIGN(const tls::Certificate certificate,
             authority->sign(
                 request,
                 {.cluster = bytes_of(cluster_), .node = node, .roles = engine::roles_text(roles)},
                 serial, begins, ends));
  return membership::Papers{certificate.pem(), believed()};
}

membership::Authorities ClusterSigner::authorities() const {
  const std::lock_guard lock(mutex_);
  const tls::Authority* const authority = signing();
  return {believed(),
          authority != nullptr ? print_of(authority->certificate()) : controller::KeyPrint()};
}

bool ClusterSigner::is_ready(NodeId node) const {
  if (left_.contains(node)) return true;
  const auto found = heard_.find(node);
  if (found == heard_.end()) return false;
  return files_.change->stage == Stage::trusted ? found->second.believes : found->second.has;
}

std::vector<membership::MemberSeen> ClusterSigner::waiting() const {
  std::vector<membership::MemberSeen> waiting;
  if (!files_.change) return waiting;
  for (const membership::MemberSeen& one : members_) {
    if (!is_ready(one.node)) waiting.push_back(one);
  }
  return waiting;
}

bool ClusterSigner::are_all_ready() const {
  return files_.change && !members_.empty() && waiting().empty();
}

// What could not be kept is tried again with what is heard next.
bool ClusterSigner::keep_stage(Stage stage) {
  Change changed = *files_.change;
  changed.stage = stage;
  if (stage == Stage::signs) changed.signs_since = engine::system_clock().wall();
  const Outcome<void> kept = keep(directory_, changed);
  if (!kept && is_kept_) {
    log::warning("{}: the change of the cluster's authority waits: {}", directory_,
                 kept.error().message);
  }
  is_kept_ = kept.has_value();
  if (kept) files_.change = std::move(changed);
  return is_kept_;
}

void ClusterSigner::hear(NodeId from, const membership::AskAuthorities& said,
                         const std::vector<membership::MemberSeen>& members) {
  const std::lock_guard lock(mutex_);
  if (!files_.change) return;
  const controller::KeyPrint next = print_of(files_.change->next.certificate());
  const auto& believed = said.believed;
  heard_[from] = {std::find(believed.begin(), believed.end(), next) != believed.end(),
                  said.signed_by == next};
  if (said.signed_by == next) left_.erase(from);
  members_ = members;
  move_on();
}

// Nothing is signed by the next one before all believe it.
void ClusterSigner::move_on() {
  if (files_.change->stage != Stage::trusted || !are_all_ready()) return;
  if (!keep_stage(Stage::signs)) return;
  log::info("{}: all nodes believe the authority {}: it signs from now on", directory_,
            told(files_.change->next.certificate()).fingerprint);
}

std::optional<engine::WallTime> ClusterSigner::tokens_end() const {
  const std::lock_guard lock(mutex_);
  const bool is_over = are_all_ready() && files_.change->stage == Stage::signs;
  return is_over ? std::optional(files_.change->signs_since) : std::nullopt;
}

// Once its end is kept, files that could not be put in order are by the next process.
void ClusterSigner::finish() {
  const std::lock_guard lock(mutex_);
  if (!files_.change || files_.change->stage != Stage::signs || !keep_stage(Stage::ended)) return;
  const Change over = *std::exchange(files_.change, std::nullopt);
  files_.own = over.next;
  files_.root = over.next.certificate();
  files_.shown = way_to(over);
  files_.lost.clear();
  heard_.clear();
  left_.clear();
  if (const auto ended = end_change(directory_, over); !ended) {
    log::warning(
        "{}: the key of the authority before is still there (the next start removes it): "
        "{}",
        directory_, ended.error().message);
  }
  log::info(
      "{}: all nodes have certificates by the authority {}; the one before is believed no "
      "more",
      directory_, told(*files_.root).fingerprint);
}

Outcome<void> ClusterSigner::begin_change(engine::WallTime now) {
  const std::lock_guard lock(mutex_);
  if (files_.change) {
    return Failure{Code::in_use,
                   "another authority follows already ('penstock identity status' says how far "
                   "that is; --force leaves behind nodes that are down)"};
  }
  const tls::Certificate& before = *files_.root;
  Change change{Stage::trusted,
                {},
                tls::Authority::make(bytes_of(cluster_), now, before.serial() + 1),
                before,
                {}};
  if (files_.own) change.cross = files_.own->cross_sign(change.next.certificate());
  TRY(keep(directory_, change));
  files_.change = std::move(change);
  heard_.clear();
  members_.clear();
  left_.clear();
  log::info("{}: the authority {} follows; nodes learn to believe it", directory_,
            told(files_.change->next.certificate()).fingerprint);
  return {};
}

Outcome<void> ClusterSigner::leave_behind() {
  const std::lock_guard lock(mutex_);
  if (!files_.change) {
    return Failure{Code::invalid_argument,
                   "no authority follows: 'penstock identity renew' without --force begins that"};
  }
  std::vector<NodeId> gone, present;
  for (const membership::MemberSeen& one : waiting()) {
    (one.silent ? gone : present).push_back(one.node);
  }
  if (gone.empty() && !present.empty()) {
    return Failure{Code::in_use,
                   fmt::format("who is waited for is up, and hears of it within a minute: node {} "
                               "(stop it by 'penstock down', if it is to be left behind)",
                               text_of(present))};
  }
  left_.insert(gone.begin(), gone.end());
  if (!gone.empty()) log::warning("{}: left behind: node {}", directory_, text_of(gone));
  return {};
}

AuthorityStatus ClusterSigner::status() const {
  const std::lock_guard lock(mutex_);
  AuthorityStatus status;
  status.authority = told(files_.change ? files_.change->before : *files_.root);
  const int64_t left =
      status.authority.ends.nanoseconds - engine::system_clock().wall().nanoseconds;
  status.ends_soon = left < std::chrono::nanoseconds(limits::kAuthorityEndsSoon).count();
  status.lost = files_.lost;
  if (!files_.change) return status;
  status.next = told(files_.change->next.certificate());
  status.signs = files_.change->stage == Stage::signs;
  status.is_crossed = files_.change->cross.has_value();
  for (const membership::MemberSeen& one : waiting()) status.waiting.push_back(one.node);
  status.left.assign(left_.begin(), left_.end());
  return status;
}

Outcome<tls::Fingerprint> ClusterSigner::fingerprint() const {
  const std::lock_guard lock(mutex_);
  if (const tls::Authority* const authority = signing()) {
    return authority->certificate().fingerprint();
  }
  return Failure{Code::not_supported,
                 files_.lost +
                     ": without the key of the cluster's authority nobody can join "
                     "('penstock identity renew' has another one follow it)"};
}

std::vector<tls::Certificate> ClusterSigner::shown() const {
  const std::lock_guard lock(mutex_);
  if (files_.change && files_.change->stage == Stage::signs) return way_to(*files_.change);
  return files_.shown;
}

}  // namespace penstock::cluster
