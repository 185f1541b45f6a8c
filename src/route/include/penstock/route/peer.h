// PeerTransfer: bytes from the memory of one device to that of another.
#pragma once

#include "penstock/engine.h"

namespace penstock::route {

class Transfers;

// A copy of its caller, which keeps it until `ended` was called. It goes from device to device,
// over NVLink where the two are joined by it; the bytes are not verified again on that way. Its
// route is Route::device_peer.
//
// Ends with invalid_argument when one of the two is not allocated any more, or is not what the span
// says; with io_error when a device is lost. It cannot be cancelled: it ends by itself, as fast as
// devices copy. Whatever the end, nothing touches either memory afterwards.
struct PeerTransfer : engine::CopyOp {
  engine::DeviceSpan from;
  engine::DeviceSpan to;  // as long as `from`, at least a byte
  // Runs in the thread that drives; must not block.
  void (*ended)(PeerTransfer&) = nullptr;
  Transfers* transfers = nullptr;  // set by submit()

  engine::CopyPiece piece;  // the transfers'
};

}  // namespace penstock::route
