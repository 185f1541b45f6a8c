#include "penstock/sessions/session.h"

#include "cache_access.h"
#include "context.h"
#include "device_memory.h"
#include "files.h"
#include "many_files.h"
#include "names.h"
#include "regions.h"
#include "rings.h"
#include "shares.h"

namespace penstock::sessions {

// In the order in which they need each other; ended in the opposite one.
struct Session::Parts {
  Parts(Context context_of, client::Terms& session_terms)
      : context(std::move(context_of)),
        shares(context, context.node.user_terms(context.credentials().uid), session_terms,
               [this](serving::Announced& announced) {
                 files.announce_all(announced);
                 regions.announce_all(announced);
               }) {}

  const Context context;
  Shares shares;
  CacheAccess cache{context};
  Files files{context, shares};
  Regions regions{context, shares};
  Rings rings{context, shares, cache};
  ManyFiles many{context, shares, cache};
  Names names{context};
  DeviceMemory devices{context};
};

namespace {

// A page that does not fit becomes too_large.
std::string bytes_of(const wire::Reply& reply) {
  Result<std::string> bytes = wire::encode(reply);
  if (!bytes) {
    bytes = wire::encode(wire::Reply{reply.id, bytes.error(), "the answer is too long", {}});
  }
  ASSERT(bytes && bytes->size() <= wire::kSessionMessageMax);
  return std::move(*bytes);
}

// Which part serves which request.
template <class Parts>
struct Dispatch {
  Parts& parts;
  std::vector<resources::ForeignFd>& descriptors;
  Given* given;

  int fd() const { return descriptors[0].get(); }

  Answer operator()(const std::monostate&) { return Failure{Code::bad_message, "no request"}; }
  Answer operator()(const wire::Hello&) { return Failure{Code::bad_message, "no request"}; }

  Answer operator()(const wire::RegisterRegion& m) { return parts.regions.add(m, fd()); }
  Answer operator()(const wire::RegisterDevice& m) {
    return parts.regions.add_device(m, std::move(descriptors[0]));
  }
  Answer operator()(const wire::AttachRegion& m) { return parts.regions.attach(m); }
  Answer operator()(const wire::ReleaseRegion& m) { return parts.regions.release(m); }

  Answer operator()(const wire::CreateRing& m) {
    return parts.rings.create(m, fd(), std::move(descriptors[1]));
  }
  Answer operator()(const wire::DestroyRing& m) { return parts.rings.destroy(m); }
  Answer operator()(const wire::CancelOperation& m) { return parts.rings.cancel(m); }

  Answer operator()(const wire::OpenPath& m) { return parts.files.open_path(m); }
  Answer operator()(const wire::OpenDescriptor& m) { return parts.files.open_descriptor(m, fd()); }
  Answer operator()(const wire::Reopen& m) { return parts.files.reopen(m); }
  Answer operator()(const wire::CloseFile& m) { return parts.files.close(m); }
  Answer operator()(const wire::FileAttributes& m) { return parts.files.attributes(m); }
  Answer operator()(const wire::TruncateFile& m) { return parts.files.truncate(m); }
  Answer operator()(const wire::SyncFile& m) { return parts.files.sync(m); }

  Answer operator()(const wire::PathAttributes& m) { return parts.names.attributes(m); }
  Answer operator()(const wire::ChangeAttributes& m) { return parts.names.change_attributes(m); }
  Answer operator()(const wire::MakeDirectory& m) { return parts.names.make_directory(m); }
  Answer operator()(const wire::Remove& m) { return parts.names.remove(m); }
  Answer operator()(const wire::Rename& m) { return parts.names.rename(m); }
  Answer operator()(const wire::MakeLink& m) { return parts.names.make_link(m); }
  Answer operator()(const wire::MakeSymlink& m) { return parts.names.make_symlink(m); }
  Answer operator()(const wire::ReadSymlink& m) { return parts.names.read_symlink(m); }
  Answer operator()(const wire::ListDirectory& m) { return parts.names.list(m); }
  Answer operator()(const wire::SyncAll&) { return parts.names.sync_all(); }

  Answer operator()(const wire::MapCache&) { return parts.cache.map(given); }
  Answer operator()(const wire::MapSlab& m) { return parts.cache.map_slab(m, given); }
  Answer operator()(const wire::KeepTouchLog&) { return parts.cache.keep_touch_log(fd()); }

