// Any bytes as any call, and as the answer to any.
#include "../tests/decode_all.h"
#include "fuzz.h"

namespace penstock::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  engine::SeededRandom random(1);
  meta_net::for_each_call([&]<class Call>() {
    for (int i = 0; i < 3; ++i) {
      out.push_back(meta_net::encode(meta_net::random_request<Call>(random)));
      out.push_back(meta_net::random_answer<Call>(random));
    }
  });
  return out;
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  penstock::meta_net::decode_all({reinterpret_cast<const char*>(data), size});
  return 0;
}
