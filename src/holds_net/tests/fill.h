// Words of every kind, by chance.
#pragma once

#include "../messages.h"

#include <string>

namespace penstock::holds_net {

inline uint64_t random_number(engine::Random& random) {
  return (random.next() >> random.below(64)) | 1;
}
inline Hold random_hold(engine::Random& random) {
  return static_cast<Hold>(random.below(3));
}

inline Word random_word(engine::Random& random, AgentId agent) {
  const InodeId inode(random_number(random));
  const Stamp stamp(random_number(random));
  const RequestId request(random_number(random));
  const bool flag = random.chance(1, 2);
  switch (random.below(std::variant_size_v<Word>)) {
    case 0:
      return Want{agent, request, inode, random_hold(random), flag};
    case 1:
      return Back{agent, inode, stamp, random_hold(random), flag};
    case 2:
      return GiveUp{inode, stamp, flag};
    case 3:
      return Unused{inode};
    case 4:
      return Cancel{inode, request};
    case 5:
      return Claim{inode, random_hold(random)};
    default:
      return ClaimsEnd{};
  }
}

inline Told random_told(engine::Random& random, AgentId agent) {
  const InodeId inode(random_number(random));
  const Stamp stamp(random_number(random));
  switch (random.below(std::variant_size_v<Told>)) {
    case 0:
      return Given{agent, RequestId(random_number(random)), inode, random_hold(random), stamp};
    case 1: {
      Recall recall{agent,
                    inode,
                    stamp,
                    Stamp(random_number(random)),
                    random_hold(random),
                    random.chance(1, 2),
                    {}};
      for (uint64_t n = random.below(4); n > 0; --n) {
        recall.names.emplace_back(random.below(20), static_cast<char>('a' + random.below(26)));
      }
      return recall;
    }
    case 2:
      return Granted{inode, stamp};
    case 3:
      return Refused{inode, RequestId(random_number(random)), random.chance(1, 2)};
    default:
      return ClaimsTaken{};
  }
}

// What is understood of any bytes says the same again. True: something was.
inline bool read_all(std::string_view bytes) {
  const AgentId agent{NodeId{3}, 4};
  std::string again;
  const auto words = decode_words(bytes, agent);
  if (words) {
    for (const Word& word : *words) encode(word, again);
    ASSERT(again == bytes);
  }
  again.clear();
  const auto all = decode_told(bytes, agent);
  if (all) {
    for (const Told& told : *all) encode(told, again);
    ASSERT(again == bytes);
  }
  return words.has_value() || all.has_value();
}

}  // namespace penstock::holds_net
