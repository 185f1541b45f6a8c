// Who came to which meeting, and what follows. Knows no sockets, and no time.
#pragma once

#include "connection.h"
#include "frame.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base.h"

namespace penstock::job {

// Of one thread. Calls its two functions from within its methods; they must not call it.
class Meetings {
 public:
  using Deliver =
      std::function<void(uint32_t rank, uint64_t serial, std::shared_ptr<const Content>)>;
  using Fail = std::function<void(uint32_t rank, uint64_t serial, const FailedBody&)>;

  Meetings(uint32_t size, Deliver deliver, Fail fail);

  // Answers the rank now, or once all came. bad_message: no member of ours says such a thing.
  Status bring(uint32_t rank, uint64_t serial, const BringBody& body,
               std::vector<UniqueFd> descriptors);
  // It does not wait any more. Nothing happens when it was answered meanwhile. The rank itself is
  // answered with who had not come.
  void withdraw(uint32_t rank, uint64_t serial);
  // The rank ended or left: `why` names it.
  void gone(uint32_t rank, const std::string& why);

  size_t count() const { return halls_.size(); }

 private:
  struct Came {
    uint64_t serial = 0;
    std::vector<std::byte> bytes;
    std::vector<UniqueFd> descriptors;
  };
  // One name and one set of ranks.
  struct Hall {
    std::string name;
    std::vector<uint32_t> ranks;
    std::vector<std::optional<Came>> came;  // by index in `ranks`
    size_t present = 0;
    size_t bytes = 0;
    std::vector<bool> overdue;  // who has still to be told of a meeting that failed; may be empty
    size_t overdue_count = 0;
    std::string why;  // it failed
  };
  using Halls = std::map<std::string, Hall>;

  static std::optional<size_t> index_of(const Hall& hall, uint32_t rank);
  Result<Halls::iterator> hall_of(const std::string& key, const BringBody& body, uint32_t rank);
  void complete(Halls::iterator at);
  // Ends the present meeting of the hall for all that came.
  void fail_all(Hall& hall, const FailedBody& failed);
  void forget_if_empty(Halls::iterator at);
  void keep_overdue(uint32_t rank, const std::string& key);
  std::string missing_of(const Hall& hall) const;

  const uint32_t size_;
  const Deliver deliver_;
  const Fail fail_;
  Halls halls_;
  std::vector<std::map<uint64_t, std::string>> waiting_;  // of each rank: keys by serial
  std::vector<std::vector<std::string>> given_up_;        // of each rank: keys, the oldest first
  std::vector<std::pair<uint32_t, std::string>> gone_;    // in the order in which they went
  std::vector<bool> is_gone_;
};

}  // namespace penstock::job
