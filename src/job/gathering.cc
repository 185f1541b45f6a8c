#include "gathering.h"

#include <algorithm>
#include <sys/epoll.h>

#include "penstock/job/limits.h"

namespace penstock::job {
namespace {

// Of who connects until it says the secret: a port is found by anybody.
constexpr std::chrono::milliseconds kRoomsPatience{10'000};
constexpr size_t kUnknownMax = 1024;
// Who gives up says who was missing at this time before.
constexpr std::chrono::milliseconds kSayAgain{250};

// A hello, and what a part says at once: why it cannot.
constexpr Accepts kFromUnknown{64 + limits::kTextBytesMax, 0};
constexpr Accepts kFromRooms{16 * kMiB, 0};

std::shared_ptr<const Content> holding(std::vector<std::byte> bytes) {
  auto content = std::make_shared<Content>();
  content->bytes = std::move(bytes);
  return content;
}

}  // namespace

Gathering::Gathering(Loop& loop, const Secret& secret, Launched launched)
    : loop_(loop), secret_(secret), launched_(std::move(launched)) {
  begin(static_cast<uint32_t>(launched_->node_of.size()));
}

Gathering::~Gathering() {
  loop_.cancel(saying_);
  for (const auto& [room, below] : rooms_) {
    loop_.forget(below.token);
    loop_.cancel(below.patience);
  }
}

bool Gathering::is_over() const {
  return std::none_of(ranks_.begin(), ranks_.end(),
                      [](const Rank& rank) { return rank.room != 0 && !rank.over; });
}

void Gathering::adopt(UniqueFd socket) {
  const auto unknown = std::count_if(rooms_.begin(), rooms_.end(),
                                     [](const auto& each) { return each.second.patience != 0; });
  if (static_cast<size_t>(unknown) >= kUnknownMax) return;
  const uint64_t room = next_++;
  const auto token = loop_.watch(socket.get(), EPOLLIN, [this, room](uint32_t events) {
    if ((events & EPOLLOUT) != 0) flush(room);
    if ((events & ~EPOLLOUT) != 0) read(room);
  });
  if (!token) return;
  const auto patience = loop_.at(std::chrono::steady_clock::now() + kRoomsPatience,
                                 [this, room] { lose_patience(room); });
  rooms_[room] = {
      std::make_unique<Connection>(std::move(socket), kFromUnknown), *token, patience, {}, {}};
}

void Gathering::lose_patience(uint64_t room) {
  // What it said may have come while this thread had much else to do.
  read(room);
  const auto at = rooms_.find(room);
  if (at != rooms_.end() && at->second.patience != 0) drop(room);
}

void Gathering::read(uint64_t room) {
  if (!rooms_.contains(room)) return;
  std::vector<Frame> frames;
  Status status = rooms_[room].connection->receive(&frames);
  if (launched_ && rooms_[room].patience != 0 && !frames.empty() &&
      frames[0].header.kind == Kind::part && status.code() != Code::bad_message) {
    return hand_over(room, std::move(frames));
  }
  for (const Frame& frame : frames) {
    const Status acted = act(room, frame);
    if (!acted.ok()) status = acted;
    if (!acted.ok() || !rooms_.contains(room)) break;
  }
  if (!status.ok()) drop(room);
}

void Gathering::hand_over(uint64_t room, std::vector<Frame> frames) {
  Below below = std::move(rooms_[room]);
  loop_.forget(below.token);
  loop_.cancel(below.patience);
  rooms_.erase(room);
  const auto hello = decode_hello(frames[0].body);
  if (!hello || hello->secret != secret_ || hello->size != ranks_.size() ||
      hello->rank >= launched_->nodes) {
    return;
  }
  frames.erase(frames.begin());
  launched_->part(hello->rank, std::move(below.connection), std::move(frames));
}

bool Gathering::is_of(uint64_t room, uint32_t rank) const {
  return rank < ranks_.size() && ranks_[rank].room == room && !ranks_[rank].over;
}

Status Gathering::act(uint64_t room, const Frame& frame) {
  const FrameHeader& header = frame.header;
  if (rooms_[room].patience != 0) return greet(room, frame);
  if (header.descriptors != 0) return Code::bad_message;
  if (header.kind == Kind::joined) return join(room, header.rank);
  if (header.kind == Kind::ended) {
    const auto ended = decode_ended(frame.body, static_cast<uint32_t>(ranks_.size()));
    return ended ? take_ended(room, *ended) : Status(Code::bad_message);
  }
  if (!complete_) return Code::bad_message;
  // What it sent before it heard of the rank's end.
  if (header.rank < ranks_.size() && ranks_[header.rank].room == room && ranks_[header.rank].over) {
    return {};
  }
  if (!is_of(room, header.rank)) return Code::bad_message;
  if (header.kind == Kind::withdraw) {
    meetings_->withdraw(header.rank, header.serial);
    settle();
    return {};
  }
  const auto body = header.kind == Kind::bring ? decode_bring(frame.body) : std::nullopt;
  if (!body) return Code::bad_message;
  const Status brought = meetings_->bring(header.rank, header.serial, *body, {});
  settle();
  return brought;
}

Status Gathering::greet(uint64_t room, const Frame& frame) {
  const auto hello = frame.header.kind == Kind::room ? decode_hello(frame.body) : std::nullopt;
  if (!hello || hello->secret != secret_) return Code::bad_message;
  if (hello->size == 0 || hello->size > limits::kRanksMax) return Code::bad_message;
  if (launched_) return greet_node(room, *hello);
  if (ranks_.empty()) begin(hello->size);
  Below& below = rooms_[room];
  loop_.cancel(std::exchange(below.patience, 0));
  below.connection->accept_from_now_on(kFromRooms);
  if (hello->size == ranks_.size()) return {};
  send(room, {.kind = Kind::refused, .rank = kAllRanks},
       holding(encode(FailedBody{Code::invalid_argument,
                                 fmt::format("a rank of a job of {} joins a job of {} ranks",
                                             hello->size, ranks_.size())})));
  return Code::closed;
}

void Gathering::begin(uint32_t size) {
  ASSERT(ranks_.empty() && size > 0 && size <= limits::kRanksMax);
  ranks_.resize(size);
  meetings_ = std::make_unique<Meetings>(
      size,
      [this](uint32_t rank, uint64_t serial, std::shared_ptr<const Content> content) {
        answer_ = std::move(content);
        answers_[ranks_[rank].room].push_back({rank, serial});
      },
      [this](uint32_t rank, uint64_t serial, const FailedBody& why) {
        send(ranks_[rank].room, {.kind = Kind::failed, .rank = rank, .serial = serial},
             holding(encode(why)));
      });
}

Status Gathering::greet_node(uint64_t room, const Hello& hello) {
  if (hello.size != ranks_.size() || hello.rank >= launched_->nodes) return Code::bad_message;
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (launched_->node_of[rank] != hello.rank) continue;
    if (ranks_[rank].room != 0 || ranks_[rank].over) return Code::bad_message;  // there are two
    ranks.push_back(rank);
  }
  ASSERT(!ranks.empty());
  for (const uint32_t rank : ranks) ranks_[rank].room = room;
  Below& below = rooms_[room];
  loop_.cancel(std::exchange(below.patience, 0));
  below.connection->accept_from_now_on(kFromRooms);
  below.node = hello.rank;
  joined_ += static_cast<uint32_t>(ranks.size());
  below.ranks = std::move(ranks);
  if (joined_ == ranks_.size()) {
    welcome_all();
    launched_->complete();
  }
  return {};
}

Status Gathering::join(uint64_t room, uint32_t rank) {
  if (rank >= ranks_.size()) return Code::bad_message;
  // All of them are there from the beginning.
  if (launched_) return ranks_[rank].room == room ? Status() : Status(Code::bad_message);
  const bool twice = ranks_[rank].room != 0;
  if (twice || failed_) {
    send(room, {.kind = Kind::refused, .rank = rank},
         holding(encode(FailedBody{twice ? Code::invalid_argument : Code::peer_gone,
                                   twice ? fmt::format("there are two of rank {}", rank)
                                         : "a rank ended before all had joined"})));
    return {};
  }
  ranks_[rank].room = room;
  rooms_[room].ranks.push_back(rank);
  if (++joined_ == ranks_.size()) {
    welcome_all();
  } else if (saying_ == 0) {
    saying_ =
        loop_.at(std::chrono::steady_clock::now() + kSayAgain, [this] { say_who_is_missing(); });
  }
  return {};
}

void Gathering::say_who_is_missing() {
  saying_ = 0;
  if (complete_ || failed_) return;
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].room == 0) missing.push_back(rank);
  }
  const auto content = holding(encode(FailedBody{Code::timed_out, have_not_come(missing)}));
  for (const auto& [room, below] : rooms_) {
    // One that does not read needs not hear it again.
    if (below.patience != 0 || below.connection->has_unsent()) continue;
    send(room, {.kind = Kind::waiting, .rank = kAllRanks}, content);
  }
  saying_ =
      loop_.at(std::chrono::steady_clock::now() + kSayAgain, [this] { say_who_is_missing(); });
}

