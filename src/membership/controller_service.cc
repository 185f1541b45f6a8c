#include "penstock/membership/controller_service.h"

#include "keeper_thread.h"

#include <utility>

namespace penstock::membership {

namespace {

class Service;

// A call, or a question of the controller's own process, from its coming until it is answered.
struct Asked : ListNode {
  Service* service = nullptr;
  engine::IncomingCall* call = nullptr;  // null: of this process
  std::function<void(const Answer&)> then;
  std::string asked;
  uint32_t length = 0;  // of what is asked, counted in the service's bytes
  std::string answer;
  engine::TransferOp transfer;
  KeeperJob job;
  engine::Timer timer;
  bool is_held = false;
  bool is_guest = false;
};

engine::MemoryRef memory_of(const std::string& bytes) {
  // Transfers that take bytes from it do not write to it.
  return {reinterpret_cast<std::byte*>(const_cast<char*>(bytes.data())), bytes.size()};  // NOLINT
}

// The node that a message says it is of; none for what has no sender.
const controller::Sender* sender_of(const Request& request) {
  return std::visit(
      [](const auto& one) -> const controller::Sender* {
        if constexpr (requires { one.from.incarnation; }) return &one.from;
        return nullptr;
      },
      request);
}

class Service final : public ControllerService, private engine::Service {
 public:
  explicit Service(const ControllerServiceConfig& config) : config_(config) {
    ASSERT(config_.loop != nullptr && config_.net != nullptr && config_.node != NodeId());
  }
  ~Service() override {
    ASSERT(keeper_ == nullptr || is_stopped_);
    ASSERT(open_ == 0 && held_ == 0 && asked_bytes_ == 0);
  }

  void start() override {
    ASSERT(keeper_ == nullptr && !stopping_);
    keeper_ = std::make_unique<KeeperThread>(config_, [this](const auto& news) { on_news(news); });
    config_.net->serve(address(), *this);
    config_.net->serve(guests_address(), door_);
  }

  void stop(engine::Op& done) override {
    ASSERT(keeper_ != nullptr && !stopping_);
    stopping_ = true;
    done_ = &done;
    config_.net->withdraw(address());
    config_.net->withdraw(guests_address());
    let_go();
    stopped_.owner = this;
    stopped_.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Service>();
      self.keeper_stopped_ = true;
      self.end_if_stopped();
    };
    keeper_->stop(stopped_);
  }

  void admit(const controller::Join& join, std::function<void(const Answer&)> then) override {
    ASSERT(keeper_ != nullptr);
    if (stopping_) return;
    Asked& asked = begin();
    asked.then = std::move(then);
    asked.job.request = join;
    asked.job.is_at_home = true;
    submit(asked);
  }

  Status status() const override {
    return {news_.leads, news_.version, waiting_, held_, answered_, busy_};
  }

 private:
  engine::Address address() const { return {config_.node, wire::kControllerService}; }

  engine::Address guests_address() const { return {config_.node, wire::kGuestService}; }

  void on_call(engine::IncomingCall& call) override {
    const auto words = words_of(call);
    if (!words) return;
    const bool has_room =
        open_ < config_.calls_max && asked_bytes_ + words->length <= limits::kAskedBytesMax;
    if (!has_room) {
      ++busy_;
      return call.reply(Code::busy, {});
    }
    fetch(begin(), call, *words);
  }

  // Guests are strangers: what they ask has come with the call, or it is not looked at.
  void on_guest_call(engine::IncomingCall& call) {
    const auto words = words_of(call);
    if (!words) return;
    if (words->length > wire::kGuestBytesMax) return call.reply(Code::bad_message, {});
    const auto bytes = call.direct(0);
    if (!bytes || guests_ >= limits::kGuestCallsMax) return call.reply(Code::busy, {});
    const std::string_view asked_bytes(reinterpret_cast<const char*>(bytes->data), words->length);
    Result<Request> request = decode_request(asked_bytes, words->version);
    if (!request) return call.reply(request.error(), {});
    Asked& asked = begin();
    asked.call = &call;
    asked.job.version = words->version;
    asked.is_guest = true;
    ++guests_;
    asked.job.request = std::move(*request);
    asked.job.from = call.peer();
    const bool is_for_guests = std::holds_alternative<AskToEnroll>(asked.job.request) ||
                               std::holds_alternative<AskCertificate>(asked.job.request) ||
                               std::holds_alternative<controller::Join>(asked.job.request);
    if (!is_for_guests) return reply(asked, Code::access_denied);
    submit(asked);
  }

