#include "rail.h"

namespace penstock::rails::internal {

Rail::Rail(const RailParts& parts, Device device, verbs::Introducer& introducer)
    : parts_(parts), device_(std::move(device)), introducer_(introducer) {}

verbs::VerbsNet* Rail::open(bool* is_new) {
  *is_new = false;
  if (net_ != nullptr) return has_failed() ? nullptr : net_.get();
  if (parts_.loop.now() < not_before_) return nullptr;
  not_before_ = parts_.loop.now() + limits::kReopenAfter;
  auto provider = parts_.devices->open(device_);
  if (!provider) {
    trouble_ = provider.error().message;
    return nullptr;
  }
  verbs::NetConfig config = parts_.net;
  config.introducer = &introducer_;
  auto net = verbs::VerbsNet::create(config, **provider, parts_.loop, parts_.parker);
  if (!net) {
    trouble_ = net.error().message;
    return nullptr;
  }
  provider_ = std::move(*provider);
  net_ = std::move(*net);
  trouble_.clear();
  *is_new = true;
  return net_.get();
}

// Since it was opened.
bool Rail::has_failed() {
  if (trouble_.empty() && !net_->trouble().empty()) {
    trouble_ = net_->trouble();
    log::warning("rails: {}: calls go another way, until it is there again", trouble_);
  }
  return !trouble_.empty();
}

void Rail::look() {
  if (net_ == nullptr) return;
  // What has just ended may still be on its way to those who look at whose it was.
  const bool was_quiet = std::exchange(is_quiet_, has_failed() && net_->is_quiet());
  if (!was_quiet || !is_quiet_) return;
  is_quiet_ = false;
  net_.reset();
  provider_.reset();
  not_before_ = parts_.loop.now() + limits::kReopenAfter;
}

void Rail::close() {
  if (net_ != nullptr) net_->close();
}

}  // namespace penstock::rails::internal
