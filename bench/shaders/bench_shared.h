/* Numbers that the benchmark and its shaders agree on. Compiled as C and as GLSL. */
#ifndef RHUMB_BENCH_SHARED_H
#define RHUMB_BENCH_SHARED_H

#define BENCH_INVOCATIONS 128 /* of a work group: what every device has */
#define SPEC_STREAM 0         /* one of STREAM_* */
#define STREAM_COPY 0
#define STREAM_READ 1
#define STREAM_WRITE 2
#define STREAM_ADD 3
#define STREAM_QUADS 4 /* 16-byte accesses of an invocation */
#define MULTIPLY_ADD_CHAINS 8
#define MULTIPLY_ADD_STEPS 256

#endif
