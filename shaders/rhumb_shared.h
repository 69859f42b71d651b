/* Numbers and block layouts that the runtime and the shaders agree on. Compiled as C and
 * as GLSL. */
#ifndef RHUMB_SHARED_H
#define RHUMB_SHARED_H

#if defined(__STDC_VERSION__) || defined(__cplusplus)
#include <stdint.h>
#define RHUMB_UINT uint32_t
#define RHUMB_INT int32_t
#define RHUMB_FLOAT float
#define RHUMB_UVEC4(name, count) uint32_t name[count][4]
#define RHUMB_VEC4(name, count) float name[count][4]
#else
#define RHUMB_UINT uint
#define RHUMB_INT int
#define RHUMB_FLOAT float
#define RHUMB_UVEC4(name, count) uvec4 name[count]
#define RHUMB_VEC4(name, count) vec4 name[count]
#endif

/* Limits of the kernels. */
#define RHUMB_MAX_HEAD_DIM 576
#define RHUMB_MAX_PAIRS 288     /* of a rotary window: RHUMB_MAX_HEAD_DIM / 2 */
#define TURNS_PER_LIST 144      /* uvec4 of a list of frequencies: RHUMB_MAX_PAIRS / 2 */
#define RHUMB_MAX_EDGES 1024    /* of a relative scheme's buckets */
#define RHUMB_MAX_CHANNELS 32768 /* of embeddings: TURNS_RATIO^2 angles, two channels each */
#define RHUMB_MAX_OFFSETS 576   /* of an axis of a window: half the words of turns */
#define RHUMB_MAX_LENGTH 0x40000000 /* rows or keys: differences of indices then fit an int */

