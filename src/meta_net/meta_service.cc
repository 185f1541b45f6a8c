#include "penstock/meta_net/meta_service.h"

#include "answers.h"
#include "carry_out.h"
#include "frame.h"
#include "limited.h"
#include "messages.h"
#include "served.h"
#include "slots.h"
#include "syncs.h"
#include "turns.h"

#include <array>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace penstock::meta_net {

namespace {

class Service;

// A call, from its coming until it is answered.
struct Asked : Turns::Item {
  Service* service = nullptr;
  engine::IncomingCall* call = nullptr;
  RequestHeader header;
  std::string bytes;
  Request request;
  Slots::Ticket ticket;  // of one that changes something
  AnswerBytes answer;
  engine::TransferOp transfer;
  engine::Op carried_out;
  engine::Time since{};
  bool is_understood = false;  // the request is what was asked
};

// How the call that was carried out has ended, as encode_answer() has it behind the kind.
bool is_failure(const std::string& answer) {
  ASSERT(answer.size() > 1);
  return answer[1] != static_cast<char>(Code::ok);
}

std::optional<uint32_t> exposure_for(const engine::IncomingCall& call, engine::Access access) {
  for (uint32_t i = 0; i < call.exposure_count; ++i) {
    if (call.exposure_access(i) == access) return i;
  }
  return std::nullopt;
}

class Service final : public MetaService, private engine::Service {
 public:
  explicit Service(const MetaServiceConfig& config)
      : config_(config),
        life_(config.loop->random().next() | 1),
        log_(config.loop->clock()),
        syncs_([this] { return config_.meta->sync(); },
               [this](ListNode& item, Status status) {
                 on_synced(static_cast<Asked&>(item), status);
               }),
        turns_(config.threads, config.threads_per_node,
               [this](Turns::Item& item) { carry_out_in_thread(static_cast<Asked&>(item)); }),
        name_turns_(config.threads, config.threads_per_node,
                    [this](Turns::Item& item) { carry_out_in_thread(static_cast<Asked&>(item)); }) {
    ASSERT(config_.net != nullptr && config_.meta != nullptr && config_.address.node != NodeId());
  }
  ~Service() override { ASSERT(figures_.open == 0 && is_started_ == is_stopped_); }

  void start() override {
    ASSERT(!is_started_);
    is_started_ = true;
    config_.net->serve(config_.address, *this);
  }

  void stop(engine::Op& done) override {
    ASSERT(is_started_ && done_ == nullptr);
    done_ = &done;
    config_.net->withdraw(config_.address);
    const auto refuse = [this](Turns::Item& item) {
      give_up(static_cast<Asked&>(item), Code::peer_gone);
    };
    turns_.refuse_waiting(refuse);
    name_turns_.refuse_waiting(refuse);
    end_if_stopped();
  }

  void let_end() override { const std::unique_lock all_others_are_out(under_hold_); }

  Figures figures() const override {
    Figures figures = figures_;
    figures.callers = slots_.callers();
    figures.kept_bytes = slots_.kept_bytes();
    figures.syncs = syncs_.count();
    return figures;
  }

 private:
  // What the open calls of one node take.
  struct Use {
    size_t calls = 0;
    size_t bytes = 0;
  };

  bool is_stopping() const { return done_ != nullptr; }

  // ---- taking ----

  void on_call(engine::IncomingCall& call) override {
    RequestHeader header;
    if (const Status good = check_header(call, header); !good.ok()) return refuse(call, good);
    const auto found = nodes_.find(call.peer().node);
    const Use use = found == nodes_.end() ? Use{} : found->second;
    const bool has_room = figures_.open < limits::kCallsMax && use.calls < limits::kCallsPerNode &&
                          bytes_ + header.length <= limits::kAskedBytesMax &&
                          use.bytes + header.length <= limits::kAskedBytesPerNode;
    if (!has_room) return refuse(call, Code::busy);
    Asked& asked = begin(call, header);
    const Bytes behind = call.request.subspan(sizeof header);
    if (behind.empty()) return fetch(asked);
    asked.bytes = text_of(behind);
    take(asked);
  }

