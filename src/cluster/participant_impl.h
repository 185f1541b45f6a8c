// A Participant, in two parts: entering.cc until it is let in, participant.cc from then on.
#pragma once

#include "addresses.h"
#include "identity.h"
#include "kept.h"
#include "limits.h"
#include "net_checker.h"
#include "signer.h"
#include "verifier.h"
#include "waiting.h"

#include <atomic>
#include <map>

#include "penstock/cluster/listening.h"
#include "penstock/cluster/participant.h"

namespace penstock::cluster {

inline constexpr NodeId kFirstNode{1};

inline engine::WallTime now_on_the_wall() {
  return engine::system_clock().wall();
}

// One shard of the process, with what the cluster adds to it.
struct Part {
  ParticipantShard shard;
  std::unique_ptr<net::LocalNet> local;
  std::unique_ptr<tcp::TcpNet> tcp;
  std::shared_ptr<chain::Buffers> buffers = chain::Buffers::make();  // of its replicas
  std::unique_ptr<rails::RailNet> rails;  // of calls to targets; all others go by tcp
  std::unique_ptr<chain::ChainNet> chains;
  KeptTarget kept;
  TargetId target;                    // the member's loop's; 0 before the target is open
  std::string trouble;                // why it is not; written before open() has ended
  bool is_new = false;                // its identity was made by this process
  std::unique_ptr<chain::Host> host;  // the shard's loop's
};

// Asks a target in its loop how it is, and tells the member in that one's.
struct Look : engine::Op {
  Part* part = nullptr;
  membership::Member::Condition condition;
  bool is_back = false;  // on the way to the member's loop
};

// A target's orders on their way to its loop; frees itself.
struct Delivery : engine::Op {
  Part* part = nullptr;
  membership::Orders orders;
  engine::Loop* home = nullptr;
  engine::Op* done = nullptr;
};

class ParticipantImpl final : public Participant, private membership::LocalNode {
 public:
  ParticipantImpl(ParticipantConfig config, KeptNode kept, bool is_new)
      : config_(std::move(config)),
        kept_(std::move(kept)),
        chains_([this](ChainId) { refresh(); }),
        is_new_(is_new) {}
  ~ParticipantImpl() override;

  uint8_t roles() const override { return kept_.roles; }
  Outcome<std::optional<controller::Uuid>> target_at(
      const std::string& target_directory) const override;
  Outcome<void> enter(std::vector<ParticipantShard> shards, engine::Kv* kv) override;
  NodeId self() const override { return kept_.node; }
  engine::Net& net(size_t shard) override { return *parts_.at(shard)->chains; }
  engine::Net& nodes_net(size_t shard) override { return *parts_.at(shard)->tcp; }
  const rails::Announcements* announcements() const override {
    return devices_ == nullptr ? nullptr : &announcements_;
  }
  Outcome<void> open() override;
  void leave() override;
  Outcome<membership::Answer> ask(membership::Request request) override;
  void set_session(uint64_t number) override;
  Outcome<void> fence(NodeId node, uint64_t lowest, engine::Duration time) override;
  membership::ClusterMap map() override;
  std::shared_ptr<const controller::Restricted> restriction_of(NodeId node) override;
  bool has_lease() override;
  engine::Time lease_until() override;
  bool may_act() override;
  void set_standbys(const std::vector<std::string>& addresses) override;
  bool is_signed(const wire::Capability& capability) override {
    return verifier_.judge(capability) == chain::CapabilityJudge::Verdict::good;
  }
  uint64_t judged() override { return restricted_at_.load(std::memory_order_acquire); }
  void set_capabilities(chain::CapabilitySource* source) override {
    source_.store(source, std::memory_order_release);
  }
  ParticipantStatus status() override;
  Outcome<Invitation> make_token(uint8_t roles, uint32_t uses, NodeId node, engine::Duration lasts,
                                 const rights::Restriction& restriction) override;
  Outcome<AuthorityStatus> authority() override;
  Outcome<AuthorityStatus> renew_authority(bool force) override;
  engine::DiskSpace space() override;
  Outcome<NetReport> check_net(const NetQuestion& question,
                               const std::function<bool()>& goes_on) override;
  Outcome<std::vector<probe::MeasuredWay>> measure_net(
      NodeId to, std::vector<probe::Workload> plan, const std::function<bool()>& goes_on) override;

