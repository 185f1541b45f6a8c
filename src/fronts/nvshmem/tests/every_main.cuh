// How the programs of programs.py are run: the kernels of one file, one after the other.
#pragma once

struct Memory;

struct Tried {
  const char* name;
  void (*kernel)(Memory);
};