/* rhumb_view_id and rhumb_dtype of rhumb.h, as macros for GLSL; api.c asserts that they agree. */
#define VIEW_Q 0
#define VIEW_K 1
#define VIEW_V 2
#define VIEW_O 3
#define VIEW_Q_OUT 4
#define VIEW_K_OUT 5
#define VIEW_POSITIONS_Q 6
#define VIEW_POSITIONS_K 7
#define VIEW_LENGTHS 8
#define VIEW_STATUS 9
#define VIEW_V_OUT 10
#define VIEW_SLOTS 11
#define VIEW_Q_GAIN 12
#define VIEW_K_GAIN 13
#define VIEW_FREQUENCIES 14
#define VIEW_TABLE 15
#define VIEW_QUERY_TABLE 16
#define VIEW_KEY_TABLE 17
#define VIEW_VALUE_TABLE 18
#define VIEW_TABLE_SCALAR 19
#define VIEW_CONTENT_BIAS 20
#define VIEW_POSITION_BIAS 21
#define VIEW_SEGMENT_BIAS 22
#define VIEW_SEGMENT_TABLE 23
#define VIEW_SEGMENTS_Q 24
#define VIEW_SEGMENTS_K 25
#define VIEW_MASK 26
#define VIEW_ROW_SCALE 27
#define VIEW_HEAD_SCALE 28
#define VIEW_WORKSPACE 29
#define VIEW_SINKS 30
#define VIEW_LSE 31
#define VIEW_X VIEW_Q /* in operations on tables and embeddings */
#define VIEW_Y VIEW_O
#define VIEW_COLUMN_TABLE VIEW_KEY_TABLE
#define VIEW_VALID VIEW_SEGMENTS_K
#define VIEW_BLOCK_TABLE VIEW_SLOTS /* attention */
#define VIEW_Q_STARTS VIEW_SEGMENTS_Q
#define VIEW_K_STARTS VIEW_SEGMENTS_K
#define VIEW_PARTS VIEW_V /* COMBINE */
#define VIEW_PART_LSE VIEW_ROW_SCALE
#define DTYPE_F32 0
#define DTYPE_F16 1
#define DTYPE_BF16 2
#define DTYPE_I32 3
#define DTYPE_Q8_0 4
#define Q8_ELEMENTS 32 /* of a block: a float16 scale, then a signed byte each */
#define Q8_BYTES 34
#define PAIRING_INTERLEAVED 0
#define PAIRING_HALF 1
#define PAIRING_INTERLEAVED_TO_HALF 2 /* read interleaved, written half: ROTATE only */
#define PAIRING_NONE 3 /* no rotation in this kernel */
#define ROTARY_AXES 1   /* positions of several axes */
#define ROTARY_PHASES 2 /* a constant phase */
#define ROTARY_GROWTH 4 /* a factor that grows with the position */
#define ROTARY_LEARNED 8 /* frequencies of each head for two axes, in a view */
#define TERM_TABLE 1        /* b: a scalar of TABLE added to the logit */
#define TERM_SLOPE 2        /* b: a slope per head times the distance */
#define TERM_QUERY 4        /* q . A[row] */
#define TERM_KEY 8          /* k . C[row] */
#define TERM_SCALAR 16      /* r[row] inside the scale */
#define TERM_SEGMENT 32     /* (q + z) . G[segment] */
#define TERM_VALUE 64       /* V[row] beside v */
#define TERM_CONTENT_BIAS 128 /* u */
#define TERM_POSITION_BIAS 256 /* w */
#define TERM_WINDOW 512     /* rows by offsets inside a window */
#define TERM_COSINE 1024    /* cosine attention */
#define TERM_ROW_SCALE 2048 /* factor of b per row */
#define TERM_LOGARITHM 4096 /* b: a logarithm of the distance, by two numbers per head in TABLE */
#define ENCODE_SINUSOID 1   /* sines and cosines of coordinates */
#define ENCODE_TABLE 2      /* rows of TABLE */
#define ENCODE_OFFSETS 4    /* coordinates of offsets inside a window, from turns */
#define ENCODE_GRID 8       /* rows are tokens of a grid, after prefix_tokens of them */
#define ENCODE_IMAGE 16     /* Y is [B, D, H, W] */
#define ENCODE_TWO_AXES 32  /* channels of one axis of the grid, then of the other */
#define ENCODE_CONCAT 64    /* TABLE by rows of the grid and COLUMN_TABLE by columns, side by side */
#define ENCODE_SUM 128      /* their sum */
#define ENCODE_NORMALIZE 256 /* rows of TABLE divided by their length */
#define SLOPE_FROM_QUERY 0
#define SLOPE_FROM_FIRST_KEY 1
#define SLOPE_FROM_LAST_KEY 2
#define SLOPE_BY_POSITION 3
#define RESIZE_CUBIC 1     /* else linear */
#define RESIZE_ANTIALIAS 2 /* samples beyond the edge are dropped, not repeated */
#define RESIZE_FLOOR_AT_ZERO 4 /* coordinates before the first sample are the first sample */
#define RESIZE_LISTED 8    /* coordinates from a list */
#define RESIZE_COPY 16     /* every row is copied */
#define LISTED_SAMPLES 256 /* of an axis */
#define WEIGHT_OUT_IN 0
#define WEIGHT_IN_OUT 1
#define APPEND_NONE 0
#define APPEND_POSITION 1
#define APPEND_RING 2
#define APPEND_SLOTS 3
#define LAYOUT_CONTIGUOUS 0 /* attention: where rows and keys lie */
#define LAYOUT_PAGED 1      /* keys in blocks of a pool, by BLOCK_TABLE */
#define LAYOUT_PACKED 2     /* sequences one behind the other, by Q_STARTS and K_STARTS */
#define MASK_ORDER_INDEX 1
#define MASK_ORDER_POSITION 2

/* Descriptor set 0. */
#define BINDING_MEMORY 0    /* storage buffers, SPEC_SLOT_COUNT of them */
#define BINDING_CONSTANTS 1 /* dynamic uniform buffer: struct rhumb_constants_block */
#define BINDING_BINDINGS 2  /* dynamic uniform buffer: struct rhumb_bindings_block */

/* Specialisation constant ids. */
#define SPEC_WORKGROUP 0   /* invocations */
#define SPEC_SLOT_COUNT 1
#define SPEC_VIEWS 2       /* mask of the views that the plan has */
#define SPEC_ALIGNED 3     /* 1: rows start at multiples of 4 elements, so vector
                              accesses are legal */
#define SPEC_PAIRING 4
#define SPEC_IN_PLACE 5    /* rotate: mask of VIEW_Q, VIEW_K bits that are rotated in place */
#define SPEC_HEAD_DIM 6    /* fast attention forms; the generic form reads it from the
                              constants block */
#define SPEC_VALUE_DIM 7
#define SPEC_HEAD_CHUNK 8  /* channels of Q and K staged at a time; divides the head size */
#define SPEC_VALUE_CHUNK 9 /* channels of V staged at a time; divides the value size */
#define SPEC_KEYS 10       /* tile: keys of a lane in a step; decode: of lanes that share keys */
#define SPEC_LANES 11      /* decode: lanes that share one key; rotate with a norm: that share a
                              row, a power of two */
