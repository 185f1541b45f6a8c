#include "room.h"

#include "rank_set.h"

#include <algorithm>
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
// Who gives up says who was missing at this time before.
constexpr milliseconds kLookAgain{250};
// Of who connects until it says who it is.
constexpr milliseconds kStrangersPatience{10'000};

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

Room::Room(Loop& loop, const Options& options, Failed failed)
    : loop_(loop),
      options_(options),
      failed_(std::move(failed)),
      links_(options.size),
      meetings_(
          options.size,
          [this](uint32_t rank, uint64_t serial, std::shared_ptr<const Content> content) {
            send(rank, {.kind = Kind::brought, .rank = rank, .serial = serial}, std::move(content),
                 true);
          },
          [this](uint32_t rank, uint64_t serial, const FailedBody& why) {
            send_failed({rank, serial}, why);
          }) {
  ASSERT(options.size > 0 && options.size <= limits::kRanksMax);
  if (options.launched && options.above == nullptr) {
    welcome(std::vector<uint32_t>(options.size, 0));
  }
}

Room::~Room() {
  for (uint32_t rank = 0; rank < links_.size(); ++rank) close(rank);
  while (!strangers_.empty()) forget_stranger(strangers_.begin()->first);
  loop_.cancel(announcement_);
  loop_.cancel(saying_);
}

bool Room::is_over() const {
  return std::none_of(links_.begin(), links_.end(), [](const Link& link) {
    return link.connection && !link.left && !link.ended;
  });
}

Result<Loop::Token> Room::watch(uint32_t rank) {
  return loop_.watch(links_[rank].connection->fd(), EPOLLIN, [this, rank](uint32_t events) {
    if ((events & EPOLLOUT) != 0) flush(rank);
    if ((events & ~EPOLLOUT) != 0) read(rank);
  });
}

Result<UniqueFd> Room::connect(uint32_t rank) {
  ASSERT(rank < links_.size() && !links_[rank].connection);
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Status::from_errno(errno);
  }
  UniqueFd theirs(ends[1]);
  links_[rank].connection = std::make_unique<Connection>(UniqueFd(ends[0]), kFromMembers);
  TRY_ASSIGN(links_[rank].token, watch(rank));
  return theirs;
}

void Room::adopt(UniqueFd socket) {
  const uint64_t number = next_stranger_++;
  const int fd = socket.get();
  const auto token = loop_.watch(fd, EPOLLIN, [this, number](uint32_t) { meet_stranger(number); });
  if (!token) return;
  const auto patience =
      loop_.at(now() + kStrangersPatience, [this, number] { forget_stranger(number); });
  strangers_[number] = {std::make_unique<Connection>(std::move(socket), kFromMembers), *token,
                        patience};
}

void Room::forget_stranger(uint64_t number) {
  const auto at = strangers_.find(number);
  loop_.forget(at->second.token);
  loop_.cancel(at->second.patience);
  strangers_.erase(at);
}

void Room::meet_stranger(uint64_t number) {
  Stranger& stranger = strangers_.at(number);
  std::vector<Frame> frames;
  const Status status = stranger.connection->receive(&frames);
  if (frames.empty()) {
    if (!status.ok()) forget_stranger(number);
    return;
  }
  const auto hello =
      frames[0].header.kind == Kind::hello ? decode_hello(frames[0].body) : std::nullopt;
  std::unique_ptr<Connection> connection = std::move(stranger.connection);
  forget_stranger(number);
  // Who does not know the secret is told nothing.
  if (!hello || hello->secret != options_.secret) return;
  const auto refuse_it = [&](const std::string& text) {
    connection->queue({.kind = Kind::refused, .rank = hello->rank},
                      content_of(encode(FailedBody{Code::invalid_argument, text})));
    (void)connection->send();
  };
  if (hello->size != links_.size() || hello->rank >= links_.size()) {
    return refuse_it(fmt::format("rank {} of {} joins a job of {} ranks", hello->rank, hello->size,
                                 links_.size()));
  }
  Link& link = links_[hello->rank];
  if (link.joined) return refuse_it(fmt::format("there are two of rank {}", hello->rank));
  link.connection = std::move(connection);
  const auto token = watch(hello->rank);
  if (!token) return link.connection.reset();
  link.token = *token;
  for (Frame& frame : frames) {
    if (link.connection) take(hello->rank, frame);
  }
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
  if (!options_.launched) return lost(rank);
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
  if (!welcome_) return Code::bad_message;
  if (header.kind == Kind::bring) return take_bring(rank, frame);
  if (header.descriptors != 0) return Code::bad_message;
  switch (header.kind) {
    case Kind::withdraw:
      if (!link.away.contains(header.serial)) {
        meetings_.withdraw(rank, header.serial);
      } else if (options_.above != nullptr) {
        options_.above->withdraw({rank, header.serial});
      }
      return {};
    case Kind::leave:
      leave(rank);
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
  if (!hello || hello->rank != rank || hello->size != links_.size()) return Code::bad_message;
  if (links_[rank].left) {
    // A script that starts one program of the job after the other.
    const std::string text = fmt::format("rank {} has joined and left the job already", rank);
    send(rank, {.kind = Kind::refused, .rank = rank},
         content_of(encode(FailedBody{Code::already_exists, text})));
    return {};
  }
  if (links_[rank].joined) return Code::bad_message;
  join(rank);
  return {};
}

void Room::join(uint32_t rank) {
  ASSERT(links_[rank].connection && !links_[rank].joined);
  links_[rank].joined = true;
  ++joined_;
  ASSERT(joined_ <= links_.size());
  if (welcome_) return welcome_one(rank);
  if (!why_nobody_joins_.empty()) return refuse(rank, {Code::closed, why_nobody_joins_});
  if (options_.above != nullptr) return options_.above->joined(rank);
  if (joined_ == links_.size()) return welcome(std::vector<uint32_t>(links_.size(), 0));
  if (saying_ == 0) saying_ = loop_.at(now() + kLookAgain, [this] { look_who_is_missing(); });
}

void Room::look_who_is_missing() {
  saying_ = 0;
  if (welcome_) return;
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < links_.size(); ++rank) {
    if (!links_[rank].joined) missing.push_back(rank);
  }
  say_who_is_missing(have_not_come(missing));
  saying_ = loop_.at(now() + kLookAgain, [this] { look_who_is_missing(); });
}

