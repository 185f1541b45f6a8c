// A table of words that are 0 at first. Its pages are made when they are used.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace penstock::connection {

class ZeroedWords {
 public:
  // Large blocks of calloc() are pages that have not been touched.
  explicit ZeroedWords(size_t count)
      : words_(static_cast<std::atomic<uint64_t>*>(std::calloc(count, sizeof(uint64_t)))) {
    static_assert(std::is_trivially_destructible_v<std::atomic<uint64_t>>);
    static_assert(sizeof(std::atomic<uint64_t>) == sizeof(uint64_t));
    if (words_ == nullptr) throw std::bad_alloc();
  }
  std::atomic<uint64_t>& operator[](size_t i) const { return words_.get()[i]; }

 private:
  struct Free {
    void operator()(std::atomic<uint64_t>* words) const { std::free(static_cast<void*>(words)); }
  };
  const std::unique_ptr<std::atomic<uint64_t>, Free> words_;
};

}  // namespace penstock::connection
