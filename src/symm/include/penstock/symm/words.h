// Copies into memory at which others look meanwhile: programs wait for a word that a put brings,
// take it, and put another value in its place. memcpy() may store a word twice, and bring back what
// somebody has taken already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace penstock::symm {

// Up to so many bytes go word by word.
inline constexpr uint64_t kWordByWord = 64;

template <class Word>
inline bool store_if_aligned(std::byte* to, const std::byte* from, uint64_t left) {
  if (left < sizeof(Word) || reinterpret_cast<uintptr_t>(to) % sizeof(Word) != 0) return false;
  Word word;
  std::memcpy(&word, from, sizeof word);
  __atomic_store_n(reinterpret_cast<Word*>(to), word, __ATOMIC_RELEASE);
  return true;
}

// As memcpy(). Of a few bytes each aligned word, as wide as it can be, is stored once, the first
// one first; of many the last one, behind all others.
inline void copy_for_others(void* to_any, const void* from_any, uint64_t bytes) {
  auto* to = static_cast<std::byte*>(to_any);
  const auto* from = static_cast<const std::byte*>(from_any);
  if (bytes == sizeof(uint64_t) && store_if_aligned<uint64_t>(to, from, bytes)) return;
  if (bytes > kWordByWord) {
    const auto end = reinterpret_cast<uintptr_t>(to) + bytes;
    const uint64_t last = end % 8 == 0 ? 8 : end % 4 == 0 ? 4 : end % 2 == 0 ? 2 : 1;
    std::memcpy(to, from, bytes - last);
    to += bytes - last;
    from += bytes - last;
    bytes = last;
  }
  while (bytes != 0) {
    uint64_t step = sizeof(uint64_t);
    if (!store_if_aligned<uint64_t>(to, from, bytes)) {
      step = store_if_aligned<uint32_t>(to, from, bytes)   ? sizeof(uint32_t)
             : store_if_aligned<uint16_t>(to, from, bytes) ? sizeof(uint16_t)
                                                           : sizeof(uint8_t);
      if (step == sizeof(uint8_t)) store_if_aligned<uint8_t>(to, from, bytes);
    }
    to += step;
    from += step;
    bytes -= step;
  }
}

// As memcpy(), of memory that others write meanwhile; an aligned word is loaded at once.
inline void copy_from_others(void* to, const void* from, uint64_t bytes) {
  const auto uneven = reinterpret_cast<uintptr_t>(from);
  const auto load = [&]<class Word>(Word) {
    const Word word = __atomic_load_n(static_cast<const Word*>(from), __ATOMIC_ACQUIRE);
    std::memcpy(to, &word, sizeof word);
  };
  if (bytes == sizeof(uint64_t) && uneven % sizeof(uint64_t) == 0) {
    load(uint64_t{});
  } else if (bytes == sizeof(uint32_t) && uneven % sizeof(uint32_t) == 0) {
    load(uint32_t{});
  } else if (bytes == sizeof(uint16_t) && uneven % sizeof(uint16_t) == 0) {
    load(uint16_t{});
  } else {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace penstock::symm