void Room::say_who_is_missing(const std::string& who) {
  if (welcome_) return;
  const auto content = content_of(encode(FailedBody{Code::timed_out, who}));
  for (uint32_t rank = 0; rank < links_.size(); ++rank) {
    // One that does not read needs not hear it again.
    const Link& link = links_[rank];
    if (!link.joined || !link.connection || link.connection->has_unsent()) continue;
    send(rank, {.kind = Kind::waiting, .rank = rank}, content);
  }
}

void Room::welcome(std::vector<uint32_t> node_of) {
  ASSERT(node_of.size() == links_.size() && !welcome_);
  node_of_ = std::move(node_of);
  welcome_ = content_of(encode(Welcome{node_of_}));
  for (uint32_t rank = 0; rank < links_.size(); ++rank) {
    if (!links_[rank].joined) continue;
    node_ = node_of_[rank];
    welcome_one(rank);
  }
}

void Room::welcome_one(uint32_t rank) {
  send(rank, {.kind = Kind::welcome, .rank = rank}, welcome_);
  if (known_.ends.empty() && known_.left.empty()) return;
  // It hears some of them again with the next announcement.
  send(rank, {.kind = Kind::ended, .rank = rank}, content_of(encode(known_)));
}

void Room::refuse(uint32_t rank, const FailedBody& why) {
  Link& link = links_[rank];
  if (!link.connection || welcome_) return;
  send(rank, {.kind = Kind::refused, .rank = rank}, content_of(encode(why)));
  close(rank);
}

void Room::leave(uint32_t rank) {
  ASSERT(links_[rank].joined && !links_[rank].left);
  links_[rank].left = true;
  links_[rank].away.clear();
  known_.left.push_back(rank);
  untold_.left.push_back(rank);
  meetings_.gone(rank, fmt::format("rank {} has left the job", rank));
  if (options_.above != nullptr) options_.above->ended({{}, {rank}});
  send(rank, {.kind = Kind::left, .rank = rank}, nullptr);
  announce_soon(now() + kLeavesTogether);
}

bool Room::is_away(const std::vector<uint32_t>& ranks) const {
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](uint32_t rank) { return node_of_[rank] != node_; });
}

Status Room::take_bring(uint32_t rank, Frame& frame) {
  const auto body = decode_bring(frame.body);
  if (!body) return Code::bad_message;
  if (links_[rank].ended) return {};  // declared lost, or aborted: nobody waits for it
  const Turn turn{rank, frame.header.serial};
  if (frame.descriptors_lost) {
    send_failed(turn, {Code::no_memory,
                       "the room of the job may not have more open files (raise ulimit -n)"});
    return {};
  }
  if (options_.above != nullptr) {
    ByteReader from(body->ranks);
    auto ranks = read_ranks(from, static_cast<uint32_t>(links_.size()));
    if (!ranks || !std::binary_search(ranks->begin(), ranks->end(), rank)) return Code::bad_message;
    if (is_away(*ranks)) return bring_away(turn, frame, std::move(*ranks));
  }
  return meetings_.bring(rank, turn.serial, *body, std::move(frame.descriptors));
}

