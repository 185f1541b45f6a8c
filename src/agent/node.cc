#include "node.h"

#include "limits.h"
#include "store_contents.h"
#include "store_lock.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <thread>
#include <unistd.h>

namespace penstock::agent {
namespace {

// How long shards poll where nobody says: decision 0010.
engine::Duration spin_of(size_t shards, bool has_rings) {
  const size_t processors = std::thread::hardware_concurrency();
  if (processors >= std::max(limits::kSpinProcessorsMin, shards * limits::kSpinProcessors)) {
    return limits::kSpinAlone;
  }
  return has_rings ? limits::kSpin : engine::Duration::zero();
}

}  // namespace

Outcome<std::unique_ptr<Node>> Node::start(const AgentConfig& config) {
  return start(config, true);
}

Outcome<std::unique_ptr<Node>> Node::start_storage(const AgentConfig& config) {
  return start(config, false);
}

namespace {

// What the directory plays, or will if it is made; 0: it is alone.
uint8_t roles_of(const AgentConfig& config, uint8_t kept) {
  if (kept != 0 || !config.cluster) return kept;
  if (config.cluster->roles != 0) return config.cluster->roles;
  return config.cluster->invitation ? cluster::kJoiningRoles : cluster::kAllRoles;
}

// The file system's own block, beside the names.
class KeptRecords final : public inodes::RecordsFile {
 public:
  explicit KeptRecords(std::string path) : path_(std::move(path)) {}

  Status read(std::span<std::byte> block) override {
    ASSERT(block.size() <= kKeptFileBytesMax);
    const Result<std::string> text = read_kept_file(path_);
    if (!text) return text.error() == Code::not_found ? Status(Code::no_data) : text.error();
    if (text->size() != block.size()) return Code::corrupt;
    std::memcpy(block.data(), text->data(), block.size());
    return Code::ok;
  }
  Status write(std::span<const std::byte> block) override {
    ASSERT(block.size() <= kKeptFileBytesMax);
    return keep_file(path_, {reinterpret_cast<const char*>(block.data()), block.size()},
                     kOwnerOnly);
  }

