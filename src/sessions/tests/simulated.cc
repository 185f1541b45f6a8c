#include "simulated.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <utility>

namespace penstock::sessions {

SimSessions::SimSessions(sim::SimLoop& loop, client::FileSystem& files, uint64_t cache_bytes)
    : loop_(loop) {
  node.files = &files;
  node.accounts = resources::Accounts::make(resources::bounds_within(kGiB, 65536), ::geteuid());
  node.user_terms = [this](uint32_t) -> client::Terms& { return terms_; };
  auto shard = std::make_unique<SessionShard>();
  shard->loop = &loop;
  shard->client = &files.client(0);
  shard->parker = &loop.parker();
  node.buffers.add_disk(loop, nullptr);
  node.shards.push_back(std::move(shard));
  between_turns([this] { loop_.add(node.shards[0]->rings); });
  if (cache_bytes > 0) start_cache(cache_bytes);
}

void SimSessions::start_cache(uint64_t bytes) {
  cache_loop_.emplace(loop_.world(), sim::LoopDriver::thread);
  node_cache::NodeCacheConfig config;
  config.bytes = bytes;
  config.files = node.files;
  config.buffers = &node.buffers;
  config.shards.push_back({node.shards[0]->loop, node.shards[0]->client});
  config.loop = &*cache_loop_;
  cache_ = std::move(*node_cache::NodeCache::start(config));
  node.cache = cache_.get();
  node.shards[0]->fills = &cache_->fills(0);
}

SimSessions::~SimSessions() {
  between_turns([this] { loop_.remove(node.shards[0]->rings); });
}

// Not while the loop asks its pollers: in there it may wait for a lock, and others go on.
void SimSessions::between_turns(const std::function<void()>& act) {
  (void)engine::thread_caller().call(loop_, [&](engine::Op& done) {
    act();
    loop_.complete(done, Code::ok);
  });
}

std::unique_ptr<Session> SimSessions::make_session(uint32_t uid) {
  Peer peer;
  peer.credentials.uid = uid;
  peer.credentials.gid = uid;
  return std::make_unique<Session>(node, host, ++last_session_, std::move(peer),
                                   node.accounts->open(uid));
}

SimApplication::SimApplication(sim::SimWorld& world, SimSessions& sessions, uint32_t uid)
    : world_(world),
      sessions_(sessions),
      session_(sessions.make_session(uid)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      lane_(ring::Memory::format(ring_.bytes(), geometry_), 0) {
  lane_.announce();
}

SimApplication::~SimApplication() {
  session_->finish();
}

ReplyPacket SimApplication::send(wire::RequestBody body, const std::vector<int>& descriptors) {
  const std::string bytes = *wire::encode(wire::Request{++last_request_, std::move(body)});
  std::vector<resources::ForeignFd> given;
  for (const int fd : descriptors) {
    given.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0), session_->account());
  }
  Result<Message> message = message_of(std::as_bytes(std::span(bytes)), std::move(given));
  EXPECT_TRUE(message);
  return session_->answer(std::move(*message));
}

wire::Reply SimApplication::ask(wire::RequestBody body, const std::vector<int>& descriptors) {
  return decode(send(std::move(body), descriptors));
}

wire::Reply SimApplication::ask_for(wire::RequestBody body, UniqueFd* given) {
  const ReplyPacket packet = send(std::move(body));
  if (packet.descriptor >= 0) given->reset(::fcntl(packet.descriptor, F_DUPFD_CLOEXEC, 0));
  return decode(packet);
}

wire::Reply SimApplication::decode(const ReplyPacket& packet) const {
  Result<wire::Reply> reply = wire::decode_reply(std::as_bytes(std::span(packet.bytes)));
  EXPECT_TRUE(reply && reply->id == last_request_);
  return std::move(*reply);
}

Status SimApplication::introduce() {
  TRY(ask(wire::Hello{}).status);
  TRY(ask(wire::RegisterRegion{0, 0, region_.size()}, {region_.fd()}).status);
  return ask(wire::CreateRing{0, ring_.size()}, {ring_.fd(), wake_.get()}).status;
}

Status SimApplication::open(const std::string& path) {
  constexpr uint32_t kFlags = wire::kOpenRead | wire::kOpenWrite | wire::kOpenCreate;
  const wire::Reply reply = ask(wire::OpenPath{0, path, kFlags, 0644});
  if (reply.status.ok()) inode_ = InodeId(std::get<wire::Opened>(reply.body).inode);
  return reply.status;
}

Status SimApplication::map_cache() {
  if (cache_ == nullptr) {
    UniqueFd index;
    TRY(ask_for(wire::MapCache{}, &index).status);
    TRY_ASSIGN(cache_, arena::Reader::open(std::move(index)));
  }
  while (cache_->slabs_mapped() < cache_->slabs_offered()) {
    UniqueFd slab;
    TRY(ask_for(wire::MapSlab{cache_->slabs_mapped()}, &slab).status);
    TRY(cache_->add_slab(slab));
  }
  return Code::ok;
}

void SimApplication::pause() {
  if (world_.chance(500)) world_.run_for(std::chrono::microseconds(world_.random().below(2000)));
}

std::optional<std::string> SimApplication::look(uint64_t offset, uint32_t length) {
  const auto begin = static_cast<uint32_t>(offset % arena::kExtentBytes);
  EXPECT_TRUE(begin % arena::kBlockBytes == 0 && begin + length <= arena::kExtentBytes);
  const arena::Extent extent{inode_, static_cast<uint32_t>(offset / arena::kExtentBytes)};
  if (cache_ == nullptr) return std::nullopt;
  const arena::Found found = cache_->find(extent);
  if (!found) return std::nullopt;
  const uint32_t there = std::min(length, found.valid - std::min(begin, found.valid));
  std::string copy(there, '\0');
  for (const uint32_t half : {0U, there / 2}) {
    pause();
    const uint32_t end = half == 0 ? there / 2 : there;
    std::memcpy(copy.data() + half, found.data + begin + half, end - half);
  }
  const arena::Checksums checksums = *found.checksums;
  pause();
  if (!cache_->still(found.ticket)) return std::nullopt;
  const auto now = static_cast<uint64_t>(world_.now().time_since_epoch().count());
  if (!cache_->is_valid_at(now)) return std::nullopt;
  const Bytes bytes = std::as_bytes(std::span(copy));
  for (uint32_t at = 0; at < there; at += arena::kBlockBytes) {
    const uint32_t block = std::min(arena::kBlockBytes, found.valid - begin - at);
    // Of a block in parts there is no checksum.
    if (at + block > there) break;
    EXPECT_EQ(crc32c(bytes.subspan(at, block)), checksums.block[(begin + at) / arena::kBlockBytes]);
  }
  return copy;
}

void SimApplication::submit(const ring::Submission& entry) {
  lane_.push(entry);
  if (lane_.publish()) sessions_.wake();
}

ring::Completion SimApplication::next() {
  for (sim::Duration pause = std::chrono::microseconds(10); lane_.ready() == 0;) {
    world_.run_for(pause);
    pause = std::min<sim::Duration>(2 * pause, std::chrono::milliseconds(10));
  }
  ring::Completion completion;
  EXPECT_EQ(lane_.take(&completion, 1), 1u);
  return completion;
}

}  // namespace penstock::sessions
