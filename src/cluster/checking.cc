// How a process lets its network be checked.
#include "participant_impl.h"

namespace penstock::cluster {

void ParticipantImpl::begin_checks() {
  NetChecker::Config config;
  config.measurer = {&loop(),
                     parts_.front()->shard.parker,
                     &addresses_,
                     [this]() -> Outcome<tcp::NetworkConfig> {
                       std::shared_ptr<const tls::Credentials> credentials;
                       if (!config_.insecure) {
                         TRY_ASSIGN(credentials, identity().credentials());
                       }
                       return network_config(kept_.node, std::move(credentials));
                     },
                     parts_.front()->rails.get(),
                     without_rdma_};
  config.net = parts_.front()->rails.get();
  config.self = kept_.node;
  config.insecure = config_.insecure;
  for (const std::string& text : kept_.listen) {
    const controller::CardAddress card = card_of(*parse_listen(text));
    config.own.push_back({card.host, card.rail});
  }
  net_checker_ = std::make_unique<NetChecker>(std::move(config));
  (void)caller().call(loop(), [&](engine::Op& done) {
    net_checker_->serve();
    loop().complete(done, Code::ok);
  });
}

// Whoever asks for a check has gone by then.
void ParticipantImpl::stop_checks() {
  if (net_checker_ == nullptr) return;
  (void)caller().call(loop(), [this](engine::Op& done) {
    net_checker_->stop();
    loop().complete(done, Code::ok);
  });
}

// When connections have ended: nobody who stands still is waited for.
void ParticipantImpl::end_checks() {
  if (net_checker_ == nullptr) return;
  (void)caller().call(loop(), [this](engine::Op& done) { net_checker_->close(done); });
}

Outcome<NetReport> ParticipantImpl::check_net(const NetQuestion& question,
                                              const std::function<bool()>& goes_on) {
  std::vector<NodeId> nodes;
  const membership::ClusterMap known = map();
  for (const auto& [id, node] : known.nodes()) {
    if (node.standing != controller::Standing::removed) nodes.push_back(id);
  }
  return net_checker_->check(caller(), std::move(nodes), question, goes_on);
}

Outcome<std::vector<probe::MeasuredWay>> ParticipantImpl::measure_net(
    NodeId to, std::vector<probe::Workload> plan, const std::function<bool()>& goes_on) {
  return net_checker_->measure(caller(), to, std::move(plan), goes_on);
}

}  // namespace penstock::cluster