Status Room::bring_away(const Turn& turn, Frame& frame, std::vector<uint32_t> ranks) {
  ASSERT(options_.above != nullptr && is_away(ranks));
  auto& away = links_[turn.rank].away;
  if (away.contains(turn.serial)) return Code::bad_message;
  if (away.size() >= limits::kMeetingsAtOnceMax) {
    send_failed(turn, {Code::busy, fmt::format("rank {} waits in {} meetings already", turn.rank,
                                               away.size())});
    return {};
  }
  away[turn.serial] = {std::move(ranks), std::move(frame.descriptors)};
  options_.above->bring(turn, std::move(frame.body));
  return {};
}

void Room::answer(const std::vector<Turn>& turns, Bytes body) {
  // Descriptors of this node's ranks never left it.
  std::vector<uint32_t> ranks;
  std::map<uint32_t, std::vector<UniqueFd>> descriptors;
  for (const Turn& turn : turns) {
    auto& away = links_[turn.rank].away;
    const auto at = away.find(turn.serial);
    if (at == away.end()) continue;  // it ended meanwhile
    ranks = std::move(at->second.ranks);
    descriptors[turn.rank] = std::move(at->second.descriptors);
    away.erase(at);
  }
  if (descriptors.empty()) return;
  ByteReader from(body);
  auto shares = decode_shares(from, ranks.size(), 0);
  if (!shares) return cut_off("the room of the job's first rank broke the protocol");
  auto content = std::make_shared<Content>();
  ByteWriter to;
  to.number(static_cast<uint32_t>(ranks.size()));
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto own = descriptors.find(ranks[i]);
    const size_t count = own == descriptors.end() ? 0 : own->second.size();
    to.number((*shares)[i].bytes);
    to.number(static_cast<uint32_t>(count));
    for (size_t k = 0; k < count; ++k) content->descriptors.push_back(std::move(own->second[k]));
  }
  to.raw(from.raw(from.left()));
  content->bytes = std::move(to.bytes());
  for (const Turn& turn : turns) {
    if (!descriptors.contains(turn.rank)) continue;
    send(turn.rank, {.kind = Kind::brought, .rank = turn.rank, .serial = turn.serial}, content,
         true);
  }
}

void Room::fail(const Turn& turn, const FailedBody& why) {
  if (links_[turn.rank].away.erase(turn.serial) > 0) send_failed(turn, why);
}

void Room::hear(const EndedBody& ended) {
  for (const End& end : ended.ends) {
    Link& link = links_[end.rank];
    if (link.ended) continue;
    link.ended = true;
    known_.ends.push_back(end);
    untold_.ends.push_back(end);
    meetings_.gone(end.rank, end.text);
    announce_soon(now());
  }
  for (const uint32_t rank : ended.left) {
    if (std::exchange(links_[rank].left, true)) continue;
    known_.left.push_back(rank);
    untold_.left.push_back(rank);
    announce_soon(now() + kLeavesTogether);
  }
}

void Room::cut_off(const std::string& why) {
  EndedBody others;
  if (!welcome_) why_nobody_joins_ = why;
  for (uint32_t rank = 0; rank < links_.size(); ++rank) {
    Link& link = links_[rank];
    if (!welcome_) {
      refuse(rank, {Code::closed, why});
      continue;
    }
    if (node_of_[rank] != node_ && !link.left) {
      others.ends.push_back({rank, How::lost, 0, fmt::format("rank {} is cut off: {}", rank, why)});
    }
    for (const auto& [serial, away] : std::exchange(link.away, {})) {
      send_failed({rank, serial}, {Code::peer_gone, why});
    }
  }
  hear(others);
}

void Room::send(uint32_t rank, FrameHeader header, std::shared_ptr<const Content> content,
                bool with_descriptors) {
  Link& link = links_[rank];
  if (!link.connection) return;
  const bool idle = !link.connection->has_unsent();
  link.connection->queue(header, std::move(content), with_descriptors);
  if (idle) flush(rank);
}

void Room::send_failed(const Turn& turn, const FailedBody& why) {
  send(turn.rank, {.kind = Kind::failed, .rank = turn.rank, .serial = turn.serial},
       content_of(encode(why)));
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
  ASSERT(end.rank < links_.size());
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
  link.away.clear();
  if (options_.above != nullptr) return options_.above->ended({{end}, {}});
  if (welcome_) return;
  for (uint32_t rank = 0; rank < links_.size(); ++rank) {
    refuse(rank, {Code::peer_gone, end.text + ", before all had joined"});
  }
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
  ASSERT(!untold_.ends.empty() || !untold_.left.empty());
  const auto content = content_of(encode(untold_));
  untold_ = {};
  for (uint32_t rank = 0; rank < links_.size(); ++rank) {
    if (!links_[rank].joined || links_[rank].left || !welcome_) continue;
    send(rank, {.kind = Kind::ended, .rank = rank}, content);
  }
}

}  // namespace penstock::job
