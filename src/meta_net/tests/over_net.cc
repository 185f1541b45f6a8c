#include "over_net.h"

namespace penstock::meta_net {
namespace {

void stop_in_its_loop(engine::Loop& loop, MetaService& service) {
  (void)engine::thread_caller().call(loop, [&](engine::Op& done) { service.stop(done); });
}

// A Meta with its database, and the way to it.
template <class Host>
struct Whole {
  template <class... Arguments>
  explicit Whole(std::unique_ptr<meta::Meta> its_meta, Arguments&... arguments)
      : meta(std::move(its_meta)), host(arguments..., *meta) {}
  std::unique_ptr<meta::Meta> meta;
  Host host;
};

}  // namespace

LocalHost::LocalHost(meta::Meta& meta, MetaServiceConfig config) {
  config.loop = &serving_.loop;
  config.net = &serving_.net;
  config.address = kService;
  config.meta = &meta;
  service_ = MetaService::make(config);
  service_->start();
  serving_.start();
  asking_.start();
}

LocalHost::~LocalHost() {
  stop();
  asking_.stop();
  serving_.stop();
}

void LocalHost::stop() {
  if (service_ == nullptr) return;
  stop_in_its_loop(serving_.loop, *service_);
  service_ = nullptr;
}

RemoteMetaConfig LocalHost::asking() {
  RemoteMetaConfig config;
  config.loop = &asking_.loop;
  config.net = &asking_.net;
  config.service = kService;
  config.caller = ++callers_;
  return config;
}

SimHost::SimHost(sim::SimWorld& world, meta::Meta& meta)
    : network(world), world_(world), serving_(world), asking_(world) {
  network.faults.detection = std::chrono::milliseconds(200);
  asking_net_ = std::make_unique<sim::SimNet>(network, asking_, kAgent);
  start(meta);
}

void SimHost::start(meta::Meta& meta) {
  serving_net_ = std::make_unique<sim::SimNet>(network, serving_, kServer);
  MetaServiceConfig config;
  config.loop = &serving_;
  config.net = serving_net_.get();
  config.address = kService;
  config.meta = &meta;
  config.threads = 4;
  config.threads_per_node = 2;
  service_ = MetaService::make(config);
  service_->start();
}

void SimHost::stop() {
  if (service_ == nullptr) return;
  stop_in_its_loop(serving_, *service_);
  service_ = nullptr;
  // What is on its way arrives.
  world_.run_for(std::chrono::seconds(1));
  serving_net_ = nullptr;
}

SimHost::~SimHost() {
  stop();
  asking_net_ = nullptr;
}

RemoteMetaConfig SimHost::asking() {
  RemoteMetaConfig config;
  config.loop = &asking_;
  config.net = asking_net_.get();
  config.service = kService;
  config.caller = ++callers_;
  return config;
}

Outcome<std::unique_ptr<meta::Meta>> open_over_net(engine::Kv& kv, const engine::Clock& clock,
                                                   meta::MetaOptions options) {
  TRY_ASSIGN(std::unique_ptr<meta::Meta> meta, meta::Meta::open(kv, clock, std::move(options)));
  sim::SimWorld* const world = meta::SimStorage::world_now();
  if (world == nullptr) {
    auto whole = std::make_shared<Whole<LocalHost>>(std::move(meta));
    RemoteMetaConfig config = whole->host.asking();
    config.keeps = std::move(whole);
    return std::unique_ptr<meta::Meta>(RemoteMeta::make(config));
  }
  auto whole = std::make_shared<Whole<SimHost>>(std::move(meta), *world);
  whole->host.network.faults.drop_permille = 20;
  whole->host.network.faults.duplicate_permille = 50;
  whole->host.network.faults.delay_max = std::chrono::milliseconds(5);
  RemoteMetaConfig config = whole->host.asking();
  config.keeps = std::move(whole);
  return std::unique_ptr<meta::Meta>(RemoteMeta::make(config));
}

}  // namespace penstock::meta_net
