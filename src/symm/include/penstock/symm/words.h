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
inline uint64_t store_word(std::byte* to, const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  __atomic_store_n(reinterpret_cast<Word*>(to), word, __ATOMIC_RELEASE);
  return sizeof word;
}

// The widest word that is aligned there and no longer than what is left. Gives its length.
inline uint64_t store_widest(std::byte* to, const std::byte* from, uint64_t left) {
  const auto at = reinterpret_cast<uintptr_t>(to);
  if (at % 8 == 0 && left >= 8) return store_word<uint64_t>(to, from);
  if (at % 4 == 0 && left >= 4) return store_word<uint32_t>(to, from);
  if (at % 2 == 0 && left >= 2) return store_word<uint16_t>(to, from);
  return store_word<uint8_t>(to, from);
}

// Of many bytes the last word behind all others. Not inlined: one word is what is put most often.
[[gnu::noinline]] inline void copy_words(std::byte* to, const std::byte* from, uint64_t bytes) {
  uint64_t done = 0;
  if (bytes > kWordByWord) {
    const auto end = reinterpret_cast<uintptr_t>(to) + bytes;
    done = bytes - (end % 8 == 0 ? 8 : end % 4 == 0 ? 4 : end % 2 == 0 ? 2 : 1);
    std::memcpy(to, from, done);
  }
  while (done < bytes) done += store_widest(to + done, from + done, bytes - done);
}

// As memcpy(). Of a few bytes each aligned word, as wide as it can be, is stored once, the first
// one first; of many the last one, behind all others.
inline void copy_for_others(void* to_any, const void* from_any, uint64_t bytes) {
  auto* const to = static_cast<std::byte*>(to_any);
  const auto* const from = static_cast<const std::byte*>(from_any);
  if (bytes == sizeof(uint64_t) && reinterpret_cast<uintptr_t>(to) % sizeof(uint64_t) == 0) {
    store_word<uint64_t>(to, from);
  } else {
    copy_words(to, from, bytes);
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
