// What the sources of programs.py tell the program that runs them: the trials of one file.
#pragma once

struct Trial;

struct Tried {
  const char* name;
  void (*trial)(Trial&);
  bool is_on_stream;
  bool is_captured;  // may be
};

struct Part {
  const char* name;
  const Tried* tried;
  int count;
};

// Null where the program was linked without it.
#define EVERY(PART) extern const Part every_host_##PART __attribute__((weak));
EVERY(memory)
EVERY(words)
EVERY(collectives)
EVERY(reduces)
EVERY(reducescatters)
#undef EVERY
