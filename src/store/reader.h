// Reads: a snapshot of the block maps, then disk reads straight into the caller's memory where it
// is aligned, each block verified after it landed.
#pragma once

#include "request.h"

namespace penstock::store {

struct Core;

class Reader {
 public:
  explicit Reader(Core& core) : core_(core) {}

  // The request has its kind, op, chunk, range and memory; takes it to its end.
  void start(Request& request);
  void step(Request& request);
  void on_io(Io& io);
  // The maps that the request lacked were read, or could not be.
  void on_checksums(Request& request, const MapLoad& load);

 private:
  bool may_begin_early(const Request& request) const;
  bool loses(const Request& request) const;
  void snapshot(Request& request);
  void snapshot_maps(Request& request);
  void enter(Request& request);
  void note_checksums(Request& request) const;
  Status take_checksums(Request& request, const MapLoad& load) const;
  void probe(Request& request);
  void pump(Request& request);
  void end(Request& request);
  bool start_run(Request& request);
  void zero_hole(Request& request);
  void fail(Request& request, uint32_t block, Status status);
  static bool goes_on(const Request& request, Status status);
  void note_damage(Request& request, uint32_t block, Status status);
  void on_reread(Io& io);
  void verify(Io& io);
  void mismatch(Io& io);
  void deliver(Io& io, uint32_t block, const std::byte* staged);
  bool damaged(Io& io, Status status);

  Core& core_;
};

}  // namespace penstock::store
