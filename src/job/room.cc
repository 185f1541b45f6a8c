#include "room.h"

#include <cerrno>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "penstock/job/limits.h"

namespace penstock::job {
namespace {

using std::chrono::milliseconds;

// That a rank left is told together with those that leave at about the same time, as all do at the
// end of a program.
constexpr milliseconds kLeavesTogether{50};
// A process whose connection ended has mostly ended itself, which says more.
constexpr milliseconds kUntilLost{300};
// Descriptors that are under way between processes of one user are bounded; nothing tells when
// there is room again.
constexpr milliseconds kDescriptorsAgain{2};

Loop::Moment now() {
  return std::chrono::steady_clock::now();
}

std::shared_ptr<const Content> content_of(std::vector<std::byte> bytes) {
  auto content = std::make_shared<Content>();
  content->bytes = std::move(bytes);
  return content;
}

constexpr Accepts kFromMembers{
    limits::kBringBytesMax + limits::kRanksMax * sizeof(uint32_t) * 3 + limits::kNameBytesMax + 64,
    limits::kDescriptorsMax};

}  // namespace

Room::Room(Loop& loop, uint32_t size, Failed failed)
    : loop_(loop),
      size_(size),
      failed_(std::move(failed)),
      links_(size),
      meetings_(
          size,
          [this](uint32_t rank, uint64_t serial, std::shared_ptr<const Content> content) {
            send(rank, {.kind = Kind::brought, .rank = rank, .serial = serial}, std::move(content),
                 true);
          },
          [this](uint32_t rank, uint64_t serial, const FailedBody& why) {
            send(rank, {.kind = Kind::failed, .rank = rank, .serial = serial},
                 content_of(encode(why)));
          }),
      welcome_(content_of(encode(Welcome{std::vector<uint32_t>(size, 0)}))) {
  ASSERT(size > 0 && size <= limits::kRanksMax);
}

Room::~Room() {
  for (uint32_t rank = 0; rank < size_; ++rank) close(rank);
  loop_.cancel(announcement_);
}

Result<UniqueFd> Room::connect(uint32_t rank) {
  ASSERT(rank < size_ && !links_[rank].connection);
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Status::from_errno(errno);
  }
  UniqueFd theirs(ends[1]);
  Link& link = links_[rank];
  link.connection = std::make_unique<Connection>(UniqueFd(ends[0]), kFromMembers);
  TRY_ASSIGN(link.token, loop_.watch(ends[0], EPOLLIN, [this, rank](uint32_t events) {
    if ((events & EPOLLOUT) != 0) flush(rank);
    if ((events & ~EPOLLOUT) != 0) read(rank);
  }));
  return theirs;
}

void Room::read(uint32_t rank) {
  Link& link = links_[rank];
  if (!link.connection) return;
  std::vector<Frame> frames;
  const Status status = link.connection->receive(&frames);
  for (Frame& frame : frames) {
    if (!link.connection) return;
    take(rank, frame);
  }
  if (status.ok() || !link.connection) return;
  if (status.code() == Code::bad_message) return broke_the_rules(rank);
  close(rank);
  // What never joined tells its own end when it ends.
  if (!link.joined || link.left || link.ended) return;
  loop_.at(now() + kUntilLost, [this, rank] { lost(rank); });
}

void Room::take(uint32_t rank, Frame& frame) {
  if (!act(rank, frame).ok()) broke_the_rules(rank);
}

Status Room::act(uint32_t rank, Frame& frame) {
  Link& link = links_[rank];
  const FrameHeader& header = frame.header;
  if (header.rank != rank) return Code::bad_message;
  if (header.kind == Kind::hello) return greet(rank, frame);
  if (!link.joined || link.left) return Code::bad_message;
  if (header.kind == Kind::bring) return take_bring(rank, frame);
  if (header.descriptors != 0) return Code::bad_message;
  switch (header.kind) {
    case Kind::withdraw:
      meetings_.withdraw(rank, header.serial);
      return {};
    case Kind::leave:
      link.left = true;
      known_.left.push_back(rank);
      untold_.left.push_back(rank);
      meetings_.gone(rank, fmt::format("rank {} has left the job", rank));
      send(rank, {.kind = Kind::left, .rank = rank}, nullptr);
      announce_soon(now() + kLeavesTogether);
      return {};
    case Kind::abort: {
      const auto told = decode_abort(frame.body);
      if (!told) return Code::bad_message;
      End end{rank, How::aborted, told->first, ""};
      end.text = describe(end) + (told->second.empty() ? "" : ": " + told->second);
      declare(end);
      failed_(end);
      return {};
    }
    default:
      return Code::bad_message;
  }
}

