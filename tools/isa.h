/* Machine code of AMD GPUs as RADV's disassembly has it: blocks between labels, the loop over keys,
 * and what its instructions do. Other texts are refused. */
#ifndef RHUMB_TOOLS_ISA_H
#define RHUMB_TOOLS_ISA_H

#include <stdbool.h>
#include <stdint.h>

/* Of instructions; bytes are those of one lane. */
enum {
    ISA_INSTRUCTIONS,
    ISA_VECTOR,        /* of the vector ALUs, two for a dual one */
    ISA_MULTIPLY_ADDS, /* of floats */
    ISA_SELECTS,
    ISA_LOADS, /* from global memory by a vector of addresses */
    ISA_STORES,
    ISA_GLOBAL_BYTES, /* of both */
    ISA_SHARED_LOADS, /* two where an instruction has two addresses; so stores */
    ISA_SHARED_STORES,
    ISA_SHARED_READ, /* bytes */
    ISA_SHARED_WRITTEN,
    ISA_BARRIERS,
    ISA_COUNTS
};

typedef struct isa_count {
    double of[ISA_COUNTS];
} isa_count;

typedef struct isa_block {
    uint32_t number; /* of its label */
    uint32_t back;   /* first block of the loop that ends here; else the next block */
    uint32_t ahead;  /* where a branch past others goes on, else the next block */
    bool jumps;      /* there, whatever holds */
    isa_count count;
} isa_block;

#define ISA_MOST_BLOCKS 2048

/* Large: static or heap. */
typedef struct isa_listing {
    isa_block blocks[ISA_MOST_BLOCKS];
    uint32_t count;
} isa_listing;

/* False for a text that is no such disassembly, or a longer one. */
bool isa_read(const char *assembly, isa_listing *listing);

/* Of all blocks but loops and what is done for a loop alone; of two ways that exclude each other the
 * one with more vector instructions. */
isa_count isa_sum_without_loops(const isa_listing *listing);

/* Of the block with the most vector instructions. */
isa_count isa_longest_block(const isa_listing *listing);

/* One round of the loop over keys, the one that multiplies and adds most, for a lane.
 * `multiply_adds` are those that attention needs.
 *
 * Of the tile form, whose specialisation constants are `spec` (by id), `count` follows the way that
 * blocks of keys take which are all visible, finite, without a cap and at distances that all have rows
 * in the tables; blocks of inner loops count
 * as often as they run, and of two ways that exclude each other the one with more vector
 * instructions counts. Of all other kernels (`spec` NULL) it has every block once, and
 * `multiply_adds` is what the code has. False: there is no such loop, or the inner loops of the tile
 * are not those that it is known to have. */
typedef struct isa_loop {
    isa_count count;
    double multiply_adds;
} isa_loop;

bool isa_key_loop(const isa_listing *listing, const uint32_t *spec, isa_loop *loop);

/* The same of the decode form, by the way of steps whose keys are all visible, without a cap;
 * everything else runs once. */
bool isa_decode_loop(const isa_listing *listing, isa_loop *loop);

/* Waves that a SIMD holds at once by what its registers and its part of the shared memory allow,
 * counted as waves of *lanes: 32 on RDNA, where one of 64 counts as two, and 64 on GCN. `device` is
 * RADV's name of it; 0: this one is not known. */
double isa_waves(const char *device, uint32_t vector_registers, uint32_t shared_bytes,
                 uint32_t invocations, uint32_t subgroup_size, uint32_t *lanes);

#endif /* RHUMB_TOOLS_ISA_H */
