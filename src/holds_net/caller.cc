#include "caller.h"

#include <algorithm>
#include <utility>

namespace penstock::holds_net {

Caller::Caller(const HoldsAgentConfig& config, uint16_t& version,
               std::function<void(const Answer*)> done, std::function<void()> again)
    : config_(config), version_(version), done_(std::move(done)), again_(std::move(again)) {
  op_.owner = timer_.owner = this;
  op_.completion = [](engine::Op& op) { op.owner_as<Caller>().on_end(); };
  timer_.completion = [](engine::Op& op) {
    auto& self = op.owner_as<Caller>();
    self.is_pausing_ = false;
    self.again_();
  };
}

void Caller::call(Question question) {
  ASSERT(is_idle() && !has_ended_ && question.words.size() <= limits::kRequestBytesMax);
  question_ = std::move(question);
  std::string& words = question_.words;
  RequestHeader header;
  header.version = version_;
  header.kind = static_cast<uint16_t>(question_.kind);
  header.session = question_.of.session;
  header.caller = question_.caller;
  header.sequence = question_.sequence;
  header.life = question_.life;
  header.length = static_cast<uint32_t>(words.size());
  header.checksum = checksum_of(header, words);
  std::memcpy(op_.asked.data(), &header, sizeof header);
  size_t length = sizeof header;
  op_.exposures[0] = {{room_.get(), limits::kAnswerBytesMax}, engine::Access::place};
  op_.exposure_count = 1;
  if (words.size() <= kShortWords) {
    std::memcpy(op_.asked.data() + length, words.data(), words.size());
    length += words.size();
  } else {
    op_.exposures[1] = {{reinterpret_cast<std::byte*>(words.data()), words.size()},
                        engine::Access::fetch};
    op_.exposure_count = 2;
  }
  op_.to = config_.find ? config_.find() : config_.service;
  op_.method = kMethod;
  op_.request = Bytes(op_.asked).first(length);
  op_.response = op_.answered;
  op_.response_length = 0;
  const engine::Duration time = question_.kind == Kind::attend  ? limits::kAttendTime
                                : question_.kind == Kind::begin ? limits::kBeginTime
                                                                : limits::kSayTime;
  op_.deadline = config_.loop->now() + time;
  is_calling_ = true;
  // A lease counts from here.
  sent_ = config_.loop->clock().lease_now();
  is_sent_ = op_.to.node != NodeId();
  is_sent_ ? config_.net->call(op_) : config_.loop->complete(op_, Code::peer_gone);
}

void Caller::on_end() {
  is_calling_ = false;
  const std::optional<Answer> answer = read();
  if (answer) {
    pause_ = limits::kPauseFirst;
  } else if (!has_ended_) {
    is_pausing_ = true;
    config_.loop->start(timer_, config_.loop->now() + pause_);
    pause_ = std::min(pause_ * 2, limits::kPauseMost);
  }
  done_(answer ? &*answer : nullptr);
}

std::optional<Caller::Answer> Caller::read() {
  Answer answer;
  ResponseHeader& header = answer.header;
  ASSERT(op_.response_length <= op_.answered.size());
  const Bytes answered = Bytes(op_.answered).first(op_.response_length);
  if (answered.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, answered.data(), sizeof header);
  if (op_.status == Status(Code::wrong_version)) learn_version(header);
  const bool is_sound = op_.status.ok() && header.life > 0 && header.is_good <= 1 &&
                        header.length <= limits::kAnswerBytesMax;
  if (!is_sound) return std::nullopt;
  const Bytes behind = answered.subspan(sizeof header);
  const bool is_short = header.length <= kShortTold;
  if (is_short && behind.size() != header.length) return std::nullopt;
  const std::string_view told = text_of(is_short ? behind : Bytes{room_.get(), header.length});
  if (crc32c(bytes_of(told)) != header.checksum) return std::nullopt;
  std::optional<std::vector<Told>> all = decode_told(told, question_.of);
  if (!all) return std::nullopt;
  answer.told = std::move(*all);
  return answer;
}

void Caller::learn_version(const ResponseHeader& header) {
  const wire::Protocol& mine = config_.speaks;
  const bool is_spoken = header.lowest <= mine.highest && header.highest >= mine.lowest;
  if (!is_spoken) return;
  version_ = static_cast<uint16_t>(std::min<uint32_t>(header.highest, mine.highest));
}

void Caller::end() {
  has_ended_ = true;
  if (is_pausing_ && config_.loop->cancel(timer_)) is_pausing_ = false;
  if (is_calling_ && is_sent_) config_.net->cancel(op_);
}

}  // namespace penstock::holds_net
