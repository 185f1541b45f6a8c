// Which actions of a step answer which question.
#include "keeper_thread.h"

#include <algorithm>

namespace penstock::membership {

using controller::Actions;
using controller::Refused;

namespace {

// Where the step says nothing: an older message than others of its sender.
Answer refusal(const Actions& actions) {
  if (!actions.refusals.empty()) return actions.refusals.front();
  return Refused{Code::busy, "it came late, or twice; ask again"};
}

Answer answer_of(const controller::Join& join, const Actions& actions,
                 const controller::State& state) {
  const auto found = std::find_if(actions.admissions.begin(), actions.admissions.end(),
                                  [&](const auto& one) { return one.process == join.process; });
  if (found == actions.admissions.end()) return refusal(actions);
  return Admitted{*found, state.timing.lease};
}

Answer answer_of(const controller::OpenTarget& open, const Actions& actions) {
  const auto found = std::find_if(
      actions.opened.begin(), actions.opened.end(), [&](const controller::Opened& one) {
        return one.node == open.from.node && one.node_incarnation == open.from.incarnation &&
               one.opening == open.opening;
      });
  if (found == actions.opened.end()) return refusal(actions);
  return *found;
}

Answer answer_of(const controller::Heartbeat& heartbeat, const Actions& actions, bool may_grant) {
  const auto found =
      std::find_if(actions.grants.begin(), actions.grants.end(), [&](const controller::Grant& one) {
        return one.node == heartbeat.from.node &&
               one.node_incarnation == heartbeat.from.incarnation &&
               one.sequence == heartbeat.from.sequence;
      });
  if (found != actions.grants.end()) return *found;
  if (actions.refusals.empty() && !may_grant) {
    return Refused{Code::not_serving, "the controller has no lease of its own now; ask again"};
  }
  return refusal(actions);
}

Answer answer_of(const controller::Fence& fence, const Actions& actions,
                 const controller::State& state) {
  if (!actions.refusals.empty()) return actions.refusals.front();
  if (controller::is_fenced(state, fence.node, fence.lowest)) return Done{};
  return Refused{Code::busy, "fence: some targets may not know of it yet; ask again"};
}

Answer answer_of_order(const Actions& actions) {
  if (!actions.refusals.empty()) return actions.refusals.front();
  if (!actions.made.empty()) return actions.made.front();
  if (!actions.made_tokens.empty()) return actions.made_tokens.front();
  if (!actions.published_keys.empty()) return actions.published_keys.front();
  return Done{};
}

}  // namespace

Answer answer_to(const Request& request, const Actions& actions, const controller::State& state,
                 bool may_grant) {
  if (const auto* join = std::get_if<controller::Join>(&request)) {
    return answer_of(*join, actions, state);
  }
  if (const auto* ask = std::get_if<AskToEnroll>(&request)) {
    return answer_of(ask->join, actions, state);
  }
  if (const auto* open = std::get_if<controller::OpenTarget>(&request)) {
    return answer_of(*open, actions);
  }
  if (const auto* heartbeat = std::get_if<controller::Heartbeat>(&request)) {
    return answer_of(*heartbeat, actions, may_grant);
  }
  if (const auto* fence = std::get_if<controller::Fence>(&request)) {
    return answer_of(*fence, actions, state);
  }
  return answer_of_order(actions);
}

}  // namespace penstock::membership
