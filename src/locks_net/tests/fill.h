// Words of every kind, by chance.
#pragma once

#include "../messages.h"

#include <string>

namespace penstock::locks_net {

inline uint64_t random_number(engine::Random& random) {
  return (random.next() >> random.below(64)) | 1;
}

inline Wanted random_lock(engine::Random& random, AgentId agent) {
  Wanted wanted;
  wanted.inode = InodeId(random_number(random));
  wanted.owner = {agent, static_cast<Kind>(random.below(2)), random_number(random)};
  if (wanted.owner.kind == Kind::range) {
    wanted.range.begin = random_number(random) % locks::kEnd;
    wanted.range.end =
        wanted.range.begin + 1 + random_number(random) % (locks::kEnd - wanted.range.begin);
  }
  wanted.type = static_cast<Type>(1 + random.below(2));
  wanted.pid = static_cast<uint32_t>(random_number(random));
  return wanted;
}

inline Word random_word(engine::Random& random, AgentId agent) {
  const Wanted wanted = random_lock(random, agent);
  switch (random.below(std::variant_size_v<Word>)) {
    case 0:
      return Set{wanted, random_number(random) - 1};
    case 1:
      return Get{wanted};
    case 2:
      return Release{wanted.owner, wanted.inode};
    case 3:
      return Cancel{random_number(random)};
    case 4:
      return Have{wanted};
    default:
      return HaveAll{};
  }
}

inline Told random_told(engine::Random& random) {
  const auto answer = static_cast<Answer>(1 + random.below(8));
  const AgentId agent{NodeId(static_cast<uint32_t>(1 + random.below(1000))), 0};
  const Wanted lock = random_lock(random, agent);
  switch (random.below(std::variant_size_v<Told>)) {
    case 0:
      return Answered{answer};
    case 1:
      return InTheWay{{lock.owner, lock.range, lock.type, lock.pid}};
    default:
      return NoLonger{random_number(random), random_number(random), answer};
  }
}

}  // namespace penstock::locks_net
