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

 private:
  bool loses(const Request& request) const;
  void snapshot(Request& request);
  void snapshot_maps(Request& request);
  void probe(Request& request);
  void pump(Request& request);
  void end(Request& request);
  bool start_run(Request& request);
  void zero_hole(Request& request);
  void fail(Request& request, uint32_t block, Status status);
  void on_reread(Io& io);
  void verify(Io& io);
  void mismatch(Io& io);
  void deliver(Io& io, uint32_t block, const std::byte* staged);
  bool damaged(Io& io, Status status);

  Core& core_;
};

}  // namespace penstock::store
