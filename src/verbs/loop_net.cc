#include "loop_net.h"

#include <algorithm>
#include <thread>

#include "penstock/base.h"

namespace penstock::verbs::internal {

using engine::Address;
using engine::CallOp;
using engine::Service;

LoopNet::LoopNet(const NetConfig& wanted, Provider& device, engine::Loop& owner,
                 engine::Parker* parker)
    : config(wanted),
      provider(device),
      loop(owner),
      registrations(device, wanted.pinned_bytes_max),
      windows(device),
      parker_(parker) {
  ASSERT(config.introducer != nullptr && config.calls_max <= limits::kCallsMax);
  timer_.owner = this;
  timer_.completion = [](engine::Op& op) { op.owner_as<LoopNet>().look(); };
}

LoopNet::~LoopNet() {
  close();
  ASSERT(links_.empty() && dirty.empty());
  for (const Slab& slab : slabs_) provider.deregister_memory(slab.memory);
}

Status LoopNet::create() {
  if (parker_ != nullptr) {
    if (provider.wake_descriptor() < 0) return Code::not_supported;
    TRY(parker_->watch(provider.wake_descriptor()));
  }
  loop.add(*this);
  loop.start(timer_, loop.now() + config.patience.look);
  attached_ = true;
  return Code::ok;
}

void LoopNet::close() {
  if (closed_) return;
  closed_ = true;
  if (!attached_) return;
  while (!services_.empty()) withdraw({config.self, services_.begin()->first});
  const auto introducing = [this] {
    return std::ranges::any_of(links_, [](const auto& entry) { return !entry.second->may_go(); });
  };
  for (const auto& [number, link] : links_) link->doom(Code::closed, "this side closes");
  (void)flush();
  while (introducing()) {
    if (!loop.poll()) std::this_thread::yield();
  }
  (void)flush();
  (void)loop.cancel(timer_);
  loop.remove(*this);
  if (parker_ != nullptr) parker_->forget(provider.wake_descriptor());
}

bool LoopNet::poll() {
  std::array<Completion, limits::kPollMax> completions;
  const size_t count = provider.poll(completions);
  for (size_t i = 0; i < count; ++i) dispatch(completions[i]);
  if (count != 0) top_up();
  return flush() || count != 0;
}

bool LoopNet::prepare_sleep() {
  return !flush() && provider.arm();
}

void LoopNet::woke() {
  provider.disarm();
}

void LoopNet::dispatch(const Completion& completion) {
  if (!completion.is_receive) {
    const auto found = links_.find(static_cast<uint32_t>(completion.id >> 32));
    if (found == links_.end()) return;
    return found->second->on_completion(static_cast<uint32_t>(completion.id), completion.status);
  }
  ASSERT(posted_receives_ > 0);
  --posted_receives_;
  const auto found = pairs_.find(completion.queue_pair.value);
  if (found != pairs_.end()) {
    Link& link = *found->second;
    if (completion.status.ok()) {
      link.on_message(Bytes(receive_buffer(completion.id)).first(completion.length));
    } else {
      link.doom(Code::peer_gone, "the queue pair broke");
    }
  }
  free_receives_.push_back(completion.id);
}

bool LoopNet::flush() {
  bool worked = false;
  IntrusiveList<Link> now;
  now.take_all(dirty);
  while (Link* const link = now.pop_front()) {
    worked = true;
    if (!link->doomed()) link->pump();
    if (link->doomed() && !link->over()) retire(*link);
  }
  if (std::exchange(reap_, false)) {
    std::erase_if(links_,
                  [](const auto& entry) { return entry.second->over() && entry.second->may_go(); });
  }
  return worked;
}

void LoopNet::retire(Link& link) {
  link.end();
  reap_ = true;
  pairs_.erase(link.pair().value);
  if (link.joined() && link.end_status().code() != Code::closed) {
    ++counted.links_lost;
    log::warning("verbs: {}: the connection with node {} ended: {}", provider.facts().name,
                 link.other().value, link.trouble());
  }
  auto* const caller = dynamic_cast<CallerLink*>(&link);
  if (caller == nullptr) return;
  Contact& contact = contacts_[caller->to()];
  if (contact.link == caller) contact.link = nullptr;
  contact.last = link.end_status();
  contact.trouble = link.trouble();
  const bool is_short =
      config.otherwise != nullptr && loop.now() - link.joined_at() < limits::kProvenAfter;
  const bool was_well = link.joined() && !is_short;
  if (!caller->was_ready()) config.introducer->came_to_nothing(caller->to());
  contact.pause = was_well ? engine::Duration() : next_pause(contact.pause);
  contact.not_before = loop.now() + contact.pause;
}

// Where calls go another way meanwhile, nobody waits for the next attempt.
engine::Duration LoopNet::next_pause(engine::Duration last) const {
  if (config.otherwise == nullptr) return limits::kRetryAfter;
  return std::clamp<engine::Duration>(2 * last, limits::kRetryAfter, limits::kRetryMax);
}

MutableBytes LoopNet::receive_buffer(uint64_t id) const {
  const Slab& slab = slabs_[id / limits::kReceivesOfLink];
  const uint64_t index = id % limits::kReceivesOfLink;
  return {slab.bytes.get() + index * limits::kMessageBytesMax, limits::kMessageBytesMax};
}

Status LoopNet::add_slab() {
  constexpr size_t kBytes = size_t{limits::kReceivesOfLink} * limits::kMessageBytesMax;
  Slab slab{std::make_unique<std::byte[]>(kBytes), {}};
  TRY_ASSIGN(slab.memory, provider.register_memory({slab.bytes.get(), kBytes}, true));
  const uint64_t first = slabs_.size() * uint64_t{limits::kReceivesOfLink};
  slabs_.push_back(std::move(slab));
  for (uint32_t i = 0; i < limits::kReceivesOfLink; ++i) free_receives_.push_back(first + i);
  return Code::ok;
}

void LoopNet::top_up() {
  while (posted_receives_ < opened() * limits::kReceivesOfLink && !free_receives_.empty()) {
    const uint64_t id = free_receives_.back();
    const MemoryId memory = slabs_[id / limits::kReceivesOfLink].memory;
    if (!provider.post_receive(id, receive_buffer(id), memory).ok()) return;
    free_receives_.pop_back();
    ++posted_receives_;
  }
}

CallerLink* LoopNet::link_to(Address address, Status& refused) {
  Contact& contact = contacts_[address];
  if (contact.link != nullptr) {
    if (!contact.link->doomed() && !contact.link->over()) return contact.link;
    // Its end is carried out in the next turn.
    refused = contact.link->end_status();
    return nullptr;
  }
  refused = contact.last;
  if (loop.now() < contact.not_before) return nullptr;
  refused = Code::busy;
  if (links_.size() >= limits::kLinksMax || !trouble_.empty()) {
    if (!trouble_.empty()) refused = Code::peer_gone;
    return nullptr;
  }
  auto link = std::make_unique<CallerLink>(*this, ++last_link_, address);
  contact.link = link.get();
  CallerLink& made = *link;
  links_.emplace(made.id(), std::move(link));
  made.start();
  if (made.doomed()) {
    refused = made.end_status();
    return nullptr;
  }
  pairs_.emplace(made.pair().value, &made);
  if (free_receives_.size() + posted_receives_ < opened() * limits::kReceivesOfLink &&
      !add_slab().ok()) {
    made.doom(Code::no_memory, "no receive buffers could be made");
    refused = Code::no_memory;
    return nullptr;
  }
  top_up();
  return &made;
}

void LoopNet::refuse(CallOp& op, Status status) {
  if (config.otherwise == nullptr) {
    CallerLink::mark_refused(op);
    return loop.complete(op, status);
  }
  op.carrier = config.otherwise;
  config.otherwise->call(op);
}

void LoopNet::call(CallOp& op) {
  op.response_length = 0;
  CallerLink::mark_refused(op);
  if (closed_) return refuse(op, Code::closed);
  if (op.request.size() > engine::kNetMessageMax || op.response.size() > engine::kNetMessageMax ||
      op.exposure_count > engine::kNetExposuresMax) {
    return loop.complete(op, Code::invalid_argument);
  }
  for (uint32_t i = 0; i < op.exposure_count; ++i) {
    const engine::MemoryRef& memory = op.exposures[i].memory;
    if (memory.length > limits::kSpanBytesMax) return loop.complete(op, Code::invalid_argument);
  }
  if (op.deadline <= loop.clock().now()) return loop.complete(op, Code::timed_out);
  Status refused = Code::peer_gone;
  CallerLink* const link = link_to(op.to, refused);
  const bool must_stand = config.otherwise != nullptr;
  if (link == nullptr || (must_stand && !link->is_ready())) return refuse(op, refused);
  link->call(op);
}

void LoopNet::cancel(CallOp& op) {
  if (op.carrier != nullptr && op.carrier == config.otherwise) return op.carrier->cancel(op);
  if (CallerLink* const link = CallerLink::link_of(op)) link->cancel(op);
}

void LoopNet::serve(Address address, Service& service) {
  ASSERT(address.node == config.self && !closed_);
  const bool added = services_.emplace(address.service, &service).second;
  ASSERT(added);
}

void LoopNet::withdraw(Address address) {
  if (address.node != config.self || services_.erase(address.service) == 0) return;
  for (const auto& [number, link] : links_) {
    auto* const server = dynamic_cast<ServerLink*>(link.get());
    if (server != nullptr && server->service() == address.service) server->withdraw();
  }
}

Result<Offer> LoopNet::accept(engine::Peer peer, uint32_t service, const Offer& theirs) {
  const auto found = services_.find(service);
  if (closed_ || !trouble_.empty() || found == services_.end()) return Code::peer_gone;
  const auto of_node = std::ranges::count_if(
      links_, [&](const auto& entry) { return entry.second->other() == peer.node; });
  if (links_.size() >= limits::kLinksMax || of_node >= limits::kLinksOfNode) return Code::busy;
  auto link = std::make_unique<ServerLink>(*this, ++last_link_, service, *found->second, peer);
  ServerLink& made = *link;
  TRY_ASSIGN(const Offer ours, made.open(config.calls_max));
  pairs_.emplace(made.pair().value, &made);
  links_.emplace(made.id(), std::move(link));
  Status status = Code::ok;
  if (free_receives_.size() + posted_receives_ < opened() * limits::kReceivesOfLink) {
    status = add_slab();
  }
  top_up();
  if (status.ok()) status = made.join(theirs);
  if (status.ok()) return ours;
  made.doom(status, "no queue pair could be joined to the caller's");
  return status;
}

void LoopNet::lose(NodeId node) {
  for (const auto& [number, link] : links_) {
    if (link->other() == node) link->doom(Code::peer_gone, "its proven connection ended");
  }
}

bool LoopNet::prepare(Address address) {
  Status refused;
  const CallerLink* const link = closed_ ? nullptr : link_to(address, refused);
  return link != nullptr && link->is_ready();
}

bool LoopNet::reaches(NodeId node) const {
  return std::ranges::any_of(contacts_, [&](const auto& entry) {
    return entry.first.node == node && entry.second.link != nullptr;
  });
}

void LoopNet::keep_callers(const std::function<bool(const engine::Peer&)>& is_vouched_for) {
  for (const auto& [number, link] : links_) {
    auto* const server = dynamic_cast<ServerLink*>(link.get());
    if (server == nullptr || link->over() || is_vouched_for(server->peer())) continue;
    link->doom(Code::peer_gone, "nothing proves any more who calls");
  }
}

std::vector<LinkFacts> LoopNet::links() const {
  std::vector<LinkFacts> facts;
  for (const auto& [address, contact] : contacts_) {
    const bool joined = contact.link != nullptr && contact.link->is_ready();
    facts.push_back({address, joined, joined ? "" : contact.trouble});
  }
  return facts;
}

bool LoopNet::is_quiet() const {
  return links_.empty() && pool.taken() == 0;
}

void LoopNet::look() {
  while (const auto event = provider.next_event()) on_event(*event);
  for (const auto& [number, link] : links_) link->look(loop.now());
  loop.start(timer_, loop.now() + config.patience.look);
}

void LoopNet::on_event(const Event& event) {
  if (event.kind == EventKind::queue_pair_broken) {
    const auto found = pairs_.find(event.queue_pair.value);
    if (found != pairs_.end()) found->second->doom(Code::peer_gone, "the queue pair broke");
    return;
  }
  trouble_ = "device " + provider.facts().name + " or its port is gone";
  for (const auto& [number, link] : links_) link->doom(Code::peer_gone, trouble_);
}

NetCounts LoopNet::counts() const {
  NetCounts counts = counted;
  counts.temporary_registrations = registrations.temporary();
  counts.pinned_bytes = registrations.pinned();
  return counts;
}

}  // namespace penstock::verbs::internal