  // ok, or what the call ends with.
  Status check_header(engine::IncomingCall& call, RequestHeader& header) const {
    if (is_stopping()) return Code::peer_gone;
    // Who was removed meanwhile may not be known here.
    if (config_.may_serve && !config_.may_serve()) return Code::peer_gone;
    if ((call.peer().roles & engine::kRoleAgent) == 0) return Code::access_denied;
    if (call.method != kMethod || !read_header(call.request, header)) return Code::bad_message;
    const bool is_spoken =
        header.version >= config_.speaks.lowest && header.version <= config_.speaks.highest;
    if (!is_spoken) return Code::wrong_version;
    const size_t behind = call.request.size() - sizeof header;
    const auto exposure = exposure_for(call, engine::Access::fetch);
    const bool is_here = behind == header.length;
    const bool is_exposed =
        behind == 0 && exposure.has_value() && call.exposure_length(*exposure) >= header.length;
    const bool is_good =
        header.reserved == 0 && header.length > 0 && header.length <= limits::kRequestBytesMax &&
        (is_here || is_exposed) &&
        (header.sequence == 0 ? header.slot == 0 : header.slot < limits::kSlotsMax);
    if (!is_good) return Code::bad_message;
    const bool is_meant = header.service == 0 || header.service == life_;
    return is_meant ? Code::ok : Code::stale;
  }

  void fetch(Asked& asked) {
    asked.bytes.resize(asked.header.length);
    asked.transfer.call = asked.call;
    asked.transfer.exposure = *exposure_for(*asked.call, engine::Access::fetch);
    asked.transfer.local = memory_of(asked.bytes);
    asked.transfer.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Asked>();
      if (!self.transfer.status.ok()) return self.service->reply(self, self.transfer.status);
      self.service->take(self);
    };
    asked.call->fetch(asked.transfer);
  }

  // All of it is here.
  void take(Asked& asked) {
    if (is_stopping()) return reply(asked, Code::peer_gone);
    if (checksum_of(asked.header, asked.bytes) != asked.header.checksum) {
      return refuse(asked, Code::bad_message);
    }
    Result<Request> request = decode_request(asked.bytes);
    asked.bytes = {};
    if (!request) return refuse(asked, request.error());
    if (changes(*request) != (asked.header.sequence > 0)) return refuse(asked, Code::bad_message);
    if (config_.is_early && config_.is_early() && !may_come_early(*request)) {
      return reply(asked, Code::busy);
    }
    asked.request = std::move(*request);
    asked.is_understood = true;
    if (changes(asked.request)) return take_slot(asked);
    turns_.submit(asked);
  }

  void take_slot(Asked& asked) {
    const RequestHeader& header = asked.header;
    Slots::Taken taken = slots_.take({asked.node, header.session, header.caller}, header.slot,
                                     header.sequence, config_.loop->now());
    switch (taken.what) {
      case Slots::Taken::What::run:
        asked.ticket = taken.ticket;
        // What others wait for, such as what they are to be told, does not stand behind it.
        return (waits_for_others(asked.request) ? name_turns_ : turns_).submit(asked);
      case Slots::Taken::What::wait:
        if (*taken.waiting_count >= limits::kWaitingMax) return refuse(asked, Code::busy);
        ++*taken.waiting_count;
        taken.waiting->push_back(asked);
        return;
      case Slots::Taken::What::answer:
        ++figures_.repeated;
        asked.answer = std::move(taken.answer);
        return answer(asked);
      case Slots::Taken::What::unknown:
        return refuse(asked, Code::may_have_happened);
      case Slots::Taken::What::old:
        return refuse(asked, Code::stale);
      case Slots::Taken::What::busy:
        return refuse(asked, Code::busy);
    }
  }

  // ---- carrying out ----