  // None, and the call has its answer, where it cannot be a question.
  std::optional<wire::MembershipRequest> words_of(engine::IncomingCall& call) const {
    const auto refuse = [&](penstock::Status status, Bytes response = {}) {
      call.reply(status, response);
      return std::nullopt;
    };
    if (stopping_) return refuse(Code::peer_gone);
    if (call.method != static_cast<uint16_t>(wire::MembershipMethod::ask)) {
      return refuse(Code::bad_message);
    }
    const Result<wire::MembershipRequest> words =
        wire::decode_membership_request(call.request, config_.speaks);
    if (!words && words.error() == Code::wrong_version) {
      const wire::MembershipResponse spoken = response(0);
      return refuse(Code::wrong_version, std::as_bytes(std::span(&spoken, 1)));
    }
    if (!words) return refuse(words.error());
    const bool is_good = call.exposure_count == 2 &&
                         call.exposure_access(0) == engine::Access::fetch &&
                         call.exposure_access(1) == engine::Access::place &&
                         call.exposure_length(0) >= words->length && call.exposure_length(1) > 0;
    if (!is_good) return refuse(Code::bad_message);
    return *words;
  }
  wire::MembershipResponse response(uint32_t length) const {
    return {length, static_cast<uint16_t>(config_.speaks.lowest),
            static_cast<uint16_t>(config_.speaks.highest)};
  }

  Asked& begin() {
    auto* asked = new Asked;  // until end()
    asked->service = this;
    asked->job.owner = asked->timer.owner = asked->transfer.owner = asked;
    asked->job.completion = [](engine::Op& op) { on_job(op.owner_as<Asked>()); };
    ++open_;
    return *asked;
  }

  void end(Asked& asked) {
    const std::unique_ptr<Asked> self(&asked);
    ASSERT(open_ > 0 && asked_bytes_ >= asked.length && !asked.is_held);
    --open_;
    if (asked.is_guest) --guests_;
    asked_bytes_ -= asked.length;
    end_if_stopped();
  }
  void reply(Asked& asked, penstock::Status status, Bytes response = {}) {
    if (asked.call != nullptr) asked.call->reply(status, response);
    end(asked);
  }

  void fetch(Asked& asked, engine::IncomingCall& call, const wire::MembershipRequest& words) {
    asked.call = &call;
    asked.job.version = words.version;
    asked.length = words.length;
    asked_bytes_ += words.length;
    asked.asked.resize(words.length);
    asked.transfer.call = &call;
    asked.transfer.exposure = 0;
    asked.transfer.local = memory_of(asked.asked);
    asked.transfer.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Asked>();
      self.service->on_fetched(self);
    };
    call.fetch(asked.transfer);
  }

  void on_fetched(Asked& asked) {
    if (!asked.transfer.status.ok()) return reply(asked, asked.transfer.status);
    if (stopping_) return reply(asked, Code::peer_gone);
    Result<Request> request = decode_request(asked.asked, asked.job.version);
    asked.asked = {};
    if (!request) return reply(asked, request.error());
    asked.job.request = std::move(*request);
    asked.job.from = asked.call->peer();
#if PENSTOCK_NEXT_PROTOCOL
    if (const auto* beat = std::get_if<controller::Heartbeat>(&asked.job.request)) {
      (beat->uptime_ms != 0 ? with_field_ : without_field_).add();
    }
#endif
    const controller::Sender* sender = sender_of(asked.job.request);
    if (sender != nullptr && sender->node != asked.job.from.node) {
      return reply(asked, Code::access_denied);
    }
    if (may_wait(asked)) return hold(asked);
    submit(asked);
  }