  Answer operator()(const wire::PublishDevice& m) {
    const bool has_one = !descriptors.empty();
    return parts.devices.publish(m, has_one ? std::move(descriptors[0]) : resources::ForeignFd());
  }
  Answer operator()(const wire::WithdrawDevice& m) { return parts.devices.withdraw(m); }
  Answer operator()(const wire::OpenDevice& m) { return parts.devices.open(m, given); }

  Answer operator()(const wire::ReadFiles& m) { return parts.many.read(m); }
  Answer operator()(const wire::CreateFiles& m) { return parts.many.create(m); }
  Answer operator()(const wire::LookAtFiles& m) { return parts.many.look_at(m); }
};

}  // namespace

Session::Session(SessionNode& node, SessionHost& host, uint64_t id, Peer peer,
                 std::shared_ptr<resources::Account> account)
    : parts_(std::make_unique<Parts>(Context{node, host, id, std::move(peer), std::move(account)},
                                     terms_)) {
  ASSERT(node.files != nullptr && !node.shards.empty() && parts_->context.account != nullptr);
}

Session::~Session() = default;

uint64_t Session::id() const {
  return parts_->context.id;
}

const Peer& Session::peer() const {
  return parts_->context.peer;
}

const std::shared_ptr<resources::Account>& Session::account() const {
  return parts_->context.account;
}

wire::Agreement Session::agreement() const {
  // Acquire pairs with the release in greet().
  const uint32_t version = version_.load(std::memory_order_acquire);
  return {version, features_.load(std::memory_order_relaxed)};
}

SessionStatus Session::status() const {
  SessionStatus status;
  status.id = id();
  status.pid = peer().pid;
  status.uid = peer().credentials.uid;
  status.allowance = terms_.allowance();
  parts_->regions.add_to(&status);
  parts_->rings.add_to(&status);
  parts_->files.add_to(&status);
  status.operations = parts_->shares.operations();
  return status;
}

wire::Reply Session::greet(uint64_t id, const wire::Hello& hello) {
  const wire::Protocol& mine = parts_->context.node.protocol;
  // Other requests may be under way by the version that was agreed on.
  if (agreement().version != 0) return {id, Code::bad_message, "the session has begun already", {}};
  const Result<wire::Agreement> agreed = wire::agree(mine, hello.protocol());
  if (!agreed) {
    return {id, agreed.error(), wire::no_common_version(mine, hello.protocol()), {}};
  }
  ASSERT(agreed->version > 0);
  features_.store(agreed->features, std::memory_order_relaxed);
  // Release pairs with the acquire of the thread that executes the next request.
  version_.store(agreed->version, std::memory_order_release);
  return {id, Code::ok, "",
          wire::Welcome{agreed->version, this->id(), agreed->features, mine.lowest, mine.highest,
                        mine.features}};
}

ReplyPacket Session::answer(Message message) {
  Given given;
  wire::Reply reply{message.request.id, Code::ok, "", {}};
  ASSERT(message.descriptors.size() == wire::descriptors_of(message.request.body));
  if (const auto* hello = std::get_if<wire::Hello>(&message.request.body)) {
    reply = greet(reply.id, *hello);
  } else if (agreement().version == 0) {
    reply.status = Code::bad_message;
    reply.text = "the session has not begun";
  } else {
    Answer answer =
        std::visit(Dispatch<Parts>{*parts_, message.descriptors, &given}, message.request.body);
    if (answer) {
      reply.body = std::move(*answer);
    } else {
      reply.status = answer.error().status;
      reply.text = answer.error().message;
    }
  }
  ASSERT(wire::descriptors_of(reply.body) == (given.fd >= 0 ? 1u : 0u));
  const bool ends = reply.status == Code::bad_message || reply.status == Code::wrong_version;
  return {bytes_of(reply), given.fd, std::move(given.keeper), ends};
}

void Session::withdraw_all() {
  parts_->devices.withdraw_all();
}

void Session::finish() {
  withdraw_all();  // what a request has published meanwhile
  // No request runs any more, but status() may still look.
  parts_->rings.end();
  parts_->shares.end();
  parts_->cache.end();
  parts_->regions.end();
  parts_->files.end();
}

}  // namespace penstock::sessions
