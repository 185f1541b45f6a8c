#include "capability_signer.h"

#include "limits.h"

namespace penstock::agent {

Status CapabilitySigner::renew() {
  auto made = tls::SigningKey::make();
  if (!made) {
    log::error("nobody can be told what it may do: {}", made.error().message);
    return made.error().status;
  }
  controller::PublishKey publish;
  publish.key.bytes = (*made)->verifying();
  const auto answer = participant_.ask(publish);
  if (!answer) return answer.error().status;
  const auto* published = std::get_if<controller::PublishedKey>(&*answer);
  if (published == nullptr) return Code::bad_message;
  key_ = std::move(*made);
  number_ = published->key.value;
  until_ = clock_.now() + limits::kSigningKeyTime;
  return Code::ok;
}

Status CapabilitySigner::sign(wire::Capability& capability) {
  std::shared_ptr<const tls::SigningKey> key;
  {
    const std::lock_guard lock(mutex_);
    // One that is too old is better than none.
    if (key_ == nullptr || clock_.now() >= until_) {
      const Status renewed = renew();
      if (!renewed.ok() && key_ == nullptr) return renewed;
    }
    ASSERT(key_ != nullptr);
    key = key_;
    capability.key = number_;
  }
  TRY_ASSIGN(capability.signature, key->sign(capability.signed_bytes()));
  ASSERT(wire::is_good(capability));
  return Code::ok;
}

}  // namespace penstock::agent
