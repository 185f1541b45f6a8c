// What nodes, and persons by their commands, ask a controller, and what it answers. Most of it are
// the step's own events and answers. Format: docs/formats/membership.md.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "penstock/controller.h"
#include "penstock/membership/limits.h"

namespace penstock::membership {

// The order of a map's records: what one names comes before it.
inline constexpr controller::RecordKind kMapOrder[] = {
    controller::RecordKind::node, controller::RecordKind::target, controller::RecordKind::table,
    controller::RecordKind::chain};

// A record of the map, or with id 0 what is before all of its kind.
struct MapPlace {
  controller::RecordKind kind = controller::RecordKind::node;
  uint32_t id = 0;

  friend bool operator==(const MapPlace&, const MapPlace&) = default;
};

// What was published since `known`, from a place on. A question for the beginning is kept at the
// controller until there is something.
struct AskMap {
  controller::MapVersion known;  // 0: nothing is
  MapPlace from;
};
struct AskHealth {};

// A process cannot claim in a Join that its predecessor has ended: that takes a proof.
using Request =
    std::variant<controller::Join, controller::OpenTarget, controller::Heartbeat, controller::Leave,
                 controller::TablePlan, controller::Move, controller::Drain, controller::Remove,
                 controller::Forget, controller::Trust, AskMap, AskHealth>;

struct Admitted {
  controller::Admission admission;
  engine::Duration lease{};  // how long a lease of this controller lasts
};
struct MapRecord {
  MapPlace at;
  std::string bytes;  // controller/records.h

  friend bool operator==(const MapRecord&, const MapRecord&) = default;
};
// Once the last piece has come, the map is at least that of the first one's version. Records may be
// newer than that, and are sent again then.
struct MapPiece {
  controller::MapVersion version;
  bool last = true;
  std::vector<MapRecord> records;  // in order; the next piece begins behind
};
struct Done {};

using Answer = std::variant<controller::Refused, Admitted, controller::Opened, controller::Grant,
                            controller::Made, MapPiece, controller::Health, Done>;

// At most kMembershipBytesMax: who makes a piece of a map sees to that. The lists of a request keep
// to limits.h; too long a reason is cut.
std::string encode(const Request& request);
std::string encode(const Answer& answer);
// Foreign input: bad_message for all that encode() does not make, to the last byte; wrong_version
// for a later version. The bytes of records are their own (decode_node() and so on).
Result<Request> decode_request(std::string_view bytes);
Result<Answer> decode_answer(std::string_view bytes);

}  // namespace penstock::membership
