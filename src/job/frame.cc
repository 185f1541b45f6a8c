#include "frame.h"

#include "rank_set.h"

#include <algorithm>
#include <cstring>

namespace penstock::job {

std::vector<std::byte> encode(const Hello& hello) {
  ByteWriter to;
  to.number(kMagic);
  to.number(kVersion);
  to.number<uint16_t>(0);
  to.number(hello.rank);
  to.number(hello.size);
  to.raw(hello.secret);
  return std::move(to.bytes());
}

std::optional<Hello> decode_hello(Bytes body) {
  ByteReader from(body);
  const auto magic = from.number<uint32_t>();
  const auto version = from.number<uint16_t>();
  (void)from.number<uint16_t>();
  Hello hello;
  hello.rank = from.number<uint32_t>();
  hello.size = from.number<uint32_t>();
  const Bytes secret = from.raw(kSecretBytes);
  if (!from.complete() || magic != kMagic || version != kVersion) return std::nullopt;
  std::memcpy(hello.secret.data(), secret.data(), kSecretBytes);
  return hello;
}

std::vector<std::byte> encode(const Welcome& welcome) {
  ByteWriter to;
  to.number(kMagic);
  to.number(kVersion);
  to.number<uint16_t>(0);
  // Ranks of one node mostly follow one another.
  for (size_t at = 0; at < welcome.node_of.size();) {
    const size_t first = at++;
    while (at < welcome.node_of.size() && welcome.node_of[at] == welcome.node_of[first]) ++at;
    to.number(welcome.node_of[first]);
    to.number<uint32_t>(static_cast<uint32_t>(at - first));
  }
  return std::move(to.bytes());
}

std::optional<Welcome> decode_welcome(Bytes body) {
  ByteReader from(body);
  if (from.number<uint32_t>() != kMagic || from.number<uint16_t>() != kVersion) return std::nullopt;
  (void)from.number<uint16_t>();
  Welcome welcome;
  while (from.good() && from.left() > 0) {
    const auto node = from.number<uint32_t>();
    const auto count = from.number<uint32_t>();
    if (!from.good() || count == 0 || node >= limits::kRanksMax ||
        count > limits::kRanksMax - welcome.node_of.size()) {
      return std::nullopt;
    }
    welcome.node_of.insert(welcome.node_of.end(), count, node);
  }
  if (!from.good() || welcome.node_of.empty()) return std::nullopt;
  return welcome;
}

Place Welcome::place_of(uint32_t rank) const {
  ASSERT(rank < node_of.size());
  Place place;
  place.rank = rank;
  place.size = static_cast<uint32_t>(node_of.size());
  place.node = node_of[rank];
  place.nodes = *std::max_element(node_of.begin(), node_of.end()) + 1;
  place.node_size = 0;
  for (uint32_t other = 0; other < place.size; ++other) {
    if (other == rank) place.node_rank = place.node_size;
    if (node_of[other] == place.node) ++place.node_size;
  }
  return place;
}

std::vector<std::byte> encode_bring(std::string_view name, std::span<const uint32_t> ranks,
                                    Bytes bytes) {
  ByteWriter to;
  to.text(name);
  write_ranks(to, ranks);
  to.raw(bytes);
  return std::move(to.bytes());
}

std::optional<BringBody> decode_bring(Bytes body) {
  ByteReader from(body);
  BringBody bring;
  bring.name = from.text();
  if (bring.name.size() > limits::kNameBytesMax) return std::nullopt;
  ByteReader runs = from;
  const uint64_t count = runs.number<uint32_t>();
  bring.ranks =
      from.raw(sizeof(uint32_t) + std::min<uint64_t>(count, limits::kRanksMax) * kRunBytes);
  if (!from.good() || from.left() > limits::kBringBytesMax) return std::nullopt;
  bring.bytes = from.raw(from.left());
  return bring;
}

std::vector<std::byte> encode(const FailedBody& failed) {
  ByteWriter to;
  to.number(static_cast<uint16_t>(failed.code));
  to.text(failed.text);
  return std::move(to.bytes());
}

std::optional<FailedBody> decode_failed(Bytes body) {
  ByteReader from(body);
  FailedBody failed;
  failed.code = static_cast<Code>(from.number<uint16_t>());
  failed.text = from.text();
  if (!from.complete() || failed.code == Code::ok) return std::nullopt;
  return failed;
}

std::vector<std::byte> encode(const EndedBody& ended) {
  ByteWriter to;
  to.number(static_cast<uint32_t>(ended.ends.size()));
  for (const End& end : ended.ends) {
    to.number(end.rank);
    to.number(static_cast<uint8_t>(end.how));
    to.number(end.code);
    to.text(end.text);
  }
  to.number(static_cast<uint32_t>(ended.left.size()));
  for (const uint32_t rank : ended.left) to.number(rank);
  return std::move(to.bytes());
}

std::optional<EndedBody> decode_ended(Bytes body, uint32_t size) {
  ByteReader from(body);
  EndedBody ended;
  const auto ends = from.number<uint32_t>();
  if (ends > size) return std::nullopt;
  for (uint32_t i = 0; i < ends && from.good(); ++i) {
    End end;
    end.rank = from.number<uint32_t>();
    end.how = static_cast<How>(from.number<uint8_t>());
    end.code = from.number<int32_t>();
    end.text = from.text();
    if (end.rank >= size || end.how < How::exited || end.how > How::aborted) return std::nullopt;
    ended.ends.push_back(std::move(end));
  }
  const auto left = from.number<uint32_t>();
  if (left > size) return std::nullopt;
  for (uint32_t i = 0; i < left && from.good(); ++i) {
    ended.left.push_back(from.number<uint32_t>());
    if (ended.left.back() >= size) return std::nullopt;
  }
  if (!from.complete()) return std::nullopt;
  return ended;
}

std::vector<std::byte> encode_abort(int32_t code, std::string_view why) {
  ByteWriter to;
  to.number(code);
  to.text(why.substr(0, limits::kTextBytesMax));
  return std::move(to.bytes());
}

std::optional<std::pair<int32_t, std::string>> decode_abort(Bytes body) {
  ByteReader from(body);
  const auto code = from.number<int32_t>();
  std::string why = from.text();
  if (!from.complete() || why.size() > limits::kTextBytesMax) return std::nullopt;
  return std::pair{code, std::move(why)};
}

std::vector<std::byte> encode_answer(const std::vector<Turn>& turns, Bytes brought) {
  ByteWriter to;
  to.number(static_cast<uint32_t>(turns.size()));
  for (const Turn& turn : turns) {
    to.number(turn.rank);
    to.number(turn.serial);
  }
  to.raw(brought);
  return std::move(to.bytes());
}

std::optional<AnswerBody> decode_answer(Bytes body, uint32_t size) {
  ByteReader from(body);
  AnswerBody answer;
  const auto count = from.number<uint32_t>();
  if (count == 0 || count > size) return std::nullopt;
  for (uint32_t i = 0; i < count && from.good(); ++i) {
    Turn turn;
    turn.rank = from.number<uint32_t>();
    turn.serial = from.number<uint64_t>();
    if (turn.rank >= size) return std::nullopt;
    answer.turns.push_back(turn);
  }
  if (!from.good()) return std::nullopt;
  answer.brought = from.raw(from.left());
  return answer;
}

std::optional<std::vector<Share>> decode_shares(ByteReader& body, size_t count,
                                                uint32_t descriptors) {
  std::vector<Share> shares;
  uint64_t bytes = 0;
  uint64_t passed = 0;
  if (body.number<uint32_t>() != count) return std::nullopt;
  for (size_t i = 0; i < count && body.good(); ++i) {
    Share share;
    share.bytes = body.number<uint32_t>();
    share.descriptors = body.number<uint32_t>();
    bytes += share.bytes;
    passed += share.descriptors;
    shares.push_back(share);
  }
  if (!body.good() || bytes != body.left() || passed != descriptors) return std::nullopt;
  return shares;
}

std::string have_not_come(const std::vector<uint32_t>& missing) {
  // More would be read by nobody.
  constexpr size_t kNamed = 8;
  std::string text = missing.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < missing.size() && i < kNamed; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", missing[i]);
  }
  if (missing.size() > kNamed) text += fmt::format(" and {} more", missing.size() - kNamed);
  return text + (missing.size() == 1 ? " has" : " have");
}

std::string describe(const End& end) {
  const std::string rank = fmt::format("rank {}", end.rank);
  switch (end.how) {
    case How::exited:
      return fmt::format("{} ended with exit code {}{}", rank, end.code,
                         end.code == 0 ? " before it left the job" : "");
    case How::killed:
      return fmt::format("{} was killed by signal {} ({})", rank, end.code, ::strsignal(end.code));
    case How::lost:
      return rank + " lost its connection to the job";
    case How::aborted:
      return fmt::format("{} ended the job with exit code {}", rank, end.code);
  }
  return rank;
}

}  // namespace penstock::job
