// AES-128-GCM by OpenSSL alone, as what seals and opens records is measured against: this file is
// for benchmarks.
#pragma once

#include <chrono>
#include <memory>

#include "penstock/tls.h"

namespace penstock::tls::bench {

// Bytes a second of one thread, as `openssl speed -evp aes-128-gcm -bytes 16384` counts them: the
// same 16 KiB again and again, in place, without nonces, headers and tags.
double openssl_speed(RecordKey::Use use, std::chrono::nanoseconds duration);

// Records of TLS 1.3 in the plainest way: one call of OpenSSL for each of its parts. One thread at
// a time.
class OpensslRecords {
 public:
  explicit OpensslRecords(RecordKey::Use use);

  // As many bytes more as limits::kRecordExtraBytes says.
  void seal(Bytes content, std::byte* to);
  // False: it is not the next record of who seals.
  bool open(Bytes record, std::byte* to);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  void begin(const std::byte* header);

  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
  uint64_t sequence_ = 0;
};

}  // namespace penstock::tls::bench
