#include "judging.h"

#include <fmt/format.h>
#include <utility>

namespace penstock::holds_net {

bool Judging::admit(AgentId agent, Listener& listener, Want& want) {
  const Judgement judged = config_.judge(agent, want.inode, want.hold);
  if (judged.is == Judgement::Is::allowed) {
    ASSERT(judged.inode != InodeId());
    if (judged.inode != want.inode) listener.note_number(judged.inode, want.inode);
    want.inode = judged.inode;
    return true;
  }
  denied_.add();
  log_.warning(fmt::format("{}", agent.node.value),
               fmt::format("holds: node {} is restricted, and asks for what it was not shown, or "
                           "may not change (files that it had open before this process began it "
                           "has to show again)",
                           agent.node.value));
  listener.add(Refused{want.inode, want.request, judged.is == Judgement::Is::only_reads});
  return false;
}

size_t Judging::judge(AgentId agent, Listener& listener, std::vector<Word>& words) {
  if (!config_.judge) return 0;
  size_t refused = 0;
  std::vector<Word> more;
  std::erase_if(words, [&](Word& word) {
    if (auto* const want = std::get_if<Want>(&word)) {
      const bool may = admit(agent, listener, *want);
      refused += may ? 0 : 1;
      return !may;
    }
    // Of whichever it is about: by stamps and requests that the others do not have.
    std::visit(
        [&](const auto& one) {
          if constexpr (requires { one.inode; }) {
            for (const InodeId number : listener.numbers_of(one.inode)) {
              auto again = one;
              again.inode = number;
              more.emplace_back(std::move(again));
            }
          }
        },
        word);
    return false;
  });
  words.insert(words.end(), more.begin(), more.end());
  return refused;
}

}  // namespace penstock::holds_net