  void carry_out_in_thread(Asked& asked) {
    std::optional<std::string> bytes = answer_of(asked);
    if (bytes) asked.answer = std::make_shared<const std::string>(std::move(*bytes));
    asked.carried_out.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Asked>();
      self.service->on_carried_out(self);
    };
    const bool is_durable = bytes && config_.durable_answers && is_shown(asked.request);
    if (is_durable) return syncs_.submit(asked);
    config_.loop->complete_remote(asked.carried_out, Code::ok);
  }

  // What the restrictions of that version, or later ones, allow.
  Result<Text> capability_for(const Asked& asked, InodeId inode, uint64_t judged,
                              Limited* limited) {
    if (!config_.sign) return Code::not_supported;
    const uint64_t session = asked.header.session;
    const bool has_session = session > 0 && session <= wire::AgentSession::kNumberMost &&
                             (!config_.has_session || config_.has_session(asked.node, session));
    if (!has_session) return Code::stale;
    wire::Capability capability;
    capability.session = wire::AgentSession{asked.node, session}.word();
    capability.judged = judged;
    capability.chain_last = UINT32_MAX;
    if (limited == nullptr) {
      capability.rights = wire::kCapabilityRights;
      capability.inode_first = 1;
      capability.inode_last = UINT64_MAX;
    } else {
      const bool reads_only = limited->limits().what.read_only;
      if (limited->has(inode, kProvenRead)) capability.rights |= wire::kMayRead;
      if (limited->has(inode, kProvenWrite) && !reads_only) capability.rights |= wire::kMayWrite;
      capability.inode_first = capability.inode_last = inode.value;
      // What was not shown in this life may be proven by what an earlier one has given.
      if (capability.rights == 0) {
        return limited->has(inode, kProvenName) ? Code::access_denied : Code::stale;
      }
    }
    TRY(config_.sign(capability));
    const auto* const bytes = reinterpret_cast<const char*>(&capability);
    return Text{std::string(bytes, sizeof capability)};
  }

  // An open file that was judged under the restriction that is in force.
  Result<Nothing> prove(const Asked& asked, const ask::Prove& shown, Limited* limited) {
    const auto capability = wire::decode_capability(bytes_of(shown.capability));
    if (!capability) return capability.error();
    const uint64_t session = asked.header.session;
    const bool is_good = limited != nullptr && config_.is_signed && !capability->is_of_all() &&
                         session > 0 && session <= wire::AgentSession::kNumberMost &&
                         capability->session == wire::AgentSession{asked.node, session}.word() &&
                         capability->judged >= limited->limits().since &&
                         (!config_.has_session || config_.has_session(asked.node, session)) &&
                         config_.is_signed(*capability);
    if (!is_good) {
      deny(asked.node, "shows a right to a file that was not signed for it, or is over");
      return Code::access_denied;
    }
    uint8_t bits = kProvenName;
    if ((capability->rights & wire::kMayRead) != 0) bits |= kProvenRead;
    if ((capability->rights & wire::kMayWrite) != 0) bits |= kProvenWrite;
    limited->prove(InodeId(capability->inode_first), bits);
    return Nothing{};
  }

  // In any thread. Without a reason: it is nothing that an honest node would not ask for.
  void deny(NodeId node, const char* why) {
    denied_.add();
    if (why == nullptr) return;
    log_.warning(fmt::format("denied {} {}", node.value, why),
                 fmt::format("meta: node {} {}", node.value, why));
  }

  std::optional<std::string> answer_of(Asked& asked) {
    const holds::AgentId maker{asked.node, asked.header.session};
    const uint64_t judged = config_.judged ? config_.judged() : 0;
    std::shared_ptr<Limited> limited;
    if (config_.rights != nullptr) {
      auto found = config_.rights->of(asked.node, asked.header.session);
      if (!found) return failed_answer(asked.request, found.error());
      limited = std::move(*found);
    }
    if (limited != nullptr) {
      const Status admitted = limited->admit(asked.request);
      if (!admitted.ok()) {
        const bool is_said = admitted == Code::stale || admitted == Code::access_denied;
        deny(asked.node, is_said ? "is restricted, and asks for what it was not shown, or for what "
                                   "it or its users may not"
                                 : nullptr);
        return failed_answer(asked.request, admitted);
      }
    }
    if (const auto* wanted = std::get_if<ask::Capability>(&asked.request)) {
      return encode_answer<ask::Capability>(
          capability_for(asked, wanted->inode, judged, limited.get()));
    }
    if (const auto* shown = std::get_if<ask::Prove>(&asked.request)) {
      return encode_answer<ask::Prove>(prove(asked, *shown, limited.get()));
    }
    if (limited != nullptr && config_.sign && std::holds_alternative<ask::Access>(asked.request)) {
      std::optional<std::string> answer = carry_out(config_, maker, asked.request, limited.get());
      const auto ended = answer ? decode_answer<ask::Access>(*answer) : std::nullopt;
      if (!ended || !*ended) return answer;
      // What cannot be signed now is asked for when it is needed.
      const InodeId inode = std::get<ask::Access>(asked.request).inode;
      const auto signed_one = capability_for(asked, inode, judged, limited.get());
      return signed_one ? encode_answer<ask::Access>(*signed_one) : std::move(answer);
    }
    if (!config_.has_session || !needs_hold(asked.request)) {
      return carry_out(config_, maker, asked.request, limited.get());
    }
    // As long as it is looked at and done, so that who waits for the session's end waits for it.
    const std::shared_lock inside(under_hold_);
    return config_.has_session(asked.node, asked.header.session)
               ? carry_out(config_, maker, asked.request, limited.get())
               : failed_answer(asked.request, Code::stale);
  }

  // In the thread that syncs. Without that it may be gone after a power cut, and nothing shows it.
  void on_synced(Asked& asked, Status status) {
    if (!status.ok()) {
      asked.answer = std::make_shared<const std::string>(failed_answer(asked.request, status));
    }
    config_.loop->complete_remote(asked.carried_out, Code::ok);
  }

  void on_carried_out(Asked& asked) {
    if (asked.answer == nullptr) return give_up(asked, Code::peer_gone);
    IntrusiveList<ListNode> waiting;
    if (asked.ticket) {
      slots_.take_waiting(asked.ticket, waiting);
      slots_.end(asked.ticket, asked.answer, config_.loop->now());
    }
    while (ListNode* const node = waiting.pop_front()) {
      auto& other = static_cast<Asked&>(*node);
      ++figures_.repeated;
      other.answer = asked.answer;
      answer(other);
    }
    answer(asked);
  }

  // It was not begun, and is not.
  void give_up(Asked& asked, Status status) {
    IntrusiveList<ListNode> waiting;
    if (asked.ticket) {
      slots_.take_waiting(asked.ticket, waiting);
      slots_.give_up(asked.ticket);
    }
    while (ListNode* const node = waiting.pop_front()) reply(static_cast<Asked&>(*node), status);
    reply(asked, status);
  }

  // ---- answering ----

  void answer(Asked& asked) {
    const std::string& bytes = *asked.answer;
    if (bytes.size() <= kShortAnswer) return reply(asked, Code::ok);
    const auto exposure = exposure_for(*asked.call, engine::Access::place);
    if (!exposure || asked.call->exposure_length(*exposure) < bytes.size()) {
      return reply(asked, Code::result_too_large);
    }
    asked.transfer.call = asked.call;
    asked.transfer.exposure = *exposure;
    asked.transfer.local = memory_of(bytes);
    asked.transfer.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Asked>();
      self.service->reply(self, self.transfer.status);
    };
    asked.call->place(asked.transfer);
  }

  ResponseHeader response() const {
    ResponseHeader header;
    header.lowest = static_cast<uint16_t>(config_.speaks.lowest);
    header.highest = static_cast<uint16_t>(config_.speaks.highest);
    header.service = life_;
    return header;
  }

  // With the answer, where there is one: its length, and with ok its bytes, if they are few.
  void reply(Asked& asked, Status status) {
    std::array<std::byte, engine::kNetMessageMax> message;
    ResponseHeader header = response();
    size_t length = sizeof header;
    if (asked.answer != nullptr && (status.ok() || status == Code::result_too_large)) {
      const std::string& bytes = *asked.answer;
      header.length = static_cast<uint32_t>(bytes.size());
      header.checksum = crc32c(bytes_of(bytes));
      if (status.ok() && bytes.size() <= kShortAnswer) {
        std::memcpy(message.data() + length, bytes.data(), bytes.size());
        length += bytes.size();
      }
    }
    std::memcpy(message.data(), &header, sizeof header);
    ++figures_.answered;
    if (asked.is_understood) {
      // What finds no room is no failure: it is asked for again.
      const bool failed = asked.answer == nullptr || is_failure(*asked.answer);
      served_.add(asked.request, failed, config_.loop->now() - asked.since);
    }
    asked.call->reply(status, Bytes(message).first(length));
    end(asked);
  }

  // Not let in, or not to be understood.
  void refuse(engine::IncomingCall& call, Status status) {
    count_refusal(call.peer().node, status.code());
    const ResponseHeader header = response();
    call.reply(status, std::as_bytes(std::span(&header, 1)));
  }
  void refuse(Asked& asked, Status status) {
    count_refusal(asked.node, status.code());
    asked.answer = nullptr;
    reply(asked, status);
  }
  void count_refusal(NodeId node, Code code) {
    if (code == Code::busy) ++figures_.busy;
    ++figures_.refused;
    refused_.add();
    const auto say = [&](const char* why) {
      log_.warning(fmt::format("{} {}", why, node.value),
                   fmt::format("meta: a call of node {} is refused: {}", node.value, why));
    };
    if (code == Code::access_denied) say("its certificate does not give it the role of an agent");
    if (code == Code::bad_message) say("it cannot be understood");
    if (code == Code::wrong_version) say("it is in a version that is not spoken here");
    if (code == Code::busy) say("too many wait, of that node or of all");
    if (code == Code::may_have_happened) say("it is repeated, and its answer found no room");
  }

  // ---- of every call ----

  Asked& begin(engine::IncomingCall& call, const RequestHeader& header) {
    auto* asked = new Asked;  // until end()
    asked->service = this;
    asked->call = &call;
    asked->header = header;
    asked->node = call.peer().node;
    asked->since = config_.loop->now();
    asked->transfer.owner = asked->carried_out.owner = asked;
    ++figures_.open;
    Use& use = nodes_[asked->node];
    ++use.calls;
    use.bytes += header.length;
    bytes_ += header.length;
    return *asked;
  }

  void end(Asked& asked) {
    const std::unique_ptr<Asked> self(&asked);
    const auto use = nodes_.find(asked.node);
    ASSERT(use != nodes_.end() && use->second.calls > 0 && figures_.open > 0);
    ASSERT(use->second.bytes >= asked.header.length && bytes_ >= asked.header.length);
    --figures_.open;
    use->second.bytes -= asked.header.length;
    bytes_ -= asked.header.length;
    if (--use->second.calls == 0) nodes_.erase(use);
    end_if_stopped();
  }

  void end_if_stopped() {
    if (!is_stopping() || figures_.open > 0 || is_stopped_) return;
    is_stopped_ = true;
    config_.loop->complete(*done_, Code::ok);
  }

  const MetaServiceConfig config_;
  const uint64_t life_;
  engine::RepeatedLog log_;
  Slots slots_;
  std::map<NodeId, Use> nodes_;  // that have open calls
  size_t bytes_ = 0;
  Figures figures_;
  // Of nodes that are restricted: calls that they had no right to.
  metrics::Counter denied_{"meta.denied"};
  metrics::Counter refused_{"meta.refused"};  // calls that were not let in
  Served served_;
  bool is_started_ = false;
  bool is_stopped_ = false;
  engine::Op* done_ = nullptr;
  // Last: their threads use what is above, and those of turns the syncs.
  engine::SharedMutex under_hold_{engine::Held::across_calls};
  Syncs syncs_;
  Turns turns_;
  Turns name_turns_;  // of calls that wait for other agents
};

}  // namespace

std::unique_ptr<MetaService> MetaService::make(const MetaServiceConfig& config) {
  return std::make_unique<Service>(config);
}

}  // namespace penstock::meta_net