 private:
  const std::string path_;
};

}  // namespace

Outcome<std::unique_ptr<Node>> Node::start(const AgentConfig& given, bool has_agent) {
  TRY_ASSIGN(const uint8_t kept, cluster::Participant::roles_of(given.directory));
  const uint8_t roles = roles_of(given, kept);
  if (roles != 0 && cluster::has_agent(roles) != has_agent) {
    return Failure{
        Code::invalid_argument,
        fmt::format("{}: plays {} in its cluster, and has {}files to show", given.directory,
                    cluster::roles_text(roles), has_agent ? "no " : "")};
  }
  AgentConfig config = given;
  if (!config.disks.empty() || (roles != 0 && !cluster::has_storage(roles))) config.shards = 0;
  std::unique_ptr<Node> node(new Node);
  node->has_names_ = roles == 0 || cluster::has_names(roles);
  TRY_ASSIGN(node->storage_, Storage::open(config, roles));
  node->directory_ = node->storage_->directory().path();
  node->secret_ = node->storage_->directory().secret();
  Outcome<void> built = node->prepare_cluster(config, kept);
  if (built) built = node->build(config, has_agent);
  if (built) built = node->finish_making();
  if (built) return node;
  node->stop();
  return built.error();
}

Outcome<std::unique_ptr<Node>> Node::start(const DisklessConfig& config) {
  std::unique_ptr<Node> node(new Node);
  node->directory_ = config.directory;
  node->secret_ = config.token_key;
  TRY(node->build(config));
  return node;
}

Outcome<void> Node::build(const AgentConfig& config, bool has_agent) {
  ASSERT(has_agent || !has_names_ || participant_ == nullptr);
  TRY_ASSIGN(const std::vector<Disk> listed, read_disks(directory_));
  const auto disks = static_cast<size_t>(std::count_if(
      listed.begin(), listed.end(), [](const Disk& disk) { return !disk.is_taken_off; }));
  const size_t shards = storage_->own_targets() + disks + config.disks.size();
  spin_ = config.spin.value_or(spin_of(shards, has_agent));
  TRY(add_own_targets(config));
  TRY(add_disks(config));
  if (shards_.empty()) TRY(add_loop_alone(config));
  if (has_agent) use_chains(config);
  if (has_agent && has_names_) TRY(open_names(config));
  TRY(make_nets());
  if (has_agent && has_names_) TRY(offer_own_chains());
  run_shards();
  if (participant_ != nullptr) TRY(participant_->open());
  if (!has_agent) return {};
  if (!has_names_) find_names();
  share_names();
  if (participant_ == nullptr) return open_files();
  TRY(begin_holding());
  // Agents that were there before need some of it to say what they have.
  if (has_names_) TRY(serve_names());
  TRY(holds_->await_past());
  TRY(open_files());
  return has_names_ ? serve_all_names() : Outcome<void>();
}

Outcome<void> Node::open_names(const AgentConfig& config) {
  return storage_->open_meta(
      config.cache_bytes,
      [this] {
        const engine::DiskSpace all = space();
        return meta::Capacity{all.total_bytes, all.free_bytes};
      },
      [chains = chains_](const meta::Layout& layout) {
        return inodes::Placement::is_good(layout, *chains);
      });
}

engine::Address Node::own_address(const NodeShard& shard) const {
  return {participant_ == nullptr ? NodeId{1} : participant_->self(), shard.index()};
}

// Of one copy: on which kind of disk is not known for certain.
Outcome<void> Node::offer_own_chains() {
  const uint32_t count = storage_->own_targets();
  if (count == 0) return {};
  std::vector<engine::Address> addresses;
  for (uint32_t i = 0; i < count; ++i) addresses.push_back(own_address(*shards_[i]));
  return offer_table({.chain_count = count}, addresses);
}

namespace {

meta::Media media_of(controller::MediaClass media) {
  switch (media) {
    case controller::MediaClass::flash:
      return meta::Media::flash;
    case controller::MediaClass::disk:
      return meta::Media::disk;
    case controller::MediaClass::memory:
      return meta::Media::memory;
  }
  return meta::Media::any;
}

std::string host_name() {
  char name[controller::limits::kNameBytesMax] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace

// A store that is of a cluster takes part in it whether it is told or not.
Outcome<void> Node::prepare_cluster(const AgentConfig& config, uint8_t kept) {
  using cluster::Participant;
  if (!config.cluster && kept == 0) {
    if (storage_->own_targets() > 0) return {};
    return Failure{Code::invalid_argument,
                   directory_ + (config.disks.empty()
                                     ? ": is of a cluster, and its file 'cluster' is missing "
                                       "(restore it from a backup)"
                                     : ": disks are for chains of a cluster (say --listen, such as "
                                       "127.0.0.1:9180, to make one)")};
  }
  const uint8_t asked = config.cluster ? config.cluster->roles : uint8_t{0};
  const bool is_plain = asked == 0 || asked == cluster::kAllRoles || asked == cluster::kStorageOnly;
  if (kept == 0 && !storage_->directory().fresh() && !is_plain) {
    return Failure{Code::invalid_argument,
                   directory_ +
                       ": is a store already; roles are settled when a directory is made "
                       "(give an empty or a new directory)"};
  }
  const ClusterOptions options = config.cluster.value_or(ClusterOptions());
  cluster::ParticipantConfig part;
  part.directory = directory_;
  const auto uuid = cluster::parse_uuid(storage_->directory().superblock().uuid);
  if (!uuid) {
    return Failure{Code::corrupt, directory_ +
                                      ": penstock.store is damaged: its uuid is none "
                                      "(restore the file from a backup)"};
  }
  part.node = *uuid;
  part.listen = options.listen;
  part.roles = options.roles;
  part.name = host_name();
  part.rack = options.rack;
  part.invitation = options.invitation;
  part.insecure = options.insecure;
  part.rdma = options.rdma;
  part.devices = options.devices;
  part.certificate_time = options.certificate_time;
  part.refused = options.refused;
  part.predecessor_may_run =
      storage_->names() != nullptr && storage_->names()->predecessor_may_run();
  part.table_known = [this](const controller::Table& table) { offer(table); };
  TRY_ASSIGN(participant_, Participant::prepare(std::move(part)));
  return {};
}

// A table of the cluster: its chains are reached by their own addresses (decision 0046).
void Node::offer(const controller::Table& table) {
  if (tables_ == nullptr) return;  // without files nobody chooses
  std::vector<engine::Address> addresses;
  for (uint32_t i = 0; i < table.chains; ++i) {
    addresses.push_back(chain::address_of(ChainId(table.first.value + i)));
  }
  const auto offered = offer_table({.id = table.id.value,
                                    .chain_first = table.first.value,
                                    .chain_count = table.chains,
                                    .copies = static_cast<uint8_t>(table.copies),
                                    .media = media_of(table.media)},
                                   addresses);
  if (!offered) log::error("{}: {}", directory_, offered.error().message);
}

std::shared_ptr<const meta_net::Limits> Node::limits_of(NodeId node) {
  const auto restricted = participant_->restriction_of(node);
  if (restricted == nullptr) return nullptr;
  return std::make_shared<const meta_net::Limits>(
      meta_net::Limits{restricted->what, restricted->changed.value});
}

// Own chains of targets are served to all agents: there may be files that were made before there
// were others.
Outcome<void> Node::make_nets() {
  if (participant_ == nullptr) {
    for (const auto& shard : shards_) {
      auto net = std::make_unique<net::LocalNet>(network_, shard->loop());
      net->serve(own_address(*shard), storage_->service(shard->index()));
      shard->set_net(std::move(net));
    }
    return {};
  }
  std::vector<cluster::ParticipantShard> parts;
  for (const auto& shard : shards_) {
    store::Target* const target = storage_->target(shard->index());
    parts.push_back({.loop = &shard->loop(),
                     .parker = &shard->parker(),
                     .target = target,
                     .target_directory = storage_->target_directory(shard->index()),
                     .capacity_bytes = target == nullptr ? 0 : target->status().capacity_bytes});
  }
  if (has_names_) {
    rights_ = std::make_unique<meta_net::NodeRights>(
        storage_->meta(), engine::system_clock(), [this](NodeId node) { return limits_of(node); });
  }
  const bool leads = cluster::runs_controller(participant_->roles());
  TRY(participant_->enter(std::move(parts), leads ? &storage_->meta_kv() : nullptr));
  for (const auto& shard : shards_) {
    if (tables_ != nullptr && has_names_ && shard->index() < storage_->own_targets()) {
      OwnChain& own = *own_chains_.emplace_back(std::make_unique<OwnChain>(
          participant_->self(), storage_->service(shard->index()),
          storage_->make_service_for_others(shard->index()),
          [this](NodeId node) {
            NodeHolds* const holds = holds_seen_.load(std::memory_order_acquire);
            return holds != nullptr && holds->has_session(node);
          },
          rights_.get()));
      participant_->nodes_net(shard->index()).serve(own_address(*shard), own);
    }
    shard->borrow_net(participant_->net(shard->index()));
  }
  return {};
}

Outcome<void> Node::open_files() {
  client::FileSystemConfig files;
  files.chains = chains_;
  files.tables = tables_;
  for (const auto& shard : shards_) files.shards.push_back({&shard->loop(), &shard->net()});
  files.space = [this] { return space(); };
  files.owns_recovery = has_names_;
  if (remote_names_ != nullptr) {
    files.is_limited = [this] {
      return participant_->restriction_of(participant_->self()) != nullptr;
    };
    files.access = [this](const meta::Credentials& who, InodeId inode, uint32_t wanted) {
      return remote_names_->access(who, inode, wanted);
    };
  }
  if (holds_ != nullptr) {
    files.holding = &holds_->holding();
    files.locking = &holds_->locking();
  }
  if (holds_ != nullptr && has_names_) {
    files.is_in_use_elsewhere = [this](InodeId inode) {
      return holds_->is_in_use_elsewhere(inode);
    };
    files.is_exclusive_elsewhere = [this](InodeId inode) {
      return holds_->is_exclusive_elsewhere(inode);
    };
  }
  if (has_names_ && storage_->own_targets() == 0) {
    files.records = std::make_shared<KeptRecords>(directory_ + "/" + kRecordsName);
  }
  meta::Meta* names = meta();
  if (standbys_ != nullptr) {
    leased_names_ = std::make_unique<LeasedNames>(*names, [this] { return may_act(); });
    names = leased_names_.get();
  }
  if (holds_ != nullptr) {
    kept_names::KeptNames& kept = holds_->names(*names, files.is_limited);
    files.entries = &kept;
    names = &kept;
  }
  TRY_ASSIGN(files_, client::FileSystem::open(*names, std::move(files)));
  if (holds_ != nullptr) holds_->attach(*files_);
  return {};
}

Outcome<void> Node::begin_holding() {
  NodeHolds::Config config;
  config.participant = participant_.get();
  config.loop = &shards_.front()->loop();
  config.names = [this] { return has_names_ ? participant_->self() : remote_names_->node(); };
  config.kv = has_names_ ? &storage_->meta_kv() : nullptr;
  config.let_end = [this] { let_calls_end(); };
  config.rights = rights_.get();
  if (remote_names_ != nullptr) {
    config.show = [this](InodeId inode) { return remote_names_->show(inode); };
  }
  if (standbys_ != nullptr) {
    config.answers_until = [this] {
      if (!standbys_->shares()) return engine::kNever;
      return participant_->lease_until() + holds::limits::kAgentLease;
    };
  }
  TRY_ASSIGN(holds_, NodeHolds::start(config));
  holds_seen_.store(holds_.get(), std::memory_order_release);
  return {};
}

// Where the controller and the names are on a server another machine may go on with them.
void Node::share_names() {
  if (participant_ == nullptr || !has_names_ || storage_ == nullptr) return;
  const bool leads = cluster::runs_controller(participant_->roles());
  auto turn = storage_->names()->turn();
  if (!leads || !turn) return;
  ASSERT(standbys_ == nullptr);
  standbys_ = std::make_unique<Standbys>(std::move(*turn));
  standbys_->start(
      [this](const std::vector<std::string>& addresses) { participant_->set_standbys(addresses); });
}

bool Node::may_act() {
  ASSERT(standbys_ != nullptr && participant_ != nullptr);
  return !standbys_->shares() || participant_->may_act();
}

void Node::let_calls_end() {
  const std::lock_guard lock(served_mutex_);
  if (served_names_ != nullptr) served_names_->let_end();
}

Outcome<void> Node::serve_names() {
  NodeShard& first = *shards_.front();
  signer_ = std::make_unique<CapabilitySigner>(*participant_, engine::system_clock());
  TRY_ASSIGN(
      auto served,
      ServedNames::start(
          {.loop = &first.loop(),
           .net = &participant_->nodes_net(0),
           .self = participant_->self(),
           .meta = &storage_->meta(),
           .own_chains = storage_->own_targets(),
           .guard = holds_->guard(),
           .has_session = [this](NodeId node,
                                 uint64_t session) { return holds_->is_good(node, session); },
           .rights = rights_.get(),
           .may_serve = [this] { return participant_->has_lease(); },
           .sign = [this](wire::Capability& capability) { return signer_->sign(capability); },
           .judged = [this] { return participant_->judged(); },
           .is_signed =
               [this](const wire::Capability& capability) {
                 return participant_->is_signed(capability);
               }}));
  const std::lock_guard lock(served_mutex_);
  served_names_ = std::move(served);
  return {};
}

Outcome<void> Node::serve_all_names() {
  ASSERT(served_names_ != nullptr && files_ != nullptr);
  if (!participant_->status().insecure) {
    const Status begun = signer_->begin();
    if (!begun.ok()) {
      return Failure{begun, std::string("the controller does not take the key by which nodes are "
                                        "told what they may do: ") +
                                std::string(begun.name()) + " (is it up?)"};
    }
  }
  served_names_->open(*files_);
  return {};
}

// The own chains of that node are table 0 there, and here.
void Node::find_names() {
  capabilities_ = std::make_unique<Capabilities>(
      [this](InodeId inode) { return remote_names_->capability(inode); });
  remote_names_ = std::make_unique<RemoteNames>(
      *participant_, shards_.front()->loop(),
      [this]() -> uint64_t {
        NodeHolds* const holds = holds_seen_.load(std::memory_order_acquire);
        return holds == nullptr ? 0 : holds->session();
      },
      *capabilities_);
  participant_->set_capabilities(capabilities_.get());
  remote_names_->start([this](NodeId node, uint32_t own_chains) {
    if (own_chains == 0) return;
    std::vector<engine::Address> addresses;
    for (uint32_t i = 0; i < own_chains; ++i) addresses.push_back({node, i});
    const auto offered = offer_table({.chain_count = own_chains}, addresses);
    if (!offered) log::error("{}: {}", directory_, offered.error().message);
  });
}

meta::Meta* Node::meta() {
  if (remote_names_ != nullptr) return &remote_names_->meta();
  return storage_ != nullptr && storage_->has_meta() ? &storage_->meta() : nullptr;
}

Outcome<void> Node::build(const DisklessConfig& config) {
  ASSERT(config.meta != nullptr && config.make_net && config.chains != nullptr);
  if (config.shards == 0) {
    return Failure{Code::invalid_argument, "a node without disks: it needs a shard at least"};
  }
  for (uint32_t i = 0; i < config.shards; ++i) {
    shards_.push_back(NodeShard::diskless(i, config.spin.value_or(spin_of(config.shards, true))));
    shards_.back()->set_net(config.make_net(shards_.back()->loop()));
  }
  run_shards();
  client::FileSystemConfig files;
  for (const auto& shard : shards_) files.shards.push_back({&shard->loop(), &shard->net()});
  use_chains(config);
  files.chains = chains_;
  files.tables = tables_;
  files.space = config.space;
  TRY_ASSIGN(files_, client::FileSystem::open(*config.meta, std::move(files)));
  return {};
}

void Node::use_chains(const AgentOptions& options) {
  chains_ = options.chains;
  if (chains_ == nullptr) chains_ = std::make_shared<inodes::ChainAddresses>();
  tables_ = options.tables;
  if (tables_ == nullptr) tables_ = std::make_shared<inodes::ChainTables>();
}

Outcome<void> Node::offer_table(const inodes::ChainTable& table,
                                std::span<const engine::Address> addresses) {
  if (addresses.size() != table.chain_count) {
    return Failure{Code::invalid_argument,
                   fmt::format("table {} of chains: it has {} chains, and {} addresses", table.id,
                               table.chain_count, addresses.size())};
  }
  // First what is needed to reach them.
  Status status;
  for (uint32_t i = 0; i < table.chain_count && status.ok(); ++i) {
    status = chains_->learn(ChainId(table.chain_first + i), addresses[i]);
  }
  if (status.ok()) status = tables_->offer(table);
  if (status.ok()) return {};
  return Failure{status, fmt::format("table {} of chains cannot be offered: {} chains from {} on, "
                                     "{} copies: {}",
                                     table.id, table.chain_count, table.chain_first, table.copies,
                                     status.name())};
}

void Node::run_shards() {
  ASSERT(!running_ && !shards_.empty());
  for (const auto& shard : shards_) shard->run();
  running_ = true;
}

Node::~Node() {
  stop();
}

void Node::stop() {
  if (holds_ != nullptr) holds_->hurry();
  if (served_names_ != nullptr) {
    const std::lock_guard lock(served_mutex_);
    served_names_->stop();
  }
  hurry();
  if (standbys_ != nullptr) standbys_->stop();
  if (remote_names_ != nullptr) remote_names_->stop();
  if (files_ != nullptr) files_->close();
  if (holds_ != nullptr) holds_->stop();
  if (capabilities_ != nullptr) capabilities_->stop();
  if (participant_ != nullptr) participant_->leave();
  for (const auto& shard : shards_) {
    shard->stop([&](engine::Op& done) {
      store::Target* const target =
          storage_ != nullptr ? storage_->target(shard->index()) : nullptr;
      if (target != nullptr) return target->close(done);
      shard->loop().complete(done, Code::ok);
    });
  }
  running_ = false;
  holds_seen_.store(nullptr, std::memory_order_release);
  {
    const std::lock_guard lock(served_mutex_);
    served_names_.reset();
  }
  files_.reset();
  holds_.reset();
  leased_names_.reset();
  standbys_.reset();
  if (capabilities_ != nullptr) participant_->set_capabilities(nullptr);
  capabilities_.reset();
  remote_names_.reset();
  for (const auto& shard : shards_) shard->drop_net();
  participant_.reset();
  own_chains_.clear();
  storage_.reset();
  shards_.clear();
  for (const Disk& disk : new_disks_) {
    if (disk.is_made) undo_making_disk(disk.path);
  }
  new_disks_.clear();
}

void Node::serve_rings(uint32_t shard, engine::Poller& rings) {
  ASSERT(running_ && shard < shards_.size());
  engine::Loop& loop = shards_[shard]->loop();
  (void)engine::thread_caller().call(loop, [&](engine::Op& done) {
    loop.add(rings);
    loop.complete(done, Code::ok);
  });
}

void Node::withdraw_rings(uint32_t shard, engine::Poller& rings) {
  ASSERT(running_ && shard < shards_.size());
  engine::Loop& loop = shards_[shard]->loop();
  (void)engine::thread_caller().call(loop, [&](engine::Op& done) {
    loop.remove(rings);
    loop.complete(done, Code::ok);
  });
}

std::vector<store::TargetStatus> Node::target_status() {
  if (storage_ == nullptr) return {};
  std::vector<store::TargetStatus> all(shards_.size());
  if (!running_) return all;
  for (size_t i = 0; i < shards_.size(); ++i) {
    NodeShard& shard = *shards_[i];
    (void)engine::thread_caller().call(shard.loop(), [&](engine::Op& done) {
      if (const store::Target* const target = storage_->target(shard.index())) {
        all[i] = target->status();
      }
      shard.loop().complete(done, Code::ok);
    });
  }
  return all;
}

Outcome<void> Node::checkpoint_meta() {
  if (storage_ != nullptr && storage_->has_meta()) return storage_->checkpoint_meta();
  if (remote_names_ != nullptr) {
    return Failure{Code::not_supported,
                   directory_ +
                       ": its names are on another node of its cluster; say that one's "
                       "directory there ('penstock nodes' shows which has the role meta)"};
  }
  return Failure{Code::not_supported, "this node has no store of its own"};
}

Outcome<NamesMoved> Node::move_names(const std::string& to, const NamesProgress& progress) {
  NamesHome* const names = storage_ == nullptr ? nullptr : storage_->names();
  if (names != nullptr) return names->move(to, progress);
  return Failure{Code::not_supported,
                 directory_ +
                     ": its names are on another node of its cluster; move them there "
                     "('penstock nodes' shows which has the role meta)"};
}

NamesStatus Node::names_status() const {
  NamesHome* const names = storage_ == nullptr ? nullptr : storage_->names();
  NamesStatus status = names == nullptr ? NamesStatus() : names->status();
  if (standbys_ != nullptr) status.standbys = standbys_->addresses();
  return status;
}

void Node::set_defragment(bool enabled) {
  if (storage_ == nullptr) return;
  for (const auto& shard : shards_) {
    (void)engine::thread_caller().call(shard->loop(), [&](engine::Op& done) {
      store::Target* const target = storage_->target(shard->index());
      if (target != nullptr) target->set_defragment(enabled);
      shard->loop().complete(done, Code::ok);
    });
  }
}

ShardStatus shard_status(NodeShard& shard, const store::TargetStatus* target) {
  ShardStatus status;
  status.index = shard.index();
  if (engine::Disk* const disk = shard.disk()) status.disk = disk->facts();
  if (target == nullptr) return status;
  status.target_capacity_bytes = target->capacity_bytes;
  status.target_used_bytes = target->used_bytes;
  status.corrupt_blocks_seen = target->corrupt_blocks_seen;
  status.scattered_bytes = target->scattered_bytes;
  status.moved_bytes = target->moved_bytes;
  status.full = target->full;
  status.failed = target->failed;
  return status;
}

std::optional<meta::Attributes> Node::known_root() {
  ASSERT(storage_ != nullptr && storage_->names() != nullptr);
  const auto known = [this] {
    const std::lock_guard lock(root_mutex_);
    return known_root_;
  };
  // Whoever asks how much room there is does not wait for a server that is away.
  if (const auto root = known(); root && storage_->names()->is_away()) return root;
  const auto root = storage_->meta().attributes(meta::kRootInode);
  if (!root) return known();
  const std::lock_guard lock(root_mutex_);
  known_root_ = *root;
  return known_root_;
}

engine::DiskSpace Node::space() {
  if (remote_names_ != nullptr) return remote_names_->space();
  if (participant_ == nullptr || !running_) return own_space();
  const std::optional<meta::Attributes> root = known_root();
  const bool is_own = storage_->own_targets() > 0 && (!root || root->layout.table == 0);
  if (is_own) return own_space();
  engine::DiskSpace all = participant_->space();
  const uint64_t copies = root ? std::max<uint64_t>(root->layout.copies, 1) : 1;
  all.total_bytes /= copies;
  all.free_bytes /= copies;
  return all;
}

engine::DiskSpace Node::own_space() {
  engine::DiskSpace all;
  for (const store::TargetStatus& target : target_status()) {
    all.total_bytes += target.capacity_bytes;
    all.free_bytes += target.capacity_bytes - std::min(target.used_bytes, target.capacity_bytes);
  }
  return all;
}

}  // namespace penstock::agent
