#include "attacker.h"

#include "watched_node.h"

#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <thread>
#include <unistd.h>
#include <variant>

namespace penstock::test {
namespace {

// A descriptor of many kinds that a node has no use for.
std::vector<UniqueFd> make_odd_descriptors() {
  std::vector<UniqueFd> out;
  const auto add = [&out](int fd) {
    if (fd >= 0) out.emplace_back(fd);
  };
  int pair[2];
  if (::pipe2(pair, O_CLOEXEC) == 0) {
    add(pair[0]);
    add(pair[1]);
  }
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
    add(pair[0]);
    add(pair[1]);
  }
  add(::open("/dev/null", O_RDWR | O_CLOEXEC));
  add(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  add(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  add(::open("/", O_PATH | O_CLOEXEC));
  add(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  add(::epoll_create1(EPOLL_CLOEXEC));
  add(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  add(::eventfd(0, EFD_CLOEXEC));
  add(::eventfd(1000, EFD_CLOEXEC | EFD_SEMAPHORE));
  return out;
}

}  // namespace

Attacker::Attacker(Victim victim, Tally& tally, uint64_t seed)
    : victim_(std::move(victim)),
      tally_(tally),
      random_(seed),
      odd_descriptors_(make_odd_descriptors()),
      buffer_(wire::kSessionMessageMax) {}

Attacker::~Attacker() = default;

void Attacker::run(std::chrono::milliseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  for (int i = 0; i < 6; ++i) make_memory(i < 3);
  std::thread changing([this, seed = random_.next()] {
    engine::SeededRandom random(seed);
    while (!over_) {
      change_memory(random);
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(2000)));
    }
  });
  while (std::chrono::steady_clock::now() < deadline) step();
  over_ = true;
  changing.join();
}

// Mostly what lies at a border, or near what is in use.
uint64_t Attacker::some_number() {
  static constexpr uint64_t kBorders[] = {0,
                                          1,
                                          4095,
                                          4096,
                                          4097,
                                          65535,
                                          65536,
                                          1U << 20,
                                          INT32_MAX,
                                          1ULL << 31,
                                          UINT32_MAX,
                                          1ULL << 32,
                                          limits::kFileBytesMax - 4096,
                                          limits::kFileBytesMax,
                                          kTiB,
                                          INT64_MAX,
                                          1ULL << 63,
                                          UINT64_MAX - 4095,
                                          UINT64_MAX};
  switch (below(4)) {
    case 0:
      return kBorders[below(std::size(kBorders))];
    case 1:
      return below(64) * 4096;
    case 2:
      return below(300'000);
    default:
      return random_.next() >> below(64);
  }
}

std::string Attacker::some_bytes(uint64_t length) {
  std::string bytes(length, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random_.next());
  return bytes;
}

void Attacker::connect() {
  hang_up();
  socket_ = connect_to(victim_.socket);
  if (!socket_) {
    // There may be no room for more of us for a while.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return;
  }
  steps_left_ = 20 + below(600);
  const uint64_t which = below(100);
  temper_ = which < 65   ? Temper::orderly
            : which < 80 ? Temper::scribbler
            : which < 90 ? Temper::mute
                         : Temper::babbler;
  if (temper_ == Temper::babbler && chance(30)) return;
  send(wire::Hello{chance(98) ? wire::kSessionVersion : static_cast<uint32_t>(some_number())},
       true);
  set_up();
}

// A session like that of an honest client, for a start.
void Attacker::set_up() {
  for (uint32_t i = 0; i < 3; ++i) register_memory(i, true);
  for (uint32_t i = 3; i < 6; ++i) register_memory(i, false);
  make_ring(0, true);
  make_ring(1, true);
  constexpr uint32_t kAll = wire::kOpenRead | wire::kOpenWrite | wire::kOpenCreate;
  static const char* const kNames[] = {"/public/a", "/public/b", "/public/c", "/public/dir/a"};
  for (uint32_t i = 0; i < std::size(kNames); ++i) {
    send(wire::OpenPath{i, kNames[i], kAll, 0666}, true);
  }
  if (temper_ != Temper::mute) read_replies(13, 200);
}

void Attacker::hang_up() {
  if (chance(20) && socket_) ::shutdown(socket_.get(), static_cast<int>(below(3)));
  socket_.reset();
  rings_.clear();
  regions_.fill(0);
  asked_.clear();
}

bool Attacker::send_bytes(std::string_view bytes, const std::vector<int>& fds) {
  if (!socket_) return false;
  iovec data{const_cast<char*>(bytes.data()), bytes.size()};
  std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)) + sizeof(cmsghdr));
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
  }
  const bool sent = ::sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
  // The node has ended it, or does not read, which is its right.
  if (!sent && errno != EAGAIN) hang_up();
  return sent;
}

