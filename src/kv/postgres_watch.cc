#include "postgres_watch.h"

#include "limits.h"
#include "postgres_schema.h"

namespace penstock::kv::postgres {

// One that hangs counts as one that does not answer.
Outcome<std::vector<Answer>> Watch::run(std::span<const Step> steps) {
  const engine::Time deadline = engine::system_clock().now() + engine::Duration(kPostgresLookTime);
  if (link_ == nullptr || !link_->still_usable()) {
    link_.reset();
    TRY_ASSIGN(auto link, connect(address_));
    TRY_ASSIGN(const Found found, look_at_server(*link, address_.name(), deadline));
    if (!found.writable) {
      return failure(Code::read_only, address_.name(), "it takes no writes at the moment", "");
    }
    if (const auto ready = set_up_session(*link, deadline); !ready) {
      return failure(ready.error().status, address_.name(), ready.error().reason, "");
    }
    link_ = std::move(link);
  }
  auto answers = link_->run(steps, deadline);
  if (answers) return std::move(*answers);
  link_.reset();
  return failure(answers.error().status, address_.name(), answers.error().reason, "");
}

Outcome<Watch::Seen> Watch::look(std::span<const std::string> keys) {
  std::vector<Arguments> names(keys.size());
  std::vector<Step> steps = {{statement::kAbout, kNoArguments},
                             {statement::kReadOwner, kNoArguments},
                             {statement::kStandbys, kNoArguments}};
  const size_t first = steps.size();
  for (size_t i = 0; i < keys.size(); ++i) {
    names[i].bytes(keys[i]);
    steps.push_back({statement::kGet, names[i]});
  }
  TRY_ASSIGN(const std::vector<Answer> answers, run(steps));
  ASSERT(answers.size() == steps.size());
  const Answer& owner = answers[1];
  if (answers[0].rows() != 1 || answers[0].bytes(0, 1) != cluster_ || owner.rows() != 1 ||
      !owner.number(0, 1)) {
    return failure(Code::corrupt, address_.name(), "does not say any more who has its names", "");
  }
  Seen seen;
  seen.process = owner.bytes(0, 0);
  seen.term = *owner.number(0, 1);
  seen.who = owner.bytes(0, 2);
  for (int row = 0; row < answers[2].rows(); ++row) {
    seen.standbys.emplace_back(answers[2].bytes(row, 0));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const Answer& record = answers[first + i];
    seen.values.push_back(record.rows() == 0 ? std::nullopt
                                             : std::optional(std::string(record.bytes(0, 0))));
  }
  return seen;
}

Outcome<void> Watch::stand_by(const std::string& number, const std::string& who) {
  Arguments mine;
  mine.bytes(number).bytes(who);
  const Step steps[] = {{statement::kStandBy, mine}};
  TRY(run(steps));
  return {};
}

Outcome<void> Watch::stop_standing_by(const std::string& number) {
  Arguments mine;
  mine.bytes(number);
  const Step steps[] = {{statement::kStopStandingBy, mine}};
  TRY(run(steps));
  return {};
}

Outcome<void> Watch::tell(const std::string& process, const std::string& who) {
  Arguments mine;
  mine.bytes(process).bytes(who);
  const Step steps[] = {{statement::kTellOwner, mine}};
  TRY_ASSIGN(const std::vector<Answer> answers, run(steps));
  if (answers.front().command() == "UPDATE 1") return {};
  return failure(Code::stale, address_.name(), "another process has its names", "");
}

}  // namespace penstock::kv::postgres