Status Room::greet(uint32_t rank, const Frame& frame) {
  const auto hello = decode_hello(frame.body);
  if (!hello || hello->rank != rank || hello->size != size_) return Code::bad_message;
  Link& link = links_[rank];
  if (link.joined) return Code::bad_message;
  link.joined = true;
  send(rank, {.kind = Kind::welcome, .rank = rank}, welcome_);
  if (!known_.ends.empty() || !known_.left.empty()) {
    // It hears some of them again with the next announcement.
    send(rank, {.kind = Kind::ended, .rank = rank}, content_of(encode(known_)));
  }
  return {};
}

Status Room::take_bring(uint32_t rank, Frame& frame) {
  const auto body = decode_bring(frame.body);
  if (!body) return Code::bad_message;
  if (links_[rank].ended) return {};  // declared lost, or aborted: nobody waits for it
  if (frame.descriptors_lost) {
    const FailedBody failed{Code::no_memory,
                            "the launcher of the job may not have more open files (ulimit -n)"};
    send(rank, {.kind = Kind::failed, .rank = rank, .serial = frame.header.serial},
         content_of(encode(failed)));
    return {};
  }
  return meetings_.bring(rank, frame.header.serial, *body, std::move(frame.descriptors));
}

void Room::send(uint32_t rank, FrameHeader header, std::shared_ptr<const Content> content,
                bool with_descriptors) {
  Link& link = links_[rank];
  if (!link.connection) return;
  const bool idle = !link.connection->has_unsent();
  link.connection->queue(header, std::move(content), with_descriptors);
  if (idle) flush(rank);
}

void Room::flush(uint32_t rank) {
  Link& link = links_[rank];
  if (!link.connection) return;
  const Status status = link.connection->send();
  if (status.code() == Code::conflict && link.again == 0) {
    link.again = loop_.at(now() + kDescriptorsAgain, [this, rank] {
      links_[rank].again = 0;
      flush(rank);
    });
  }
  // Without its reader it is found out by reading.
  loop_.change(link.token, EPOLLIN | (status.code() == Code::busy ? EPOLLOUT : 0U));
}

void Room::close(uint32_t rank) {
  Link& link = links_[rank];
  loop_.forget(link.token);
  if (link.again != 0) loop_.cancel(link.again);
  link.token = 0;
  link.again = 0;
  link.connection.reset();
}

void Room::broke_the_rules(uint32_t rank) {
  close(rank);
  if (links_[rank].left) return;
  const End end{
      rank, How::lost, 0,
      fmt::format("rank {} sent what no member of a job sends, and is taken for ended", rank)};
  declare(end);
  failed_(end);
}

void Room::lost(uint32_t rank) {
  const End end{rank, How::lost, 0, ""};
  declare({rank, How::lost, 0, describe(end)});
}

void Room::ended(const End& end) {
  ASSERT(end.rank < size_);
  // It may have left, or aborted, with its last words.
  // Not for ever: a process that it started may write there, too.
  for (int turn = 0; turn < 4 && links_[end.rank].connection; ++turn) {
    std::vector<Frame> frames;
    const Status status = links_[end.rank].connection->receive(&frames);
    for (Frame& frame : frames) {
      if (links_[end.rank].connection) take(end.rank, frame);
    }
    if (!status.ok() || frames.empty()) break;
  }
  close(end.rank);
  if (!links_[end.rank].left) declare(end);
}

void Room::declare(const End& end) {
  Link& link = links_[end.rank];
  if (link.ended) return;
  link.ended = true;
  known_.ends.push_back(end);
  untold_.ends.push_back(end);
  announce_soon(now());
  meetings_.gone(end.rank, end.text);
}

void Room::announce_soon(Loop::Moment moment) {
  if (announcement_ != 0 && announced_at_ <= moment) return;
  loop_.cancel(announcement_);
  announced_at_ = moment;
  announcement_ = loop_.at(moment, [this] {
    announcement_ = 0;
    announce();
  });
}

void Room::announce() {
  const auto content = content_of(encode(untold_));
  untold_ = {};
  for (uint32_t rank = 0; rank < size_; ++rank) {
    if (!links_[rank].joined || links_[rank].left) continue;
    send(rank, {.kind = Kind::ended, .rank = rank}, content);
  }
}

}  // namespace penstock::job
