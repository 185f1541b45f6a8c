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

// Of aligned words: each of a few is loaded and stored once, the first one first; of many the last
// one, behind all others.
template <class Word>
inline void copy_words(std::byte* to, const std::byte* from, uint64_t bytes) {
  uint64_t at = 0;
  if (bytes > kWordByWord) {
    at = bytes - sizeof(Word);
    std::memcpy(to, from, at);
  }
  for (; at < bytes; at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, from + at, sizeof word);
    __atomic_store_n(reinterpret_cast<Word*>(to + at), word, __ATOMIC_RELEASE);
  }
}

// As memcpy(), by the widest words to which the target and the length are aligned.
inline void copy_for_others(void* to_any, const void* from_any, uint64_t bytes) {
  auto* const to = static_cast<std::byte*>(to_any);
  const auto* const from = static_cast<const std::byte*>(from_any);
  const uint64_t uneven = reinterpret_cast<uintptr_t>(to) | bytes;
  if (uneven % sizeof(uint64_t) == 0) {
    copy_words<uint64_t>(to, from, bytes);
  } else if (uneven % sizeof(uint32_t) == 0) {
    copy_words<uint32_t>(to, from, bytes);
  } else if (uneven % sizeof(uint16_t) == 0) {
    copy_words<uint16_t>(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
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
