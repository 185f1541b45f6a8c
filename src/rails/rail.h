// One device, as one loop uses it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/rails/devices.h"
#include "penstock/rails/limits.h"

namespace penstock::rails::internal {

// What all rails of a loop have in common.
struct RailParts {
  engine::Loop& loop;
  engine::Parker* parker;
  Devices* devices;
  verbs::NetConfig net;  // without the introducer
};

// Owner thread of the loop only.
class Rail {
 public:
  Rail(const RailParts& parts, Device device, verbs::Introducer& introducer);
  Rail(const Rail&) = delete;
  Rail& operator=(const Rail&) = delete;

  const Device& device() const { return device_; }
  // Opens the device where it is not; null: that cannot be now, for the reason in trouble(). A new
  // one knows no services.
  verbs::VerbsNet* open(bool* is_new);
  // Null where it is not open.
  verbs::VerbsNet* net() const { return net_.get(); }
  // Why calls do not go by it; empty while they do.
  const std::string& trouble() const { return trouble_; }
  // Lets go of a device that has failed, when nothing uses it any more.
  void look();
  // Ends its connections. Services may still have calls of it, until it is destroyed.
  void close();

 private:
  bool has_failed();

  const RailParts& parts_;
  const Device device_;
  verbs::Introducer& introducer_;
  std::unique_ptr<verbs::Provider> provider_;  // outlives the net
  std::unique_ptr<verbs::VerbsNet> net_;
  std::string trouble_;
  bool is_quiet_ = false;  // at the last look
  engine::Time not_before_{};
};

}  // namespace penstock::rails::internal
