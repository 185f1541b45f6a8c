// Foreign bytes as session messages: what decodes must be within the limits and survive the way out
// and in again.
#include <cstdlib>

#include "penstock/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const Bytes bytes = std::as_bytes(std::span(data, size));
  if (Result<wire::Request> request = wire::decode_request(bytes)) {
    const Result<std::string> again = wire::encode(*request);
    if (!again || !wire::decode_request(std::as_bytes(std::span(*again)))) std::abort();
    if (wire::descriptors_of(request->body) > wire::kSessionDescriptorsMax) std::abort();
  }
  if (Result<wire::Reply> reply = wire::decode_reply(bytes)) (void)wire::encode(*reply);
  return 0;
}