void Attacker::read_replies(int most, int wait_ms) {
  for (int i = 0; i < most && socket_; ++i) {
    pollfd ready{socket_.get(), POLLIN, 0};
    if (::poll(&ready, 1, wait_ms) != 1) return;
    iovec data{buffer_.data(), buffer_.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t length = ::recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (length <= 0) return hang_up();
    if (const cmsghdr* part = CMSG_FIRSTHDR(&header)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
      const UniqueFd given(fd);
    }
    const auto bytes = std::as_bytes(std::span(buffer_)).first(static_cast<size_t>(length));
    if (const auto reply = wire::decode_reply(bytes)) take_reply(*reply);
  }
}

void Attacker::take_reply(const wire::Reply& reply) {
  const auto asked = asked_.find(reply.id);
  if (asked == asked_.end()) return;
  const size_t kind = asked->second;
  asked_.erase(asked);
  if (!reply.status.ok()) return tally_.add(Feat::refused_requests);
  tally_.add(Feat::requests);
  const auto is = [kind](const wire::RequestBody& body) { return kind == body.index(); };
  if (is(wire::Hello{})) tally_.add(Feat::sessions);
  if (is(wire::RegisterRegion{}) || is(wire::AttachRegion{})) tally_.add(Feat::regions);
  if (is(wire::CreateRing{})) tally_.add(Feat::rings);
  if (is(wire::ReadFiles{}) || is(wire::CreateFiles{})) tally_.add(Feat::many);
  if (const auto* opened = std::get_if<wire::Opened>(&reply.body)) {
    token_ = opened->token;
    tally_.add(Feat::files);
  }
}

// Of a hundred steps, how many are of each kind.
struct Shares {
  uint64_t requests, garbage, rings, scribbles, memory, names, mount;  // the rest reads replies
};

void Attacker::step() {
  if (!socket_ || steps_left_-- == 0) return connect();
  static constexpr std::array<Shares, 4> kShares = {{
      {22, 0, 40, 0, 6, 6, 10},   // orderly
      {10, 0, 35, 20, 6, 4, 5},   // scribbler
      {60, 0, 25, 0, 5, 5, 5},    // mute
      {30, 12, 20, 10, 5, 5, 5},  // babbler
  }};
  const Shares& shares = kShares[static_cast<size_t>(temper_)];
  uint64_t which = below(100);
  const auto falls_in = [&which](uint64_t share) {
    const bool falls = which < share;
    which -= falls ? 0 : share;
    return falls;
  };
  if (falls_in(shares.requests)) return send_request();
  if (falls_in(shares.garbage)) return send_garbage();
  if (falls_in(shares.rings)) return use_ring();
  if (falls_in(shares.scribbles)) return scribble_ring();
  if (falls_in(shares.memory)) {
    const bool steady = chance(50);
    if (chance(40)) make_memory(steady);
    return register_memory(some_id(), steady);
  }
  if (falls_in(shares.names)) return use_names();
  if (falls_in(shares.mount)) return chance(60) ? use_files() : use_ioctl();
  read_replies(static_cast<int>(1 + below(60)), static_cast<int>(below(3)));
}

}  // namespace penstock::test