#define SPEC_ROTARY 12     /* mask of ROTARY_*: what pairs have beside a frequency */
#define SPEC_TERMS 13      /* TERM_* */
#define SPEC_APPEND 14     /* rotate: APPEND_* */
#define SPEC_RESIZE 15     /* resize: RESIZE_* */
#define SPEC_ENCODING 16   /* encode: ENCODE_* */
#define SPEC_LAYOUT 17     /* attention: LAYOUT_* */
#define SPEC_ROWS 18       /* decode: query rows of a work group */
#define SPEC_SLOT 32       /* + view id: descriptor slot */
#define SPEC_DTYPE 64      /* + view id: dtype */
#define SPEC_COUNT 96

/* Rows and keys of the generic attention kernel's step, lanes of a row group of the tile kernel. */
#define GENERIC_INVOCATIONS 128
#define GENERIC_ROWS 4
#define GENERIC_KEYS 32
/* Quads of channels of Q K and keys of P V in a round of their loops: fewer where P V's code is there
   for many chunks of channels, since a GPU's cache for code has some 32 KiB. */
#define TILE_QUADS_AT_ONCE(chunks) ((chunks) > 2u ? 2u : 4u)
#define TILE_KEYS_AT_ONCE(chunks) ((chunks) > 2u ? 1u : (chunks) > 1u ? 2u : 4u)
#define TILE_LANES 8
#define BROADCAST_LANES 8  /* of a subgroup */
#define BROADCAST_ROWS 4   /* of a lane */
#define TILE_ROWS 4
#define DECODE_INVOCATIONS 128
#define DECODE_MAX_ROWS 8
#define COMBINE_INVOCATIONS 128
#define COMBINE_CHANNELS 2 /* of one invocation */
#define BIAS_INVOCATIONS 128
#define BIAS_HEADS 8       /* heads that share the rows of an invocation's keys */
#define BIAS_KEYS 4        /* keys of one invocation */
#define BIAS_ROWS 8        /* and its rows, which share diagonals */
#define ROTATE_INVOCATIONS 128
#define ROTATE_HEADS 4     /* heads that share one angle */
#define ROTATE_PAIRS 4     /* pairs of one invocation */
#define PROJECT_ROWS 4     /* of one invocation */
#define ROTATE_COPY 8      /* untouched channels of one invocation */

#define ENCODE_INVOCATIONS 128
#define ENCODE_BATCH 4     /* batch entries that share one angle */
#define ENCODE_ANGLES 4    /* angles of one part: sines and cosines are a vector each */
#define ENCODE_ROWS 8      /* rows that share the frequencies of a part */
#define ENCODE_CHANNELS 8  /* channels of a part without angles */
#define TURNS_RATIO 128    /* angles per element of the first of the two lists in turns */

#define DIVIDE_PARTS 0         /* of a row */
#define DIVIDE_SEGMENT_PARTS 1 /* of a segment of a row */
#define DIVIDE_ROWS 2
#define DIVIDE_PLACES 3        /* groups of heads */

#define FLAG_CAUSAL 1
#define FLAG_INVERSE 2
#define FLAG_MASK_ONE_KEY 4 /* MASK has one element for all keys of a row */
#define FLAG_SHIFT 8 /* rotate: q_offset is the position of every row */
#define FLAG_BIAS_AFTER_SOFTCAP 16

/* struct rhumb_constants_block, term_flags */
#define TERM_FLAG_FLIP_HALF 1
#define TERM_FLAG_KEY_MIRRORED 2
#define TERM_FLAG_FOLDED 4
#define TERM_FLAG_BIAS_IN_SCALE 8

/* struct rhumb_constants_block, encode_flags */
#define ENCODE_FLAG_LISTED 1         /* turns has one element an angle */
#define ENCODE_FLAG_COLUMN_MAJOR 2   /* token x H + y */
#define ENCODE_FLAG_COLUMN_FIRST 4   /* the column has the first channels */
#define ENCODE_FLAG_NORMALIZE 8      /* coordinates are divided by their total */
#define ENCODE_FLAG_NEGATIVE_SCALE 16
#define ENCODE_FLAG_PADDING 32       /* padding_index holds */
#define ENCODE_FLAG_CLAMP_NEGATIVE 64
#define ENCODE_FLAG_ZERO_OUTSIDE 128 /* else the nearest row of the table */

/* What a record says; push constants. INT32_MIN in a length: take it from the device (never reached
 * without a lengths view). */
