#include "meetings.h"

#include "rank_set.h"

#include <algorithm>

namespace penstock::job {

Meetings::Meetings(uint32_t size, Deliver deliver, Fail fail)
    : size_(size),
      deliver_(std::move(deliver)),
      fail_(std::move(fail)),
      waiting_(size),
      given_up_(size),
      is_gone_(size) {}

std::optional<size_t> Meetings::index_of(const Hall& hall, uint32_t rank) {
  const auto at = std::lower_bound(hall.ranks.begin(), hall.ranks.end(), rank);
  if (at == hall.ranks.end() || *at != rank) return std::nullopt;
  return static_cast<size_t>(at - hall.ranks.begin());
}

Result<Meetings::Halls::iterator> Meetings::hall_of(const std::string& key, const BringBody& body,
                                                    uint32_t rank) {
  auto at = halls_.find(key);
  if (at == halls_.end()) {
    ByteReader from(body.ranks);
    auto ranks = read_ranks(from, size_);
    if (!ranks || !from.complete()) return Code::bad_message;
    Hall hall;
    hall.name = body.name;
    hall.ranks = std::move(*ranks);
    hall.came.resize(hall.ranks.size());
    if (!index_of(hall, rank)) return Code::bad_message;
    at = halls_.emplace(key, std::move(hall)).first;
  }
  if (!index_of(at->second, rank)) return Code::bad_message;
  return at;
}

Status Meetings::bring(uint32_t rank, uint64_t serial, const BringBody& body,
                       std::vector<UniqueFd> descriptors) {
  ASSERT(rank < size_ && !is_gone_[rank]);
  auto& waiting = waiting_[rank];
  if (waiting.contains(serial)) return Code::bad_message;
  std::string key = body.name;
  key.push_back('\0');
  key.append(reinterpret_cast<const char*>(body.ranks.data()), body.ranks.size());
  TRY_ASSIGN(const auto at, hall_of(key, body, rank));
  Hall& hall = at->second;
  const size_t index = *index_of(hall, rank);
  const auto refuse = [&](Code code, const std::string& text) {
    fail_(rank, serial, {code, text});
    forget_if_empty(at);
  };
  if (hall.came[index]) {
    refuse(Code::in_use, fmt::format("rank {} is in the meeting '{}' already", rank, hall.name));
    return {};
  }
  if (waiting.size() >= limits::kMeetingsAtOnceMax) {
    refuse(Code::busy, fmt::format("rank {} waits in {} meetings already", rank, waiting.size()));
    return {};
  }
  if (hall.overdue_count > 0 && hall.overdue[index]) {
    hall.overdue[index] = false;
    --hall.overdue_count;
    refuse(Code::cancelled, hall.why);
    return {};
  }
  if (hall.present == 0) {
    for (const auto& [who, why] : gone_) {
      if (!index_of(hall, who)) continue;
      refuse(Code::peer_gone, why);
      return {};
    }
  }
  waiting.emplace(serial, key);
  hall.came[index] = Came{serial, {body.bytes.begin(), body.bytes.end()}, std::move(descriptors)};
  hall.bytes += body.bytes.size();
  ++hall.present;
  if (hall.bytes > limits::kMeetingBytesMax) {
    fail_all(hall, {Code::too_large, fmt::format("meeting '{}': all ranks together bring more than "
                                                 "{} bytes",
                                                 hall.name, limits::kMeetingBytesMax)});
    forget_if_empty(at);
  } else if (hall.present == hall.ranks.size()) {
    complete(at);
  }
  return {};
}

void Meetings::complete(Halls::iterator at) {
  Hall& hall = at->second;
  ASSERT(hall.present == hall.ranks.size());
  auto content = std::make_shared<Content>();
  ByteWriter to;
  to.number(static_cast<uint32_t>(hall.ranks.size()));
  for (const auto& came : hall.came) {
    to.number(static_cast<uint32_t>(came->bytes.size()));
    to.number(static_cast<uint32_t>(came->descriptors.size()));
  }
  for (auto& came : hall.came) {
    to.raw(came->bytes);
    for (UniqueFd& fd : came->descriptors) content->descriptors.push_back(std::move(fd));
  }
  content->bytes = std::move(to.bytes());
  for (size_t i = 0; i < hall.ranks.size(); ++i) {
    const uint64_t serial = hall.came[i]->serial;
    waiting_[hall.ranks[i]].erase(serial);
    hall.came[i].reset();
    deliver_(hall.ranks[i], serial, content);
  }
  hall.present = 0;
  hall.bytes = 0;
  forget_if_empty(at);
}

void Meetings::fail_all(Hall& hall, const FailedBody& failed) {
  ASSERT(failed.code != Code::ok);
  for (size_t i = 0; i < hall.ranks.size(); ++i) {
    if (!hall.came[i]) continue;
    const uint64_t serial = hall.came[i]->serial;
    waiting_[hall.ranks[i]].erase(serial);
    hall.came[i].reset();
    fail_(hall.ranks[i], serial, failed);
  }
  hall.present = 0;
  hall.bytes = 0;
}

void Meetings::forget_if_empty(Halls::iterator at) {
  DASSERT(at->second.present ==
          static_cast<size_t>(std::count_if(at->second.came.begin(), at->second.came.end(),
                                            [](const auto& came) { return came.has_value(); })));
  DASSERT(
      at->second.overdue_count ==
      static_cast<size_t>(std::count(at->second.overdue.begin(), at->second.overdue.end(), true)));
  if (at->second.present == 0 && at->second.overdue_count == 0) halls_.erase(at);
}

std::string Meetings::missing_of(const Hall& hall) const {
  // More would be read by nobody.
  constexpr size_t kNamed = 8;
  std::string text;
  size_t missing = 0;
  for (size_t i = 0; i < hall.ranks.size(); ++i) {
    if (hall.came[i]) continue;
    if (++missing > kNamed) continue;
    const uint32_t rank = hall.ranks[i];
    text += fmt::format("{}{}", missing == 1 ? "" : ", ", rank);
    // What it does instead explains most of these.
    const auto& waits = waiting_[rank];
    if (waits.empty()) continue;
    const Hall& other = halls_.at(waits.begin()->second);
    text += fmt::format(" (waits in '{}' of {} ranks)", other.name, other.ranks.size());
  }
  if (missing > kNamed) text += fmt::format(" and {} more", missing - kNamed);
  return (missing == 1 ? "rank " : "ranks ") + text;
}

void Meetings::withdraw(uint32_t rank, uint64_t serial) {
  ASSERT(rank < size_);
  const auto waits = waiting_[rank].find(serial);
  if (waits == waiting_[rank].end()) return;
  const std::string key = waits->second;
  const auto at = halls_.find(key);
  ASSERT(at != halls_.end());
  Hall& hall = at->second;
  const size_t index = *index_of(hall, rank);
  ASSERT(hall.came[index] && hall.came[index]->serial == serial);
  const std::string missing = missing_of(hall);
  waiting_[rank].erase(waits);
  hall.came[index].reset();
  --hall.present;
  fail_(
      rank, serial,
      {Code::timed_out, fmt::format("meeting '{}': in time had not come: {}", hall.name, missing)});
  // The others of it will not meet this one any more.
  hall.overdue.resize(hall.ranks.size());
  for (size_t i = 0; i < hall.ranks.size(); ++i) {
    if (i == index || hall.came[i] || hall.overdue[i] || is_gone_[hall.ranks[i]]) continue;
    hall.overdue[i] = true;
    ++hall.overdue_count;
  }
  hall.why = fmt::format("meeting '{}': rank {} waited no longer; had not come: {}", hall.name,
                         rank, missing);
  fail_all(hall, {Code::cancelled, hall.why});
  keep_overdue(rank, key);
}

void Meetings::keep_overdue(uint32_t rank, const std::string& key) {
  auto& keys = given_up_[rank];
  std::erase_if(keys,
                [&](const std::string& each) { return each == key || !halls_.contains(each); });
  keys.push_back(key);
  if (keys.size() <= limits::kOverdueMax) return;
  // Who comes to that one later waits until the end of its own patience.
  const auto at = halls_.find(keys.front());
  keys.erase(keys.begin());
  if (at == halls_.end()) return;
  at->second.overdue_count = 0;
  at->second.overdue.clear();
  forget_if_empty(at);
}

void Meetings::gone(uint32_t rank, const std::string& why) {
  ASSERT(rank < size_);
  if (is_gone_[rank]) return;
  is_gone_[rank] = true;
  gone_.emplace_back(rank, why);
  for (auto at = halls_.begin(); at != halls_.end();) {
    const auto next = std::next(at);
    Hall& hall = at->second;
    if (const auto index = index_of(hall, rank)) {
      if (hall.came[*index]) {
        waiting_[rank].erase(hall.came[*index]->serial);
        hall.came[*index].reset();
        --hall.present;
      }
      if (hall.overdue_count > 0 && hall.overdue[*index]) {
        hall.overdue[*index] = false;
        --hall.overdue_count;
      }
      fail_all(hall, {Code::peer_gone, why});
      forget_if_empty(at);
    }
    at = next;
  }
}

}  // namespace penstock::job
