// Reads of committed bytes at any serving replica.
#include "replica.h"

namespace penstock::chain {

void Replica::on_read(engine::IncomingCall& call, const wire::ChainReadRequest& request) {
  if (!core_.may_serve()) return core_.refuse(call);
  const bool exposed = call.exposure_count == 1 && call.exposure_length(0) == request.length;
  if (!exposed) return call.reply(Code::bad_message, {});
  const store::ChainChunk at = core_.at(request.header.chunk_id());
  const Pending* const pending = updates_.pending(at);
  // The commit point decides; at all others what is pending may be committed already.
  if (core_.part.is_commit_point()) {
    if (pending != nullptr && pending->may_be_shown) return core_.refuse(call);
  } else if (pending != nullptr) {
    return ask(
        at, [this, &call, request] { read_committed(call, request); },
        [&call] { call.reply(Code::not_serving, {}); });
  }
  read_committed(call, request);
}

// `then` runs once this replica shows whatever the commit point had committed at some moment after
// the call; `otherwise` if that cannot be found out in this version.
void Replica::ask(const store::ChainChunk& at, std::function<void()> then,
                  std::function<void()> otherwise) {
  const Member& to = core_.part.commit_point();
  auto& call =
      core_.task<PeerCall>([this, at, version = core_.part.version(), then = std::move(then),
                            otherwise = std::move(otherwise)](Task<PeerCall>& done) {
        wire::ChainAskResponse response;
        const bool answered = done.status.ok() && done.response_length == sizeof response;
        if (version != core_.part.version() || core_.failed || !answered) return otherwise();
        std::memcpy(&response, done.answer.data(), sizeof response);
        const Pending* const pending = updates_.pending(at);
        if (pending != nullptr && pending->name == response.committed) {
          updates_.learn_commit(at, response.committed);
        }
        then();
      });
  call.say(wire::ChainMethod::ask, wire::ChainAskRequest{core_.header(at.chunk)});
  core_.call(to, call);
}

void Replica::on_ask(engine::IncomingCall& call, const wire::ChainAskRequest& request) {
  if (!core_.part.is_commit_point() || !core_.may_serve()) return core_.refuse(call);
  const store::ChainChunk at = core_.at(request.header.chunk_id());
  const Pending* const pending = updates_.pending(at);
  if (pending != nullptr && pending->may_be_shown) return core_.refuse(call);
  const auto may_answer = std::make_shared<bool>(false);
  auto& look = core_.task<store::LookOp>([&call, may_answer](Task<store::LookOp>& done) {
    if (!*may_answer) return call.reply(Code::not_serving, {});
    if (!done.status.ok()) return call.reply(done.status, {});
    const wire::ChainAskResponse response{done.state.committed};
    call.reply(Code::ok, wire::as_wire(response));
  });
  look.at = at;
  core_.host.store().submit(look);
  *may_answer = core_.may_serve();
}

void Replica::read_committed(engine::IncomingCall& call, const wire::ChainReadRequest& request) {
  const Budget::Share memory = core_.host.budget.take(request.length);
  if (memory == nullptr) return call.reply(Code::busy, {});
  auto bytes = std::make_shared<std::vector<std::byte>>(request.length);
  const auto may_answer = std::make_shared<bool>(false);
  auto& read = core_.task<store::CopyReadOp>([this, &call, bytes, memory,
                                              may_answer](Task<store::CopyReadOp>& done) {
    if (!*may_answer) return call.reply(Code::not_serving, {});
    if (!done.status.ok()) return call.reply(done.status, {});
    auto& place =
        core_.task<engine::TransferOp>([&call, bytes, memory](Task<engine::TransferOp>& placed) {
          call.reply(placed.status, {});
        });
    place.call = &call;
    place.local = {bytes->data(), bytes->size()};
    call.place(place);
  });
  read.at = core_.at(request.header.chunk_id());
  read.begin = request.begin;
  read.destination = {bytes->data(), bytes->size()};
  core_.host.store().submit(read);
  // The bytes are chosen: a lease that holds now held then.
  *may_answer = core_.may_serve();
}

}  // namespace penstock::chain
