// The keeper in a thread of its own, as it blocks on the Kv; and plans of tables in another.
#pragma once

#include "question.h"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "penstock/membership/controller_service.h"

namespace penstock::membership {

// What an action list says to whoever asked. Pure; `may_grant` is the keeper's.
Answer answer_to(const Request& request, const controller::Actions& actions,
                 const controller::State& state, bool may_grant);

// One question on its way through the keeper's thread. It completes in the loop with ok.
struct KeeperJob : engine::Op {
  Request request;
  engine::Peer from;                      // by the transport's word
  bool is_at_home = false;                // of the controller's own process, to be let in
  uint32_t version = wire::kNodeVersion;  // of the question, and of its answer
  // Out. Long answers, that many ask for, are shared as bytes.
  Answer answer;
  std::shared_ptr<const std::string> bytes;
  engine::Time grants_until = engine::kNever;  // the answer counts only if it is sent before

 private:
  friend class KeeperThread;
  friend class Planner;
  std::optional<Outcome<controller::CreateTable>> plan;  // once it is made
};

// Why the controller does not answer that to whoever asks; none if it does. `home` is its node;
// `proves`: nodes have certificates.
std::optional<controller::Refused> why_not(const KeeperJob& job, const controller::State& state,
                                           NodeId home, bool proves);

// Makes one plan at a time.
class Planner {
 public:
  // `planned` is called in the planner's thread.
  Planner(uint64_t seed, std::function<void(KeeperJob&)> planned);
  // Nothing is being planned, or it is waited for.
  ~Planner();

  // False while another is made. The state is a copy: it goes on changing meanwhile.
  bool plan(KeeperJob& job, controller::State state);

 private:
  void run();

  const std::function<void(KeeperJob&)> planned_;
  engine::SeededRandom random_;
  engine::Mutex mutex_;
  engine::Condition wake_;
  // Under the mutex.
  KeeperJob* job_ = nullptr;
  controller::State state_;
  bool stop_ = false;
  engine::Thread thread_;  // last: it uses everything above
};

class KeeperThread {
 public:
  struct News {
    bool leads = false;
    controller::MapVersion version;
  };
  // `news` is called in the loop, some time after something has changed.
  KeeperThread(const ControllerServiceConfig& config, std::function<void(const News&)> news);
  ~KeeperThread();  // stop() has completed

  // Both in the loop's thread. The queue is as long as what its owner lets in.
  void submit(KeeperJob& job);
  // What waits is refused, all jobs complete, the lease is given back; then `stopped` completes.
  void stop(engine::Op& stopped);

 private:
  struct NewsOp : engine::Op {
    KeeperThread* thread = nullptr;
  };

  void run();
  void finish();
  void push(KeeperJob& job);
  KeeperJob* wait_for_job(engine::Time until);
  void renew();
  void tick();
  void handle(KeeperJob& job);
  void answer(KeeperJob& job);
  void answer_event(KeeperJob& job, const controller::Event& event);
  void answer_map(KeeperJob& job, const AskMap& ask);
  void answer_plan(KeeperJob& job);
  // proofs.cc
  void answer_enroll(KeeperJob& job, const AskToEnroll& ask);
  void answer_certificate(KeeperJob& job, const AskCertificate& ask);
  void answer_tokens(KeeperJob& job, const AskTokens& ask);
  void answer_authorities(KeeperJob& job, const AskAuthorities& ask);
  std::vector<MemberSeen> members() const;
  bool revoke_tokens_before(engine::WallTime time);
  std::optional<controller::KeyPrint> key_of(KeeperJob& job, const std::string& request,
                                             engine::WallTime asker);
  void sign(KeeperJob& job, const std::string& request, NodeId node);
  Result<controller::Actions> step(const controller::Event& event);
  void refuse(KeeperJob& job, Code code, std::string why);
  void end(KeeperJob& job);
  void tell_news();
  engine::Time now() const { return config_.clock->now(); }

  const controller::KeeperConfig config_;
  const NodeId home_;
  Signer* const signer_;
  engine::Loop& loop_;
  const std::function<void(const News&)> on_news_;

  // Of the keeper's thread.
  controller::Keeper keeper_;
  engine::Time next_renew_{};
  engine::Time next_tick_{};
  bool more_ = false;  // a tick is due at once
  News told_;
  // Pieces of the map of that version as bytes, by what was asked for.
  controller::MapVersion kept_version_;
  std::map<std::tuple<uint64_t, char, uint32_t, uint32_t>, std::shared_ptr<const std::string>>
      kept_;
  size_t kept_bytes_ = 0;

  engine::Mutex mutex_;
  engine::Condition wake_;
  // Under the mutex.
  IntrusiveList<KeeperJob> jobs_;
  bool stop_ = false;
  engine::Op* stopped_ = nullptr;
  News news_;
  bool news_posted_ = false;

  NewsOp news_op_;
  std::unique_ptr<Planner> planner_;
  engine::Thread thread_;  // last: it uses everything above
};

}  // namespace penstock::membership