 private:
  // What the clients of chains ask, which are made before there is a source.
  class LateSource final : public chain::CapabilitySource {
   public:
    explicit LateSource(std::atomic<chain::CapabilitySource*>& source) : source_(source) {}
    Result<std::optional<wire::Capability>> find(InodeId inode, uint64_t session,
                                                 uint8_t rights) override {
      chain::CapabilitySource* const source = source_.load(std::memory_order_acquire);
      if (source == nullptr) return std::optional<wire::Capability>();
      return source->find(inode, session, rights);
    }
    void drop(const wire::Capability& capability) override {
      chain::CapabilitySource* const source = source_.load(std::memory_order_acquire);
      if (source != nullptr) source->drop(capability);
    }

   private:
    std::atomic<chain::CapabilitySource*>& source_;
  };

  // Of LocalNode, in the first loop.
  void map_changed(const membership::ClusterMap& map,
                   const membership::MapChanges& changes) override;
  void give(TargetId target, membership::Orders orders, engine::Op& done) override;
  void refused(Code code, const std::string& reason) override;

  engine::Loop& loop() { return *parts_.front()->shard.loop; }
  engine::BlockingCaller& caller() {
    return opened_ ? engine::thread_caller() : static_cast<engine::BlockingCaller&>(polling_);
  }
  membership::AskConfig asks() {
    return {&loop(), parts_.front()->tcp.get(), {kFirstNode, wire::kControllerService}};
  }
  bool is_first() const { return runs_controller(kept_.roles); }
  engine::Address introduction_address() const { return {kept_.node, rails::kIntroductionService}; }
  tcp::SocketAddress listen_address(size_t i) const {
    return parse_listen(kept_.listen[i])->address;
  }
  Outcome<std::optional<KeptTarget>> read_own_target(const std::string& directory) const;
  controller::Join join_request() const;
  tcp::NetworkConfig network_config(NodeId node,
                                    std::shared_ptr<const tls::Credentials> credentials) const;
  Outcome<void> read_targets();
  void undo();
  Outcome<void> make_nets();
  void find_devices();
  Outcome<void> begin_controller(engine::Kv* kv);
  Outcome<void> join();
  Outcome<void> take(const membership::Admitted& admitted);
  struct Joined {
    membership::Admitted admitted;
    membership::Papers papers;
  };
  Outcome<Joined> join_by_certificate();
  Outcome<Joined> ask_to_join(NodeId as, std::shared_ptr<const tls::Credentials> credentials,
                              std::optional<membership::AskToEnroll> enroll);

  // proving.cc
  Outcome<void> prove();
  Outcome<void> begin_authority();
  Outcome<void> enroll();
  Outcome<void> renew_as_guest();
  Outcome<void> take_papers(const membership::Papers& papers);
  Outcome<void> take_identity(Identity with);
  Outcome<void> sign_own();
  Outcome<std::shared_ptr<const tls::Credentials>> guest_credentials(
      const tls::Fingerprint& authority, const std::vector<tls::Certificate>& known) const;
  void start_renewing();
  void stop_renewing();
  void renew_until_stopped();
  bool wait_to_look(engine::Duration pause);
  bool is_renewing();
  Outcome<void> renew();
  void use_identity();
  void expel(NodeId node);
  Identity identity();

  // believing.cc
  bool has_token_of_another() const;
  Outcome<void> put_own_in_line();
  Outcome<bool> believe(const membership::Authorities& told);
  Outcome<bool> ask_whom_to_believe();
  Outcome<void> look_at_papers();
  Outcome<void> check_leads_authority() const;

