/* Numbers that the benchmark and its shaders agree on. Compiled as C and as GLSL. */
#ifndef RHUMB_BENCH_SHARED_H
#define RHUMB_BENCH_SHARED_H

/* Specialisation constant ids. */
#define SPEC_INVOCATIONS 0 /* of a work group */
#define SPEC_STREAM 1      /* one of STREAM_* */
#define SPEC_COUNT 2

#define STREAM_COPY 0
#define STREAM_READ 1
#define STREAM_WRITE 2
#define STREAM_ADD 3
#define STREAM_QUADS 4 /* 16-byte accesses of an invocation */
#define MULTIPLY_ADD_CHAINS 12
#define MULTIPLY_ADD_STEPS 256
#define MULTIPLY_ADD_UNROLL 16
#define EXP2_CHAINS 8
#define EXP2_STEPS 64
#define EXP2_UNROLL 4
#define SHARED_QUADS 512 /* 8 KiB: every device has twice as much */
#define SHARED_STEPS 256
#define SHARED_UNROLL 8

#endif
