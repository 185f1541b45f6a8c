// Owners for the handles of penstock.h, and where a command line's file system is.
#pragma once

#include "penstock.h"
#include "penstock_model.h"

#include <memory>
#include <string>

#include "penstock/base.h"

namespace penstock::console {

struct SessionCloser {
  void operator()(penstock_session* session) const { penstock_close(session); }
};
struct RegionReleaser {
  void operator()(penstock_region* region) const { penstock_region_release(region); }
};
struct RingDestroyer {
  void operator()(penstock_ring* ring) const { penstock_ring_destroy(ring); }
};
struct ModelFreer {
  void operator()(penstock_model* model) const { penstock_model_free(model); }
};
using Session = std::unique_ptr<penstock_session, SessionCloser>;
using Region = std::unique_ptr<penstock_region, RegionReleaser>;
using Ring = std::unique_ptr<penstock_ring, RingDestroyer>;
using Model = std::unique_ptr<penstock_model, ModelFreer>;

// Of a call of the library that has failed with `result` in this thread.
Failure api_failure(int result);

Outcome<Session> connect_session(const std::string& where);
Outcome<Session> open_store_session(const std::string& directory, bool create);
Outcome<Region> create_region(penstock_session* session, size_t size);
Outcome<Region> create_gpu_region(penstock_session* session, int gpu, size_t size);
Outcome<Ring> create_ring(penstock_session* session, uint32_t entries, uint32_t lanes);

// A path in a file system of ours, as people write it:
//   STORE:/path   a store directory and an absolute path in its file system
//   /mnt/x/path   a path inside a mount
// `store` (from --store or PENSTOCK_STORE) makes a bare absolute path mean that store's.
struct Location {
  std::string where;  // for penstock_connect()
  std::string path;   // absolute inside the file system, without a trailing slash ("/" alone is)
};
Outcome<Location> parse_location(const std::string& text, const std::string& store);

}  // namespace penstock::console
