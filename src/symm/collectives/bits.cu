// Bit by bit: in words where the program's are whole ones, else in bytes.
#include "collective_kernels.cuh"

PENSTOCK_REDUCE(and_u8, And, uint8_t)
PENSTOCK_REDUCE(or_u8, Or, uint8_t)
PENSTOCK_REDUCE(xor_u8, Xor, uint8_t)
PENSTOCK_REDUCE(and_u32, And, uint32_t)
PENSTOCK_REDUCE(or_u32, Or, uint32_t)
PENSTOCK_REDUCE(xor_u32, Xor, uint32_t)