  // What a person does where no controller is found, for the end of a message.
  std::string where_it_may_be() const;
  // And where one is found that does not believe this node, or that it does not believe.
  std::string what_if_followed() const;
  void make_clients();
  Outcome<membership::TargetIdentity> ask_for_identity(const Part& part);
  Outcome<void> open_doors();
  Outcome<void> open_targets();
  Outcome<void> open_target(Part& part);
  Outcome<void> await_map();
  // checking.cc
  void begin_checks();
  void stop_checks();
  void end_checks();
  void look_at_lease();
  void learn_first(const controller::Node& node);
  void keep_first();
  void look_at_targets();
  void on_look(Look& look);
  void stop_looking();
  Outcome<membership::Answer> ask(membership::Request request, engine::Duration time);
  Outcome<engine::DiskSpace> ask_for_space();
  void close_part(Part& part);
  static ParticipantStatus::Target status_of(const Part& part);
  void refresh();

  const ParticipantConfig config_;
  KeptNode kept_;
  const controller::Uuid process_ = random_uuid();
  engine::PollingCaller polling_;
  Addresses addresses_;
  chain::KnownChains chains_;
  std::unique_ptr<tcp::TcpNetwork> network_;
  std::unique_ptr<net::LocalNetwork> local_network_;
  std::shared_ptr<rails::Devices> devices_;  // none: for the reason that without_rdma_ says
  std::string without_rdma_;
  std::unique_ptr<rails::Introductions> introductions_;
  rails::Announcements announcements_;
  std::atomic<uint64_t> session_{0};  // of this node's agent, as the word of its updates
  std::vector<std::unique_ptr<Part>> parts_;
  membership::Admitted admitted_;
  engine::Kv* kv_ = nullptr;  // of the controller
  bool is_new_ = false;       // nothing was kept before, and nobody counts on it yet
  bool opened_ = false;       // the loops run
  bool left_ = false;
  // In the first loop.
  std::unique_ptr<membership::ControllerService> service_;
  bool service_runs_ = false;
  bool introduces_ = false;
  std::vector<std::unique_ptr<tcp::TcpListener>> doors_;
  std::unique_ptr<NetChecker> net_checker_;
  engine::Timer look_timer_;
  bool looks_ = false;
  int looks_without_lease_ = 0;
  controller::NodeIncarnation first_incarnation_;  // of the first node, as the map has it
  std::vector<std::string> standbys_;              // of the first node
  std::atomic<engine::Time> lease_known_until_{engine::Time{}};
  std::vector<std::string> kept_firsts_;     // where the first node is, as it is written down
  std::vector<std::string> firsts_to_keep_;  // empty: there is nothing new
  std::atomic<bool> is_keeping_{false};
  engine::Thread keeping_thread_;
  std::vector<std::unique_ptr<Look>> looks_free_;
  size_t looks_under_way_ = 0;
  // What it proves itself by; none in a cluster without TLS.
  engine::Mutex identity_mutex_;
  std::optional<Identity> identity_;
  std::unique_ptr<ClusterSigner> signer_;  // on the node with the controller
  engine::Mutex looking_mutex_;            // of looks at papers: one at a time
  engine::Mutex renewing_mutex_;
  engine::Condition renewing_wake_;
  bool renewing_ = false;
  engine::Thread renewing_thread_;
  engine::Mutex member_mutex_;  // of the pointer
  std::unique_ptr<membership::Member> member_;
  Verifier verifier_;
  std::atomic<chain::CapabilitySource*> source_{nullptr};
  LateSource late_source_{source_};
  std::atomic<uint64_t> restricted_at_{0};  // the newest change of a restriction; see judged()
  engine::Mutex restrictions_mutex_;
  // Under the mutex.
  std::map<NodeId, std::shared_ptr<const controller::Restricted>> restrictions_;
  engine::Mutex space_mutex_;
  engine::DiskSpace space_;
  std::optional<engine::Time> space_asked_;  // when it was asked for last
};

}  // namespace penstock::cluster
