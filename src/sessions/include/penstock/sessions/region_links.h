// Names that applications gave to shared memory in a front's virtual directory. What a name looks
// like and where it leads is the front's matter; a session makes, opens and removes them for its
// user.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/client.h"
#include "penstock/engine.h"

namespace penstock::sessions {

// Thread safe. Links of different users do not meet: two users may use one name, and neither learns
// of the other's.
class RegionLinks {
 public:
  virtual ~RegionLinks() = default;

  // A link of that name to `target`, which the user may read and write. `memory`, unless it is -1,
  // is a descriptor of what the user calls by that path. The failure says what is wrong, for
  // people.
  virtual Outcome<void> add(const client::Credentials& credentials, const std::string& name,
                            const std::string& target, int memory) = 0;
  virtual Status remove(const client::Credentials& credentials, const std::string& name) = 0;

  struct Opened {
    UniqueFd fd;
    uint64_t size = 0;
  };
  // The memory of a region that this user linked.
  virtual Result<Opened> open(const client::Credentials& credentials,
                              const std::string& name) const = 0;

  // What fronts show: the links that `credentials` may see, which are one's own and, for root, all;
  // and of these the one with this name.
  struct Link {
    std::string name;
    std::string target;
    uint32_t uid = 0;
  };
  virtual std::vector<Link> list(const client::Credentials& credentials) const = 0;
  virtual std::optional<Link> find(const client::Credentials& credentials,
                                   const std::string& name) const = 0;
};

// The links of a node: none until the first front with a virtual directory gives its table, which
// all fronts and sessions of the node use from then on. Thread safe.
class NodeLinks {
 public:
  using Make = std::function<std::shared_ptr<RegionLinks>()>;

  std::shared_ptr<RegionLinks> find() const;  // null: there is no virtual directory
  std::shared_ptr<RegionLinks> find_or_make(const Make& make);

 private:
  mutable engine::Mutex mutex_;
  std::shared_ptr<RegionLinks> links_;
};

}  // namespace penstock::sessions