void Gathering::welcome_all() {
  ASSERT(joined_ == ranks_.size() && !complete_ && !failed_);
  loop_.cancel(std::exchange(saying_, 0));
  complete_ = true;
  // Nodes are numbered by their first rank.
  std::map<uint64_t, uint32_t> numbers;
  Welcome welcome;
  for (const Rank& rank : ranks_) {
    const auto next = static_cast<uint32_t>(numbers.size());
    welcome.node_of.push_back(numbers.emplace(rank.room, next).first->second);
  }
  const auto content = holding(encode(welcome));
  for (const auto& [room, number] : numbers) send(room, {.kind = Kind::welcome}, content);
}

Status Gathering::take_ended(uint64_t room, const EndedBody& ended) {
  EndedBody told;
  for (const End& end : ended.ends) {
    if (!is_of(room, end.rank)) continue;
    ranks_[end.rank].over = true;
    told.ends.push_back(end);
    meetings_->gone(end.rank, end.text);
  }
  for (const uint32_t rank : ended.left) {
    if (!is_of(room, rank)) continue;
    ranks_[rank].over = true;
    told.left.push_back(rank);
    meetings_->gone(rank, fmt::format("rank {} has left the job", rank));
  }
  settle();
  if (!told.ends.empty() || !told.left.empty()) tell(room, told);
  return {};
}

