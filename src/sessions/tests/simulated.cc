#include "simulated.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace penstock::sessions {

SimSessions::SimSessions(sim::SimLoop& loop, client::FileSystem& files) : loop_(loop) {
  node.files = &files;
  node.accounts = resources::Accounts::make(resources::bounds_within(kGiB, 65536), ::geteuid());
  node.user_terms = [this](uint32_t) -> client::Terms& { return terms_; };
  auto shard = std::make_unique<SessionShard>();
  shard->loop = &loop;
  shard->client = &files.client(0);
  shard->parker = &loop.parker();
  node.buffers.add_disk(loop, nullptr);
  loop.add(shard->rings);
  node.shards.push_back(std::move(shard));
}

SimSessions::~SimSessions() {
  loop_.remove(node.shards[0]->rings);
}

std::unique_ptr<Session> SimSessions::make_session() {
  Peer peer;
  peer.credentials.uid = ::geteuid();
  return std::make_unique<Session>(node, host, ++last_session_, std::move(peer),
                                   node.accounts->open(::geteuid()));
}

SimApplication::SimApplication(sim::SimWorld& world, SimSessions& sessions)
    : world_(world),
      sessions_(sessions),
      session_(sessions.make_session()),
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
  const ReplyPacket packet = send(std::move(body), descriptors);
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
  return ask(wire::OpenPath{0, path, kFlags, 0644}).status;
}

void SimApplication::submit(const ring::Submission& entry) {
  lane_.push(entry);
  if (lane_.publish()) sessions_.wake();
}

int64_t SimApplication::wait() {
  for (sim::Duration pause = std::chrono::microseconds(10); lane_.ready() == 0;) {
    world_.run_for(pause);
    pause = std::min<sim::Duration>(2 * pause, std::chrono::milliseconds(10));
  }
  ring::Completion completion;
  EXPECT_EQ(lane_.take(&completion, 1), 1u);
  return completion.result;
}

}  // namespace penstock::sessions
