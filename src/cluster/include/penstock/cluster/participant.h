// A process's part in a cluster: how it was let in, its sockets, the replicas of its targets, the
// chains that it calls, and on one node the controller.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/cluster/authority.h"
#include "penstock/cluster/invitation.h"
#include "penstock/cluster/roles.h"
#include "penstock/membership.h"
#include "penstock/net.h"
#include "penstock/probe.h"
#include "penstock/rails.h"
#include "penstock/store.h"

namespace penstock::cluster {

// Whether calls between targets and clients go by RDMA where both nodes have it. RDMA does not
// encrypt: with proofs of identity, somebody has to say that nobody else can send into the fabric.
enum class Rdma : uint8_t {
  automatic,  // where bytes travel in the clear anyway
  trusted,    // always
  off,
};

struct ParticipantConfig {
  // What it keeps of itself is in the file `cluster` there.
  std::string directory;
  controller::Uuid node;  // of the directory
  // Where it is reached, each as parse_listen() takes it; the first is in invitations. Empty: as it
  // was last.
  std::vector<std::string> listen = {};
  // What it plays; 0: as it was made, and a new one everything, or storage and agent where it is
  // invited.
  uint8_t roles = 0;
  std::string name;  // for people
  std::string rack;  // nodes of one rack fail together; empty: as it was last
  // Of a node that joins, and whoever has none is the first of a new cluster. Nodes that were let
  // in before need none, and are refused another.
  std::optional<Invitation> invitation;
  // Nobody proves who they are, and all travels in the clear: of all nodes of the cluster, or none.
  bool insecure = false;
  Rdma rdma = Rdma::automatic;
  // In place of the machine's; for tests.
  std::shared_ptr<rails::Devices> devices = nullptr;
  // Of certificates that this node signs, if it has the controller; 0: the default.
  engine::Duration certificate_time{};
  // The cluster will have nothing of this process any more: a reason for people. Any thread; the
  // process ends soon then, as it can do nothing.
  std::function<void(const std::string& reason)> refused = {};
  // Of the first node: the process before may still run, on another machine, as long as its lease
  // does (docs/decisions/0069-names-taken-over.md). Else this directory's lock says that it ended.
  bool predecessor_may_run = false;
  // A table of chains is new, or has grown. In the first loop; those that there are when open()
  // begins, before it ends.
  std::function<void(const controller::Table&)> table_known = {};
};

// Loops of one process: they share out the requests that a chain remembers of a node.
inline constexpr size_t kShardsMax = 64;

// One loop with what belongs to it. All outlives the participant.
struct ParticipantShard {
  engine::Loop* loop = nullptr;
  engine::Parker* parker = nullptr;  // one that can watch
  store::Target* target = nullptr;   // null: it has none, and only calls others
  std::string target_directory;      // the file `identity` is kept there
  uint64_t capacity_bytes = 0;
};

struct ParticipantStatus {
  NodeId node;
  uint8_t roles = 0;
  bool leads = false;
  std::string listen;     // all places, with spaces between them
  Invitation invitation;  // for others; without a token
  bool insecure = false;
  engine::WallTime certificate_ends{};         // where there is one
  controller::MapVersion applied;              // by all targets
  std::optional<engine::Duration> lease_left;  // none: it may not act
  struct Target {
    TargetId id;  // 0: the cluster did not take it
    std::string directory;
    std::string trouble;  // why it does not serve; empty while all is well
    size_t pending = 0;   // updates that are not committed
    size_t waiting = 0;   // calls that wait
    size_t chains = 0;    // that have a copy there
    uint64_t capacity_bytes = 0;
    uint64_t used_bytes = 0;
  };
  std::vector<Target> targets;
  std::vector<tcp::PeerFacts> peers;    // connections that it made
  std::vector<rails::RailFacts> rails;  // by which card calls go where RDMA was tried
  std::string without_rdma;             // why it is not; empty: it is, where others have it
};

// How well nodes reach one another, as a person asks it.
struct NetQuestion {
  NodeId only;              // this node and the own one, both ways; 0: all pairs
  engine::Duration time{};  // of each way, as probe::limits allows it
};
struct NetReport {
  NodeId self;
  std::vector<probe::NodeFacts> machines;
  std::vector<probe::PairFacts> pairs;
};

// Called in this order by the thread that starts the process, but for what says otherwise:
// prepare(); enter() and the nets, while the loops do not run yet; open() and then everything else
// while they run; leave(); and when the loops have stopped, its end.
class Participant {
 public:
  // What the process of that directory plays; 0: it has been of no cluster.
  static Outcome<uint8_t> roles_of(const std::string& directory);
  // Where that process listens, each as parse_listen() takes it; empty: it has been of no cluster.
  static Outcome<std::vector<std::string>> listen_of(const std::string& directory);
  // A copy of what makes that directory its node, in another one that is there, to be started in
  // its place once its process is lost: it listens at `listen`. Of a first node without storage.
  static Outcome<void> copy_to_standby(const std::string& directory, const std::string& copy,
                                       const std::string& listen);
  // Tells directories of one node apart that do not have the same authority; "-": it has none.
  static std::string authority_print(const std::string& directory);
  // Whether the cluster has given it a number.
  static Outcome<bool> was_let_in(const std::string& directory);
  // Of a first node that does not run, whose cluster was begun without TLS: makes the authority.
  // `again`: of one whose authority has lost its key, and of which no other can follow any more;
  // all other nodes have to join anew.
  static Outcome<void> begin_identity(const std::string& directory, bool again = false);
  // Reads what was kept. Fails if that does not go together with the config, or nothing can listen
  // where it is to. Writes nothing: a first start that fails before open() has succeeded leaves
  // the directory of no cluster, or, once a cluster has given it a number, of that one.
  static Outcome<std::unique_ptr<Participant>> prepare(ParticipantConfig config);
  virtual ~Participant() = default;