struct rhumb_push {
    RHUMB_UINT batch;        /* of the views */
    RHUMB_INT q_length;
    RHUMB_INT k_length;
    RHUMB_INT q_offset;      /* INT32_MIN: unset */
    RHUMB_UINT flags;
    RHUMB_INT window_left;   /* INT32_MAX: none */
    RHUMB_INT window_right;
    RHUMB_INT max_q_length;  /* what the dispatch covers; larger device values are clamped */
    RHUMB_INT max_k_length;
    RHUMB_UINT first_group;  /* number of the dispatch's first work group in its record */
    RHUMB_UINT tiles;        /* attention: row tiles of one (batch, kv head) */
    RHUMB_UINT first_row;    /* scores, softmax: the block of rows of every batch entry */
    RHUMB_UINT row_count;
    RHUMB_INT append_position; /* rotate: cache row of row 0; INT32_MIN: as q_offset */
    RHUMB_UINT capacity;     /* rotate: rows of K_OUT and V_OUT */
    RHUMB_FLOAT softcap;     /* attention: 0: none */
    RHUMB_INT chunk;         /* INT32_MAX: none */
    RHUMB_INT kept_keys;
    RHUMB_UINT slices;       /* combine: parts of a row; decode: slices of the keys, 1: not cut */
    RHUMB_UINT slice_keys;   /* decode: keys of a slice */
    RHUMB_UINT shift[4];     /* of Q, K, V, O: elements from the descriptor that view[id].w counts
                                from to the one that is bound */
    RHUMB_UINT divide[4];    /* rotate: by DIVIDE_*, multipliers; n / d = high(2 n m) >> s */
    RHUMB_UINT divide_shift; /* and s, 8 bits each */
};

