// What a chunk of a chain was, step by step, for the simulation of chains on targets.
#pragma once

#include "chain_rig.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace penstock::store {

struct ChainState {
  UpdateName committed;
  bool removed = false;
  std::string bytes;
  std::optional<PendingUpdate> pending;
  std::string pending_bytes;
  std::vector<UpdatePart> done;  // of the update that was committed last
};

inline void perform(ChainState& state, const UpdatePart& part, const std::string& bytes,
                    size_t& taken) {
  state.removed = part.kind == UpdateKind::remove;
  if (state.removed) {
    state.bytes.clear();
  } else if (part.kind == UpdateKind::write) {
    state.bytes.resize(std::max<size_t>(state.bytes.size(), part.end));
    state.bytes.replace(part.begin, part.end - part.begin, bytes, taken, part.end - part.begin);
    taken += part.end - part.begin;
  } else if (part.end == kWholeChunk) {
    state.bytes.resize(std::min<size_t>(state.bytes.size(), part.begin));
  } else {
    for (size_t i = part.begin; i < std::min<size_t>(part.end, state.bytes.size()); ++i) {
      state.bytes[i] = '\0';
    }
  }
}

// What a chunk was, step by step, since the last crash.
struct ChainHistory {
  ChainChunk at;
  std::vector<ChainState> states = {ChainState{}};
  size_t durable = 0;  // no crash goes behind this one
  bool busy = false;   // a prepare or replacement is on its way
  uint64_t counter = 0;

  ChainState& now() { return states.back(); }
  ChainState& next() { return states.emplace_back(states.back()); }
};

}  // namespace penstock::store
