#include "session.h"

#include <algorithm>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

namespace penstock::agent {

void MountTable::add(uint64_t device, int connection) {
  const std::lock_guard lock(mutex_);
  connections_.emplace(device, connection);
}

void MountTable::remove(uint64_t device) {
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(device);
  if (found != connections_.end()) connections_.erase(found);
}

bool MountTable::holds(uint64_t device) const {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = connections_.equal_range(device);
  // The kernel ends the connection before it gives the number away, and its device says so.
  return std::any_of(first, last, [](const auto& mount) {
    pollfd connection{mount.second, 0, 0};
    return ::poll(&connection, 1, 0) == 0;
  });
}

Failure failure_of(const std::string& what, Status status) {
  return {status, fmt::format("{}: {}", what, status.name())};
}

namespace {

wire::Time to_wire(meta::FileTime time) {
  return {time.seconds(), static_cast<uint32_t>(time.nanoseconds())};
}

}  // namespace

wire::Attributes to_wire(const client::Attributes& attributes) {
  wire::Attributes out;
  out.inode = attributes.inode.value;
  out.type = meta::type_bits(attributes.type);
  out.mode = attributes.mode;
  out.uid = attributes.uid;
  out.gid = attributes.gid;
  out.links = attributes.links;
  out.length = attributes.length;
  out.device = attributes.device;
  out.accessed = to_wire(attributes.accessed);
  out.modified = to_wire(attributes.modified);
  out.changed = to_wire(attributes.changed);
  out.allocated = attributes.allocated;
  out.created = to_wire(attributes.created);
  out.chunk_bytes = attributes.layout.chunk_bytes();
  return out;
}

Session::Session(SessionNode& node, SessionHost& host, uint64_t id, UniqueFd socket, Peer peer,
                 std::shared_ptr<Account> account)
    : node_(node),
      host_(host),
      id_(id),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      account_(std::move(account)),
      user_terms_(node.allowances.of(peer_.credentials.uid)),
      shares_(node.shards.size()) {}

Session::~Session() = default;

SessionStatus Session::status() {
  SessionStatus status;
  status.id = id_;
  status.pid = peer_.pid;
  status.uid = peer_.credentials.uid;
  status.allowance = terms_.allowance();
  {
    const std::lock_guard lock(mutex_);
    status.regions = static_cast<uint32_t>(regions_.size());
    status.region_bytes = region_bytes_;
    status.rings = static_cast<uint32_t>(rings_.size());
    status.open_files = static_cast<uint32_t>(files_.size());
  }
  const std::shared_lock lock(publishing_);
  for (const auto& share : shares_) status.operations += share != nullptr ? share->operations() : 0;
  return status;
}

void Session::on_shard(uint32_t shard, const std::function<void(engine::Op&)>& work) {
  (void)engine::thread_caller().call(*node_.shards[shard]->loop, work);
}

void Session::take_from_shares(const std::function<bool(ShardShare&)>& is_unused,
                               const std::function<void(ShardShare&, engine::Op&)>& remove) {
  for (uint32_t i = 0; i < shares_.size(); ++i) {
    if (shares_[i] == nullptr || is_unused(*shares_[i])) continue;
    on_shard(i, [&](engine::Op& done) { remove(*shares_[i], done); });
  }
}

wire::Reply Session::greet(uint64_t id, const wire::Hello& hello) {
  const Result<wire::Agreement> agreed = wire::agree(wire::kProtocol, hello.protocol());
  if (!agreed) {
    return {id, agreed.error(), wire::no_common_version(wire::kProtocol, hello.protocol()), {}};
  }
  // Release pairs with the acquire of whichever thread executes the next request.
  greeted_.store(true, std::memory_order_release);
  return {id, Code::ok, "",
          wire::Welcome{agreed->version, id_, agreed->features, wire::kProtocol.lowest,
                        wire::kProtocol.highest, wire::kProtocol.features}};
}

wire::Reply Session::reply_to(Message& message, Given* given) {
  const uint64_t id = message.request.id;
  if (const auto* hello = std::get_if<wire::Hello>(&message.request.body)) return greet(id, *hello);
  if (!greeted_.load(std::memory_order_acquire)) {
    return {id, Code::bad_message, "the session has not begun", {}};
  }
  Answer answer = handle(message.request.body, message.descriptors, given);
  if (!answer) return {id, answer.error().status, answer.error().message, {}};
  return {id, Code::ok, "", std::move(*answer)};
}

void Session::execute(Message message) {
  Given given;
  const wire::Reply reply = reply_to(message, &given);
  const bool end = reply.status == Code::bad_message || reply.status == Code::wrong_version;
  ASSERT(wire::descriptors_of(reply.body) == (given.fd >= 0 ? 1u : 0u));
  const Status posted = outbox_.post({bytes_of(reply), given.fd, std::move(given.keeper)});
  if (!posted.ok() || end) host_.end_session(id_);
}

Session::Answer Session::handle(const wire::RequestBody& body, std::vector<ForeignFd>& descriptors,
                                Given* given) {
  const auto dispatch = [&](const auto& m) -> Answer {
    using Body = std::decay_t<decltype(m)>;
    constexpr bool kOneDescriptor = std::is_same_v<Body, wire::RegisterRegion> ||
                                    std::is_same_v<Body, wire::OpenDescriptor> ||
                                    std::is_same_v<Body, wire::KeepTouchLog>;
    constexpr bool kGives = std::is_same_v<Body, wire::MapCache> ||
                            std::is_same_v<Body, wire::MapSlab> ||
                            std::is_same_v<Body, wire::OpenDevice>;
    if constexpr (std::is_same_v<Body, std::monostate> || std::is_same_v<Body, wire::Hello>) {
      return Failure{Code::bad_message, "no request"};
    } else if constexpr (std::is_same_v<Body, wire::CreateRing>) {
      return on(m, descriptors[0].get(), std::move(descriptors[1]));
    } else if constexpr (kOneDescriptor) {
      return on(m, descriptors[0].get());
    } else if constexpr (std::is_same_v<Body, wire::PublishDevice>) {
      return on(m, descriptors.empty() ? ForeignFd() : std::move(descriptors[0]));
    } else if constexpr (kGives) {
      return on(m, given);
    } else {
      return on(m);
    }
  };
  return std::visit(dispatch, body);
}

void Session::end_broken(const char* why) {
  const uint32_t uid = peer_.credentials.uid;
  node_.log.warning(fmt::format("broken {}", uid),
                    fmt::format("a session of user {} ends: {}", uid, why));
  host_.end_session(id_);
}

void Session::withdraw_all() {
  node_.handles.remove_all(id_);
}

void Session::finish() {
  withdraw_all();  // what a request has published meanwhile
  // Nobody executes requests any more, but status() may still look.
  std::unique_lock tables(mutex_);
  std::map<uint32_t, Ring> rings = std::move(rings_);
  std::map<uint32_t, Region> regions = std::move(regions_);
  std::map<uint32_t, File> files = std::move(files_);
  rings_.clear();
  regions_.clear();
  files_.clear();
  tables.unlock();

  for (auto& [id, ring] : rings) {
    if (ring.memory != nullptr) destroy(id, std::move(ring));
  }
  std::unique_lock publishing(publishing_);
  for (uint32_t i = 0; i < shares_.size(); ++i) {
    if (shares_[i] == nullptr) continue;
    on_shard(i, [&](engine::Op& done) {
      node_.shards[i]->rings.remove(*shares_[i]);
      shares_[i].reset();
      node_.shards[i]->loop->complete(done, Code::ok);
    });
  }
  publishing.unlock();
  leave_segment();
  for (auto& [id, region] : regions) {
    if (region.memory != nullptr) release(id, std::move(region));
  }
  for (auto& [id, file] : files) {
    if (file.ref == nullptr) continue;
    const Status status = node_.files->close_file(std::move(file.ref));
    if (!status.ok()) {
      node_.log.warning("a session's file", fmt::format("session {}: closing file {} failed: {}",
                                                        id_, id, status.name()));
    }
  }
}

}  // namespace penstock::agent