  virtual uint8_t roles() const = 0;
  // Of the target whose file `identity` is in the directory; none: there is no such file. Fails if
  // it is of another cluster or node.
  virtual Outcome<std::optional<controller::Uuid>> target_at(
      const std::string& target_directory) const = 0;

  // Until the cluster has let this process in; of the first node the controller begins here, and
  // its state is in `kv`, which outlives it. Null elsewhere. One
  // shard at least, and at most kShardsMax.
  virtual Outcome<void> enter(std::vector<ParticipantShard> shards, engine::Kv* kv) = 0;
  virtual NodeId self() const = 0;
  // Of that shard, for its clients: to services of this process, and to chains by their address
  // (chain::address_of()). As long as the participant.
  virtual engine::Net& net(size_t shard) = 0;
  // Which session of this node's agent changes chunks by calls that begin from now on; 0, as at
  // first: none, which is never fenced. Thread safe; after enter().
  virtual void set_session(uint64_t number) = 0;
  // For memory that the clients' calls will expose often. Null: there is no network card that
  // would know it.
  virtual const rails::Announcements* announcements() const = 0;
  // Below it: what is served here is for all nodes, and whoever serves looks at who calls.
  virtual engine::Net& nodes_net(size_t shard) = 0;

  // Opens the door for others and the targets for the cluster. Fails if none of several targets
  // could be opened; of those that could not beside others, status() tells.
  virtual Outcome<void> open() = 0;
  // Ends all that, in order. Nobody uses the nets any more. Idempotent.
  virtual void leave() = 0;

  // Thread safe, and may block, between open() and leave().
  //
  // Asks the controller, wherever that is. An order that ends with a failure may have happened.
  virtual Outcome<membership::Answer> ask(membership::Request request) = 0;
  // Orders that sessions of the node's agent below `lowest`, from 1 to 2^48 - 1, change no chunk
  // any more, and waits until that is in force: no head gives an update of theirs a number from
  // then on. What has one may still go on: that it does not, the heads say (end_query). Fails if
  // the time is over first; it may be in force then, or become it. It is asked again at will. On
  // nodes with the controller or the names only.
  virtual Outcome<void> fence(NodeId node, uint64_t lowest, engine::Duration time) = 0;
  // A token that lets others join, of this cluster's authority; `roles`, `uses`, `node` as in
  // controller::MakeToken. On the node with the controller only.
  virtual Outcome<Invitation> make_token(uint8_t roles, uint32_t uses, NodeId node,
                                         engine::Duration lasts,
                                         const rights::Restriction& restriction) = 0;
  // Both on the node with the controller only. Has another authority follow the one that there is;
  // `force`: leaves members behind that are down and have not heard of it.
  virtual Outcome<AuthorityStatus> authority() = 0;
  virtual Outcome<AuthorityStatus> renew_authority(bool force) = 0;
  // What this node knows.
  virtual membership::ClusterMap map() = 0;
  // What the node is limited to, by the map; null: nothing. Any thread, without blocking; also
  // before open(), when nothing is known yet.
  virtual std::shared_ptr<const controller::Restricted> restriction_of(NodeId node) = 0;
  // The version of the map with which a restriction changed last, as far as this node knows: of
  // what is looked up by restriction_of() afterwards nothing is older. Any thread.
  virtual uint64_t judged() = 0;
  // Whom this process's clients of chains ask for capabilities; before the first of them asks, and
  // until none does. Thread safe.
  virtual void set_capabilities(chain::CapabilitySource* source) = 0;
  // Whether it was signed by a key of the map. Thread safe.
  virtual bool is_signed(const wire::Capability& capability) = 0;
  // Whether this node may act: its lease of the controller runs. In the first loop.
  virtual bool has_lease() = 0;
  virtual engine::Time lease_until() = 0;
  // As has_lease(), from any thread; may block for a turn of the first loop.
  virtual bool may_act() = 0;
  // Of the first node: where others may find it once another machine has its roles, each HOST:PORT.
  // Thread safe, and may block, between open() and leave().
  virtual void set_standbys(const std::vector<std::string>& addresses) = 0;
  // Of all targets that serve now, each byte counted where it lies: so many times as there are
  // copies. As the controller knew it some seconds ago, or when it was last reached; may block for
  // a second.
  virtual engine::DiskSpace space() = 0;
  virtual ParticipantStatus status() = 0;
  // Has all nodes measure, and blocks for as long as that takes; what is wrong with some of them is
  // in the report. Fails with busy where somebody else asks already, and with cancelled soon after
  // `goes_on` has said no.
  virtual Outcome<NetReport> check_net(const NetQuestion& question,
                                       const std::function<bool()>& goes_on) = 0;
  // The ways from here to a node, by any plan; fails in the same way.
  virtual Outcome<std::vector<probe::MeasuredWay>> measure_net(
      NodeId to, std::vector<probe::Workload> plan, const std::function<bool()>& goes_on) = 0;
};

}  // namespace penstock::cluster
