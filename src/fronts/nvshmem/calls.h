// What the typed calls of the host are made of, without types, so that each is there once. Calls by
// the host go by copy engines where they only move bytes, on a stream of this library that waits
// for none of the program's own: a kernel may be waiting for what they bring.
//
// What is wrong with a call ends the job (faults.h).
#pragma once

#include "api.h"

namespace penstock::nvshmem {

// How much a call moves.
struct Elements {
  size_t count;
  uint32_t bytes;  // of each
};
// Faults where they are more than there are addresses.
uint64_t bytes_of(const char* call, Elements elements);

// Strides count elements.
struct Steps {
  ptrdiff_t dest;
  ptrdiff_t source;
};

void put_on(const char* call, void* dest, const void* source, Elements elements, int pe,
            engine::DeviceStream stream);
void get_on(const char* call, void* dest, const void* source, Elements elements, int pe,
            engine::DeviceStream stream);
void iput_on(const char* call, void* dest, const void* source, Steps steps, Elements elements,
             int pe, engine::DeviceStream stream, symm::By by);
void iget_on(const char* call, void* dest, const void* source, Steps steps, Elements elements,
             int pe, engine::DeviceStream stream, symm::By by);
// Until the library's own stream has done all that it was given.
void finish_own(const char* call);
engine::DeviceStream own_stream(const char* call);
// A call that returns before that; and a quiet, which finds all of them done.
void leave_for_quiet(const char* call);
void quiet(const char* call);

// ---- single words, of up to 8 bytes ----

void put_word(const char* call, void* dest, const void* value, uint32_t bytes, int pe);
void get_word(const char* call, void* value, const void* source, uint32_t bytes, int pe);
void put_word_on(const char* call, void* dest, uint64_t value, uint32_t bytes, int pe,
                 engine::DeviceStream stream);
void get_word_on(const char* call, void* value, const void* source, uint32_t bytes, int pe,
                 engine::DeviceStream stream);
void change_word(const char* call, void* dest, const symm::ChangeOfWord& change, int pe);
uint64_t fetch_word(const char* call, void* dest, const symm::ChangeOfWord& change, int pe);

// ---- waits and signals ----

void wait_on(const char* call, const symm::WordsToWaitFor& words, engine::DeviceStream stream);
void signal_on(const char* call, uint64_t* signal, uint64_t value, int op, int pe,
               engine::DeviceStream stream);
// What a signal is.
struct Signal {
  uint64_t* address;
  uint64_t value;
  int op;
};
void put_signal_on(const char* call, void* dest, const void* source, Elements elements,
                   const Signal& signal, int pe, engine::DeviceStream stream);

}  // namespace penstock::nvshmem