  // A question for the beginning of news that there are not.
  bool may_wait(const Asked& asked) const {
    const auto* ask = std::get_if<AskMap>(&asked.job.request);
    return ask != nullptr && news_.leads && ask->from == MapPlace{} && ask->known == news_.version;
  }
  void hold(Asked& asked) {
    asked.is_held = true;
    ++held_;
    held_calls_.push_back(asked);
    asked.timer.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Asked>();
      self.service->release(self);
      self.service->submit(self);
    };
    config_.loop->start(asked.timer, config_.loop->now() + config_.map_wait);
  }
  void release(Asked& asked) {
    ASSERT(asked.is_held && held_ > 0);
    asked.unlink();
    asked.is_held = false;
    --held_;
  }
  Asked& release_first() {
    Asked& asked = held_calls_.front();
    const bool was_waiting = config_.loop->cancel(asked.timer);
    ASSERT(was_waiting);
    release(asked);
    return asked;
  }

  void submit(Asked& asked) {
    if (stopping_) return reply(asked, Code::peer_gone);
    ++waiting_;
    keeper_->submit(asked.job);
  }

  void on_news(const KeeperThread::News& news) {
    news_ = news;
    while (!held_calls_.empty()) submit(release_first());
  }
  // What waits is not answered any more.
  void let_go() {
    while (!held_calls_.empty()) reply(release_first(), Code::peer_gone);
    while (!told_late_.empty()) {
      Asked& asked = told_late_.front();
      const bool was_waiting = config_.loop->cancel(asked.timer);
      ASSERT(was_waiting);
      no_more_late(asked);
      reply(asked, Code::peer_gone);
    }
  }

  static void on_job(Asked& asked) {
    Service& self = *asked.service;
    ASSERT(self.waiting_ > 0);
    --self.waiting_;
    if (self.stopping_) return self.reply(asked, Code::peer_gone);
    ++self.answered_;
    if (asked.call == nullptr) {
      asked.then(asked.job.answer);
      return self.end(asked);
    }
    if (self.is_wrong_token(asked)) return self.let_wait(asked);
    self.place(asked);
  }

  // Who guesses tokens waits for each answer; who knows one waits for nobody.
  bool is_wrong_token(const Asked& asked) const {
    const auto* refused = std::get_if<controller::Refused>(&asked.job.answer);
    return asked.is_guest && std::holds_alternative<AskToEnroll>(asked.job.request) &&
           refused != nullptr && refused->code == Code::access_denied;
  }
  void let_wait(Asked& asked) {
    if (wrong_tokens_ >= limits::kWrongTokensMax) return place(asked);
    asked.is_guest = false;
    --guests_;
    ++wrong_tokens_;
    told_late_.push_back(asked);
    asked.timer.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Asked>();
      self.service->no_more_late(self);
      self.service->place(self);
    };
    config_.loop->start(asked.timer, config_.loop->now() + limits::kWrongTokenPause);
  }

  void no_more_late(Asked& asked) {
    ASSERT(wrong_tokens_ > 0);
    asked.unlink();
    --wrong_tokens_;
  }

  void place(Asked& asked) {
    if (config_.loop->clock().lease_now() >= asked.job.grants_until) {
      asked.job.answer =
          controller::Refused{Code::not_serving, "the controller's own lease is over; ask again"};
    }
    if (asked.job.bytes == nullptr) {
      asked.answer = encode(asked.job.answer, asked.job.version);
    }
    const std::string& bytes = asked.job.bytes != nullptr ? *asked.job.bytes : asked.answer;
    ASSERT(!bytes.empty() && bytes.size() <= wire::kMembershipBytesMax);
    if (bytes.size() > asked.call->exposure_length(1)) return reply(asked, Code::result_too_large);
    asked.transfer.exposure = 1;
    asked.transfer.local = memory_of(bytes);
    asked.transfer.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Asked>();
      self.service->on_placed(self);
    };
    asked.call->place(asked.transfer);
  }
  void on_placed(Asked& asked) {
    if (!asked.transfer.status.ok()) return reply(asked, asked.transfer.status);
    const auto words = response(static_cast<uint32_t>(asked.transfer.local.length));
    reply(asked, Code::ok, std::as_bytes(std::span(&words, 1)));
  }

  void end_if_stopped() {
    if (!keeper_stopped_ || open_ > 0 || is_stopped_) return;
    is_stopped_ = true;
    config_.loop->complete(*done_, Code::ok);
  }

  using Owner = Service;
  struct Door final : engine::Service {
    explicit Door(Owner& its_owner) : owner(its_owner) {}
    void on_call(engine::IncomingCall& call) override { owner.on_guest_call(call); }
    Owner& owner;
  };

  const ControllerServiceConfig config_;
  Door door_{*this};
#if PENSTOCK_NEXT_PROTOCOL
  metrics::Counter with_field_{"membership.next.with_field"};
  metrics::Counter without_field_{"membership.next.without_field"};
#endif
  KeeperThread::News news_;
  IntrusiveList<Asked> held_calls_;  // questions for the map that wait for news
  size_t open_ = 0;
  size_t held_ = 0;
  size_t waiting_ = 0;
  size_t asked_bytes_ = 0;
  size_t guests_ = 0;               // calls of these
  IntrusiveList<Asked> told_late_;  // of wrong tokens, so many
  size_t wrong_tokens_ = 0;
  uint64_t answered_ = 0;
  uint64_t busy_ = 0;
  bool stopping_ = false;
  bool keeper_stopped_ = false;
  bool is_stopped_ = false;
  engine::Op stopped_;
  engine::Op* done_ = nullptr;
  std::unique_ptr<KeeperThread> keeper_;
};

}  // namespace

std::unique_ptr<ControllerService> ControllerService::make(const ControllerServiceConfig& config) {
  return std::make_unique<Service>(config);
}

}  // namespace penstock::membership
