// Signs with the cluster's authority, and leads members from it to the next one (decision 0057).
#pragma once

#include "authorities.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "penstock/cluster/authority.h"
#include "penstock/cluster/invitation.h"
#include "penstock/membership.h"

namespace penstock::cluster {

// Thread safe. What members have said is not kept: they say it again, to the next process too.
class ClusterSigner final : public membership::Signer {
 public:
  struct Config {
    std::string directory;
    controller::Uuid cluster;
    engine::Duration lasts{};  // certificates
    AuthorityFiles files;      // with a root
  };
  explicit ClusterSigner(Config config);

  Outcome<controller::KeyPrint> key_of(const std::string& request) const override;
  controller::TokenHash hash_of(const std::string& secret) const override;
  Outcome<membership::Papers> sign(const std::string& request, NodeId node, uint8_t roles) override;
  void hear(NodeId from, const membership::AskAuthorities& said,
            const std::vector<membership::MemberSeen>& members) override;
  std::optional<engine::WallTime> tokens_end() const override;
  void finish() override;
  membership::Authorities authorities() const override;

  // Makes the authority that follows. Fails, with a reason for people, if one does already, or if
  // it cannot be kept.
  Outcome<void> begin_change(engine::WallTime now);
  // Members that are not there are waited for no more. Those that are there come along by
  // themselves: fails, and names them, if there are no others.
  Outcome<void> leave_behind();
  AuthorityStatus status() const;

  // Whose fingerprint tokens have; fails, with a reason for people, while none can sign.
  Outcome<tls::Fingerprint> fingerprint() const;
  // What goes along with the controller's own certificate.
  std::vector<tls::Certificate> shown() const;

 private:
  struct Heard {
    bool believes = false;  // the next one
    bool has = false;       // a certificate by it
  };

  // Under the mutex.
  const tls::Authority* signing() const;
  std::vector<std::string> believed() const;
  bool is_ready(NodeId node) const;
  bool are_all_ready() const;
  std::vector<membership::MemberSeen> waiting() const;
  void move_on();
  bool keep_stage(Stage stage);

  const std::string directory_;
  const controller::Uuid cluster_;
  const engine::Duration lasts_;
  mutable engine::Mutex mutex_;
  AuthorityFiles files_;
  std::map<NodeId, Heard> heard_;
  std::vector<membership::MemberSeen> members_;  // when one of them said something last
  std::set<NodeId> left_;
  bool is_kept_ = true;  // the stage that is due could be
};

}  // namespace penstock::cluster