/* What a plan computes; uniform buffer. */
struct rhumb_constants_block {
    RHUMB_UINT head_dim;
    RHUMB_UINT value_dim;
    RHUMB_UINT heads;
    RHUMB_UINT kv_heads;
    RHUMB_UINT rotary_dim;
    RHUMB_UINT rotary_offset;
    RHUMB_FLOAT magnitude;   /* of the rotated channels */
    RHUMB_FLOAT scale_log2;  /* softmax scale times log2(e) */
    RHUMB_UINT mask_order;
    RHUMB_UINT turns_first;  /* first element of turns in use: 0 or TURNS_PER_LIST */
    RHUMB_UINT segments;     /* 2: pairs are partners within each half of the window, else 1 */
    RHUMB_INT centre;        /* ROTARY_GROWTH: position where no pair grows */
    /* Two lists of frequencies; pair i: {low, high} word of 2^64 turns per position, low with a sign
     * (so that high is 1 more where low's top bit is set). Where the
     * length chooses between two, that of short contexts is first; all others use the first.
     * ENCODE_SINUSOID: the turns of angle TURNS_RATIO k, k below TURNS_RATIO, then the ratios r^j,
     * j below TURNS_RATIO: angle TURNS_RATIO k + j turns by their product; or a list of angles, two
     * a vector.
     * ENCODE_OFFSETS: words, RHUMB_MAX_OFFSETS an axis, the coordinate of each distance. */
    RHUMB_UVEC4(turns, 288);
    /* Relative terms: rhumb_terms of the runtime. Flags: TERM_FLAG_*. */
    RHUMB_INT delta_low;
    RHUMB_INT delta_high;
    RHUMB_INT none_below;
    RHUMB_INT none_above;
    RHUMB_INT base_past;
    RHUMB_INT base_future;
    RHUMB_INT step_past;
    RHUMB_INT step_future;
    RHUMB_UINT exact;
    RHUMB_UINT edge_count;
    RHUMB_UINT term_flags;
    RHUMB_UINT slope_reference; /* and, times 4, that where a softcap is around b */
    RHUMB_UINT table_rows;
    RHUMB_FLOAT bias_scale;
    RHUMB_FLOAT scale;       /* softmax scale */
    RHUMB_FLOAT mask_value;  /* windows, added between regions */
    RHUMB_UINT window_height;
    RHUMB_UINT window_width;
    RHUMB_UINT grid_height;
    RHUMB_UINT grid_width;
    RHUMB_UINT shift_height;
    RHUMB_UINT shift_width;
    RHUMB_UINT padded_height;
    RHUMB_UINT padded_width;
    RHUMB_UINT modulus_height;
    RHUMB_UINT modulus_width;
    RHUMB_UINT class_tokens;
    RHUMB_FLOAT max_log_scale;
    RHUMB_FLOAT epsilon;     /* cosine attention */
    RHUMB_FLOAT norm_epsilon; /* rotate: norm of rows before rotation */
    RHUMB_FLOAT gain_offset;
    /* RESIZE, PROJECT */
    RHUMB_UINT prefix_tokens;
    RHUMB_UINT suffix_tokens;
    RHUMB_UINT old_height;
    RHUMB_UINT old_width;
    RHUMB_UINT new_height;
    RHUMB_UINT new_width;
    RHUMB_FLOAT spread_height; /* by which the kernel is widened */
    RHUMB_FLOAT spread_width;
    RHUMB_FLOAT cubic;       /* a of the cubic kernel */
    RHUMB_UINT hidden;       /* units of the hidden layer of a continuous bias */
    RHUMB_FLOAT bias_gain;
    RHUMB_UINT weight_layout;
    /* Relative terms: rows are the same for all distances up to near_low, and from near_high on */
    RHUMB_INT near_low;
    RHUMB_INT near_high;
    RHUMB_UINT padding_0;    /* up to a whole vector */
    RHUMB_UINT padding_1;
    RHUMB_UINT padding_2;
    /* RESIZE: the source coordinate of sample i is start + i step, in 2^-48 with its sign */
    RHUMB_UVEC4(sample_start, 1); /* {low, high} of rows, {low, high} of columns */
    RHUMB_UVEC4(sample_step, 1);
    RHUMB_UVEC4(axes, 5);    /* ROTARY_AXES: two bits a pair, the row of POSITIONS_Q */
    RHUMB_UVEC4(phases, 72); /* ROTARY_PHASES: per pair, 2^32 turns at position 0 */
    RHUMB_VEC4(growth, 72);  /* ROTARY_GROWTH: per pair, log2 of the factor of Q a position */
    RHUMB_UVEC4(edges, 256); /* of buckets, ascending. RESIZE with a list: source index of each
                                sample, rows, then columns from LISTED_SAMPLES on */
    RHUMB_VEC4(slopes, 128); /* two heads a vector: {past, future} of each. RESIZE with a list: the
                                fractions beside the indices */
    /* Encodings: rhumb_encoding of the runtime. Flags: ENCODE_FLAG_*. Numbers of three or two words
     * are fixed-point: {fraction of 32 bits, low, high}. */
    RHUMB_FLOAT x_scale;
    RHUMB_FLOAT pe_scale;
    RHUMB_UINT encode_flags;
    RHUMB_UINT angles;           /* of an axis */
    RHUMB_UINT channel_step;     /* between the sines of an axis: 1, or 2 with cosines between */
    RHUMB_UINT encoded_channels; /* those from here on are 0 */
    RHUMB_UINT parts;            /* of a row, see encode.comp */
    RHUMB_UINT sine_first;       /* channel of the first sine of the first axis, then the second */
    RHUMB_UINT sine_second;
    RHUMB_UINT cosine_first;
    RHUMB_UINT cosine_second;
    RHUMB_UINT axis_parts;       /* of an axis; each has axis_run parts' worth of angles */
    RHUMB_UINT axis_run;
    RHUMB_INT padding_index;
    RHUMB_INT table_offset;
    RHUMB_UINT start_fraction;   /* added to every coordinate */
    RHUMB_UINT start_low;
    RHUMB_UINT start_high;
    RHUMB_UINT half_channels;    /* ENCODE_CONCAT: of one table */
    RHUMB_UINT center_fraction;  /* ENCODE_FLAG_NORMALIZE: (sum + center) / (total + epsilon) scale */
    RHUMB_UINT center_low;
    RHUMB_UINT epsilon_fraction;
    RHUMB_UINT epsilon_low;
    RHUMB_UINT scale_fraction;   /* magnitude */
    RHUMB_UINT scale_low;
    RHUMB_UINT encode_padding_0;
    RHUMB_UINT encode_padding_1;
    RHUMB_UINT encode_padding_2;
};

/* Where the views lie; uniform buffer. Per view id: strides of B, H, L and the first element, all
 * in elements of the view's dtype from the start of its descriptor; of q8_0 the first block, in
 * bytes. The stride of D is 1. */
struct rhumb_bindings_block {
    RHUMB_UVEC4(view, 32);
    RHUMB_UVEC4(place, 32); /* {low, high} address of what .w of the view counts from, sizes of B
                               and L */
};

#endif /* RHUMB_SHARED_H */
