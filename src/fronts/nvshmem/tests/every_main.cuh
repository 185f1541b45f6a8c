// What the sources of programs.py tell the program that runs them: the kernels of one file.
#pragma once

struct Memory;

struct Tried {
  const char* name;
  void (*kernel)(Memory);
};

#define EVERY(PART)                  \
  extern const Tried tried_##PART[]; \
  extern const int tried_##PART##_count;
EVERY(memory)
EVERY(words)
EVERY(collectives)
EVERY(reduces)
EVERY(reducescatters)
#undef EVERY