void Gathering::tell(uint64_t but, const EndedBody& ended) {
  if (!complete_) {
    failed_ = true;
    const std::string who = ended.ends.empty() ? "a rank left" : ended.ends.front().text;
    const auto content =
        holding(encode(FailedBody{Code::peer_gone, who + ", before all had joined"}));
    for (const auto& [room, below] : rooms_) {
      if (below.patience == 0) send(room, {.kind = Kind::refused, .rank = kAllRanks}, content);
    }
    return;
  }
  const auto content = holding(encode(ended));
  for (const auto& [room, below] : rooms_) {
    if (room != but && below.patience == 0) send(room, {.kind = Kind::ended}, content);
  }
}

void Gathering::settle() {
  const auto answers = std::exchange(answers_, {});
  const auto answer = std::exchange(answer_, nullptr);
  ASSERT(answers.empty() == (answer == nullptr));
  for (const auto& [room, turns] : answers) {
    ASSERT(!turns.empty());
    send(room, {.kind = Kind::answer}, holding(encode_answer(turns, answer->bytes)));
  }
}

void Gathering::send(uint64_t room, FrameHeader header, std::shared_ptr<const Content> content) {
  const auto at = rooms_.find(room);
  if (at == rooms_.end()) return;
  const bool idle = !at->second.connection->has_unsent();
  at->second.connection->queue(header, std::move(content));
  if (idle) flush(room);
}

void Gathering::flush(uint64_t room) {
  const auto at = rooms_.find(room);
  if (at == rooms_.end()) return;
  const Status status = at->second.connection->send();
  // Its end is found out by reading.
  loop_.change(at->second.token, EPOLLIN | (status.code() == Code::busy ? EPOLLOUT : 0U));
}

void Gathering::lose(uint32_t node, const std::string& why) {
  ASSERT(launched_ && node < launched_->nodes);
  EndedBody told;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (launched_->node_of[rank] != node || std::exchange(ranks_[rank].over, true)) continue;
    told.ends.push_back({rank, How::lost, 0, fmt::format("rank {} {}", rank, why)});
    meetings_->gone(rank, told.ends.back().text);
  }
  settle();
  if (!told.ends.empty()) tell(0, told);
}

void Gathering::drop(uint64_t room) {
  const auto at = rooms_.find(room);
  if (at == rooms_.end()) return;
  loop_.forget(at->second.token);
  loop_.cancel(at->second.patience);
  const Below below = std::move(at->second);
  rooms_.erase(at);
  EndedBody ended;
  for (const uint32_t rank : below.ranks) {
    if (ranks_[rank].over) continue;
    End end{rank, How::lost, 0, ""};
    end.text = describe(end);
    ended.ends.push_back(std::move(end));
  }
  if (ended.ends.empty()) return;
  if (below.node) return launched_->apart(*below.node);
  (void)take_ended(room, ended);
}

}  // namespace penstock::job
