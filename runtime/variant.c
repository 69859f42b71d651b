/* From limits to kernels: the one place where variants, tiles and work-group sizes are chosen. */
#include "op/norm.h"

#include <stdio.h>


static bool avoided(const rhumb_resolved *r, uint32_t kernel)
{
    return r->avoid & kernel;
}

void rhumb_set_common(const rhumb_resolved *r, rhumb_pipeline_key *key, rhumb_kernel kernel,
                      bool aligned)
{
    key->kernel = kernel;
    key->spec[SPEC_SLOT_COUNT] = r->properties.slot_count;
    key->spec[SPEC_VIEWS] = r->info.views;
    key->spec[SPEC_ALIGNED] = aligned;
    key->spec[SPEC_PAIRING] = r->has_rotary ? r->rotary.pairing : PAIRING_NONE;
    key->spec[SPEC_ROTARY] = (r->rotary.axes > 1 ? ROTARY_AXES : 0) |
                             (r->rotary.has_phase ? ROTARY_PHASES : 0) |
                             (r->rotary.has_growth ? ROTARY_GROWTH : 0) |
                             (r->rotary.has_learned ? ROTARY_LEARNED : 0);
    key->spec[SPEC_TERMS] = r->terms.mask;
    key->spec[SPEC_LAYOUT] = r->layout;
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++) {
        bool present = r->info.views & BIT(id);
        key->spec[SPEC_SLOT + id] = present ? r->properties.slot[id] : 0;
        key->spec[SPEC_DTYPE + id] = present ? (uint32_t)r->info.dtype[id] : DTYPE_F32;
    }
}

static bool is_cpu_with_addresses(const rhumb_context *context)
{
    return context->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU &&
           context->limits.device_address;
}

bool rhumb_prefers_addresses(const rhumb_context *context, const rhumb_resolved *r)
{
    return is_cpu_with_addresses(context) && !avoided(r, RHUMB_AVOID_ADDRESSES);
}

/* ---- ROTATE */

_Static_assert(RHUMB_MAX_HEAD_DIM / (2 * ROTATE_PAIRS) + 3 <= ROTATE_INVOCATIONS &&
                   ROTATE_COPY >= 2 * ROTATE_PAIRS,
               "the parts of a row fit a work group");

/* Invocations that share a row with a norm: one for each part, in a power of two. */
static uint32_t norm_lanes(const rhumb_resolved *r)
{
    uint32_t lanes = 1;
    while (lanes < rhumb_rotate_parts(r))
        lanes *= 2;
    return lanes;
}

static void set_rotate(rhumb_resolved *r, uint32_t index)
{
    rhumb_pipeline_key *key = &r->keys[index];
    bool norm = r->info.views & NORM_GAINS;
    rhumb_set_common(r, key, norm ? RHUMB_KERNEL_ROTATE_NORM : RHUMB_KERNEL_ROTATE,
                     index == RHUMB_FAST_ALIGNMENT);
    key->spec[SPEC_WORKGROUP] = ROTATE_INVOCATIONS;
    key->spec[SPEC_LANES] = norm ? norm_lanes(r) : 1;
    key->spec[SPEC_APPEND] = (uint32_t)r->info.append;
    const uint32_t in[] = {RHUMB_VIEW_Q, RHUMB_VIEW_K};
    const uint32_t out[] = {RHUMB_VIEW_Q_OUT, RHUMB_VIEW_K_OUT};
    for (uint32_t i = 0; i < 2; i++) {
        if (!(r->info.views & BIT(in[i])) || (r->info.views & BIT(out[i])))
            continue;
        key->spec[SPEC_IN_PLACE] |= BIT(in[i]);
        key->spec[SPEC_SLOT + out[i]] = key->spec[SPEC_SLOT + in[i]];
        key->spec[SPEC_DTYPE + out[i]] = key->spec[SPEC_DTYPE + in[i]];
    }
    r->rows_per_group[index] = 1;
}

rhumb_result rhumb_choose_rotate(const rhumb_context *context, rhumb_resolved *r)
{
    const rhumb_rotary *rotary = &r->rotary;
    RHUMB_TRY(rhumb_check_variant(context, "rotate", &r->info));
    uint32_t run = rotary->pairing == PAIRING_INTERLEAVED ? ROTATE_PAIRS
                                                          : 2 * ROTATE_PAIRS * rotary->segments;
    bool fits = r->info.head_dim % 4 == 0 && rotary->rotary_offset % 4 == 0 &&
                rotary->rotary_dim % run == 0 &&
                (!(r->info.views & BIT(RHUMB_VIEW_V)) || r->info.value_dim % 4 == 0);
    bool vectors = fits && !avoided(r, RHUMB_SELF_TEST_ROTATE_VECTOR);
    r->aligned_only = avoided(r, RHUMB_SELF_TEST_ROTATE);
    if (r->aligned_only && !vectors)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "rotate: wanted a kernel for this shape, found one that " FOUND_WRONG);
    r->has_fast = vectors;
    set_rotate(r, RHUMB_ANY_ALIGNMENT);
    if (vectors)
        set_rotate(r, RHUMB_FAST_ALIGNMENT);
    rhumb_plan_properties *p = &r->properties;
    p->variant = RHUMB_VARIANT_GENERIC;
    bool norm = r->info.views & NORM_GAINS;
    p->invocations = ROTATE_INVOCATIONS;
    p->shared_bytes = norm ? 16 * ROTATE_INVOCATIONS : 0;
    snprintf(p->reason, sizeof p->reason, "rotate: %s; %s",
             norm ? "one kernel for all shapes with a norm" : "one kernel for all shapes",
             vectors ? "vector accesses where rows start at multiples of 4 elements"
             : fits  ? "scalar accesses: the vector form " FOUND_WRONG
                     : "scalar accesses: head_dim, value_dim or the rotary window is no multiple "
                       "of a vector");
    return RHUMB_OK;
}

/* ---- ATTENTION */
struct tile {
    uint32_t workgroup, keys, head_chunk, value_chunk, shared_bytes;
    bool subgroup;
};

#define TILE_BIASES (TERM_TABLE | TERM_SLOPE | TERM_LOGARITHM)
#define TILE_BANDS (TERM_QUERY | TERM_KEY | TERM_SCALAR | TERM_VALUE) /* by distances of indices */
#define TILE_TERMS                                                                                 \
    (TILE_BIASES | TILE_BANDS | TERM_SEGMENT | TERM_CONTENT_BIAS | TERM_POSITION_BIAS |            \
     TERM_ROW_SCALE)

/* Of a staged row, padded by 16. */
static uint32_t pitch_bytes(uint32_t channels)
{
    return channels * 4 + 16;
}

/* As lib/band.glsl declares it: one element of each array that is not used. */
static uint32_t band_bytes(const struct tile *t, const rhumb_resolved *r)
{
    const uint32_t terms = r->terms.mask;
    const uint32_t slots = t->workgroup / TILE_LANES * TILE_ROWS + TILE_LANES * t->keys;
    const uint32_t a = terms & TERM_QUERY ? 1 : 0, c = terms & TERM_KEY ? 1 : 0;
    const uint32_t head_bands = (a + c) * slots * pitch_bytes(t->head_chunk);
    const uint32_t value_bands = terms & TERM_VALUE ? slots * pitch_bytes(t->value_chunk) : 0;
    const bool difference = a && (terms & (TERM_CONTENT_BIAS | TERM_POSITION_BIAS));
    return rhumb_max_u32(rhumb_max_u32(head_bands, value_bands), 16) +
           (terms & (TERM_TABLE | TILE_BANDS) ? slots : 1) * 4 + (c ? slots : 1) * 4 +
           (terms & (TERM_SCALAR | TILE_BIASES) ? slots : 1) * 8 +
           (difference ? r->info.head_dim * 4 + slots * 16 : 32);
}

static uint32_t tile_bytes(const struct tile *t, const rhumb_resolved *r)
{
    const uint32_t groups = t->workgroup / TILE_LANES;
    const uint32_t rows = groups * TILE_ROWS;
    const uint32_t step = TILE_LANES * t->keys;
    const uint32_t widest = rhumb_max_u32(t->head_chunk, t->value_chunk);
    const uint32_t bytes = rows * t->head_chunk * 4 + step * pitch_bytes(widest) +
                           step * (groups + 1) * 16 + band_bytes(t, r) + 16;
    return t->subgroup ? bytes : bytes + TILE_LANES * (groups + 1) * 16;
}

/* The widest chunk of `dim` channels that is a multiple of 16, divides dim and is at most
 * `most`. */
static uint32_t widest_chunk(uint32_t dim, uint32_t most)
{
    for (uint32_t parts = 1; parts <= dim / 16; parts++)
        if (dim % parts == 0 && dim / parts % 16 == 0 && dim / parts <= most)
            return dim / parts;
    return 0;
}

/* Loops of more than 8 pairs of channels are not unrolled by some compilers, and then the outputs
 * of a lane live in scratch memory. */
#define TILE_VALUE_CHUNK 128
#define TILE_CUTS 15 /* of a head, at most */
#define TILE_MAX_DIM 256 /* more channels of the output than a lane has registers for */

/* Rows of tables follow the diagonals of indices; u joins Q before it is rotated, and segments meet Q
 * that is not; ROW_SCALE is the factor of all of b. */
static bool tile_terms_fit(const rhumb_resolved *r, char *why, size_t size)
{
    const uint32_t positions = BIT(RHUMB_VIEW_POSITIONS_Q) | BIT(RHUMB_VIEW_POSITIONS_K);
    const uint32_t terms = r->terms.mask;
    if (terms & ~(uint32_t)TILE_TERMS)
        snprintf(why, size, "wanted terms 0x%x, found 0x%x", TILE_TERMS, terms);
    else if ((r->info.views & positions) == positions && (terms & TILE_BANDS))
        snprintf(why, size, "wanted distances of indices for tables, found both position views");
    else if (r->has_rotary && (terms & (TERM_CONTENT_BIAS | TERM_SEGMENT)))
        snprintf(why, size,
                 "wanted Q that is rotated already beside CONTENT_BIAS and segments, found rotation");
    else if ((terms & TERM_ROW_SCALE) && (terms & TILE_BIASES) != TERM_TABLE)
        snprintf(why, size, "wanted ROW_SCALE with TABLE alone, found terms 0x%x", terms);
    else
        return true;
    return false;
}

static bool tile_shape_fits(const rhumb_resolved *r, char *why, size_t size)
{
    const rhumb_plan_info *i = &r->info;
    if (i->head_dim % 16 || i->value_dim % 16 || i->head_dim > TILE_MAX_DIM ||
        i->value_dim > TILE_MAX_DIM) {
        snprintf(why, size,
                 "wanted head_dim and value_dim in multiples of 16 up to %d, found %u and %u",
                 TILE_MAX_DIM, i->head_dim, i->value_dim);
        return false;
    }
    if (r->has_rotary && (r->rotary.rotary_dim % 4 || r->rotary.rotary_offset % 2)) {
        snprintf(why, size,
                 "wanted a rotary_dim in multiples of 4 at an even offset, found %u at %u",
                 r->rotary.rotary_dim, r->rotary.rotary_offset);
        return false;
    }
    return tile_terms_fit(r, why, size);
}

/* Lanes of a row group exchange maxima by shuffles where they share a subgroup. */
bool rhumb_has_shuffles(const rhumb_limits *l)
{
    return l->subgroup_size >= TILE_LANES && l->subgroup_size % TILE_LANES == 0 &&
           (l->subgroup_operations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
}

static bool choose_tile(const rhumb_context *context, const rhumb_resolved *r, struct tile *tile,
                        char *why, size_t size)
{
    static const struct {
        uint32_t workgroup, keys;
    } forms[] = {{128, 4}, {64, 4}, {64, 3}, {64, 2}, {64, 1}, {32, 1}};
    enum { FORMS = sizeof forms / sizeof forms[0] };
    const rhumb_limits *l = &context->limits;
    uint32_t smallest = UINT32_MAX;
    bool subgroup =
        rhumb_has_shuffles(l) && !avoided(r, RHUMB_SELF_TEST_ATTENTION_TILE_SUBGROUP);
    if (!tile_shape_fits(r, why, size))
        return false;
    if (!subgroup && avoided(r, RHUMB_SELF_TEST_ATTENTION_TILE)) {
        snprintf(why, size, FOUND_WRONG);
        return false;
    }
    /* Q is rotated as a whole head, so its channels are not cut then. Many channels a key, or rows of
     * tables for all distances of a step: part of the channels at a time costs less than fewer keys.
     * Heads from 64 on that 32 divides have chunks of 32 or more, since each costs barriers and
     * addresses. V has the widest chunk that fits, of 32 or more where it has more channels. */
    const uint32_t cuts = r->has_rotary ? 1 : TILE_CUTS;
    const bool cuts_first =
        r->info.head_dim > 128 || (r->terms.mask & (TERM_QUERY | TERM_KEY | TERM_VALUE));
    for (uint32_t i = 0; i < FORMS * cuts; i++) {
        const uint32_t form = cuts_first ? i / cuts : i % FORMS;
        const uint32_t parts = 1 + (cuts_first ? i % cuts : i / FORMS);
        const uint32_t chunk = r->info.head_dim / parts;
        struct tile t = {
            .workgroup = forms[form].workgroup, .keys = forms[form].keys, .subgroup = subgroup};
        if (r->info.head_dim % (16 * parts) ||
            (chunk == 16 && r->info.head_dim > 32 && r->info.head_dim % 32 == 0))
            continue;
        t.head_chunk = chunk;
        for (uint32_t most = TILE_VALUE_CHUNK; most >= 16; most = t.value_chunk - 1) {
            t.value_chunk = widest_chunk(r->info.value_dim, most);
            t.shared_bytes = tile_bytes(&t, r);
            if (t.shared_bytes <= l->max_shared_bytes ||
                (t.value_chunk <= 32 && r->info.value_dim > 32))
                break;
        }
        smallest = rhumb_min_u32(smallest, t.shared_bytes);
        if (t.shared_bytes <= l->max_shared_bytes && t.workgroup <= l->max_invocations) {
            *tile = t;
            return true;
        }
    }
    snprintf(why, size, "wanted %u bytes of shared memory, the device has %u", smallest,
             l->max_shared_bytes);
    return false;
}

struct decode {
    uint32_t rows, lanes, keys, shared_bytes;
};

#define DECODE_REGISTERS 128     /* floats of Q and O that a lane may hold */
#define DECODE_ALL_REGISTERS 160 /* with those of K and V */
#define DECODE_KEYS 4            /* of a lane in a step, at most */
#define DECODE_CACHE 16384       /* bytes of Q and O on a CPU device */

/* What attention_decode has of a scheme: what is free of Q and K. */
#define DECODE_TERMS (TERM_TABLE | TERM_SLOPE | TERM_LOGARITHM | TERM_ROW_SCALE)

/* As attention_decode.comp declares it. */
static uint32_t decode_bytes(const struct decode *d, const rhumb_plan_info *i)
{
    const uint32_t streams = DECODE_INVOCATIONS / d->lanes;
    const uint32_t q_floats = d->rows * i->head_dim, merge_floats = streams * i->value_dim;
    return 4 * ((q_floats > merge_floats ? q_floats : merge_floats) +
                d->keys * d->rows * (DECODE_INVOCATIONS + streams) + 2 * streams + 5 * d->rows);
}

static bool choose_decode(const rhumb_context *context, const rhumb_resolved *r, struct decode *d,
                          char *why, size_t size)
{
    const rhumb_plan_info *i = &r->info;
    uint64_t rows = (uint64_t)(i->heads / i->kv_heads) * i->max_q_length;
    if (i->head_dim > TILE_MAX_DIM || i->value_dim > TILE_MAX_DIM || i->head_dim % 16 ||
        i->value_dim % 16) {
        snprintf(why, size,
                 "wanted head_dim and value_dim in multiples of 16 up to %d, found %u and %u",
                 TILE_MAX_DIM, i->head_dim, i->value_dim);
        return false;
    }
    if (r->terms.mask & ~(uint32_t)DECODE_TERMS) {
        snprintf(why, size, "wanted terms 0x%x, found 0x%x", DECODE_TERMS, r->terms.mask);
        return false;
    }
    if (avoided(r, RHUMB_SELF_TEST_ATTENTION_DECODE)) {
        snprintf(why, size, FOUND_WRONG);
        return false;
    }
    /* The most lanes that leave each 8 channels or more; 4 lanes always divide. */
    d->lanes = 4;
    for (uint32_t lanes = 32; lanes > 4; lanes /= 2) {
        if (i->head_dim % (4 * lanes) == 0 && i->value_dim % (4 * lanes) == 0 &&
            i->head_dim / lanes >= 8) {
            d->lanes = lanes;
            break;
        }
    }
    uint32_t channels = (i->head_dim + i->value_dim) / d->lanes;
    d->rows = 1;
    while (d->rows < rows && d->rows < DECODE_MAX_ROWS &&
           2 * d->rows * channels <= DECODE_REGISTERS)
        d->rows *= 2;
    d->keys = DECODE_KEYS;
    d->shared_bytes = decode_bytes(d, i);
    while (d->keys > 1 && ((d->rows + d->keys) * channels > DECODE_ALL_REGISTERS ||
                           d->shared_bytes > context->limits.max_shared_bytes)) {
        d->keys /= 2;
        d->shared_bytes = decode_bytes(d, i);
    }
    if (d->shared_bytes > context->limits.max_shared_bytes) {
        snprintf(why, size, "wanted %u bytes of shared memory, the device has %u", d->shared_bytes,
                 context->limits.max_shared_bytes);
        return false;
    }
    return true;
}

/* More rows than this and reading K and V once per tile of rows costs more than the tile form's
 * staging. */
static bool few_rows(const rhumb_resolved *r)
{
    return (uint64_t)(r->info.heads / r->info.kv_heads) * r->info.max_q_length <= DECODE_MAX_ROWS;
}

/* Keys of a slice pay for their part of the second stage; slices fill the machine, whose size no
 * device tells. */
#define SLICE_KEYS 256
#define MOST_SLICES 64
#define GROUPS_OF_GPU 512
#define GROUPS_OF_CPU 32

/* Slices of the keys through WORKSPACE, for few work groups of so many rows each. */
static void cut_keys(const rhumb_context *context, rhumb_resolved *r, uint32_t rows_per_group)
{
    const rhumb_plan_info *i = &r->info;
    bool cpu = context->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    uint64_t rows = (uint64_t)(i->heads / i->kv_heads) * i->max_q_length;
    uint64_t groups = i->kv_heads * ((rows + rows_per_group - 1) / rows_per_group);
    uint64_t most = (cpu ? GROUPS_OF_CPU : GROUPS_OF_GPU) / groups;
    char text[64];
    most = most < 1 ? 1 : most > MOST_SLICES ? MOST_SLICES : most;
    uint64_t keys = (i->max_k_length + most - 1) / most;
    uint32_t slice = (uint32_t)((keys + SLICE_KEYS - 1) / SLICE_KEYS * SLICE_KEYS);
    uint32_t slices = (i->max_k_length + slice - 1) / slice;
    if (!(i->views & BIT(RHUMB_VIEW_WORKSPACE)) || (r->terms.mask & TERM_WINDOW))
        return;
    if (slices == 1) {
        rhumb_add_reason(r, "; all keys in one slice");
        return;
    }
    rhumb_set_combine(r, RHUMB_SECOND_STAGE);
    r->has_second = true;
    r->slice_keys = slice;
    /* Of each slice's part of a row: O, the largest logit and the sum. */
    r->properties.workspace_size = rhumb_saturated_product(
        (uint64_t)i->heads * i->max_q_length * slices, 4 * (i->value_dim + 2));
    snprintf(text, sizeof text, "; %u slices of %u keys through WORKSPACE", slices, slice);
    rhumb_add_reason(r, text);
}

static void set_generic(rhumb_resolved *r)
{
    rhumb_set_common(r, &r->keys[RHUMB_ANY_ALIGNMENT], RHUMB_KERNEL_ATTENTION_GENERIC, false);
    r->rows_per_group[RHUMB_ANY_ALIGNMENT] = GENERIC_ROWS;
    r->by_head[RHUMB_ANY_ALIGNMENT] =
        r->terms.mask & (TERM_QUERY | TERM_KEY | TERM_SEGMENT | TERM_CONTENT_BIAS | TERM_VALUE |
                         TERM_WINDOW);
    r->has_fast = false;
    rhumb_plan_properties *p = &r->properties;
    p->variant = RHUMB_VARIANT_GENERIC;
    p->invocations = GENERIC_INVOCATIONS;
    p->shared_bytes = 16 * RHUMB_MAX_HEAD_DIM + 20 * GENERIC_INVOCATIONS + 52 * GENERIC_KEYS;
    p->rows_per_group = GENERIC_ROWS;
    p->keys_per_step = GENERIC_KEYS;
}

static void set_tile(rhumb_resolved *r, const struct tile *t)
{
    rhumb_pipeline_key *key = &r->keys[RHUMB_FAST_ALIGNMENT];
    rhumb_plan_properties *p = &r->properties;
    rhumb_set_common(r, key,
               t->subgroup ? RHUMB_KERNEL_ATTENTION_TILE_SUBGROUP : RHUMB_KERNEL_ATTENTION_TILE,
               true);
    key->spec[SPEC_WORKGROUP] = t->workgroup;
    key->spec[SPEC_HEAD_DIM] = r->info.head_dim;
    key->spec[SPEC_VALUE_DIM] = r->info.value_dim;
    key->spec[SPEC_HEAD_CHUNK] = t->head_chunk;
    key->spec[SPEC_VALUE_CHUNK] = t->value_chunk;
    key->spec[SPEC_KEYS] = t->keys;
    r->rows_per_group[RHUMB_FAST_ALIGNMENT] = t->workgroup / TILE_LANES * TILE_ROWS;
    r->by_head[RHUMB_FAST_ALIGNMENT] = r->terms.mask != 0;
    r->has_fast = true;
    p->variant = RHUMB_VARIANT_TILE;
    p->invocations = t->workgroup;
    p->shared_bytes = t->shared_bytes;
    p->rows_per_group = r->rows_per_group[RHUMB_FAST_ALIGNMENT];
    p->keys_per_step = TILE_LANES * t->keys;
    snprintf(p->reason, sizeof p->reason,
             "attention: tile of %u rows x %u keys, %u channels staged at a time, %s",
             p->rows_per_group, p->keys_per_step, t->head_chunk,
             t->subgroup ? "shuffles" : "shared-memory maxima");
    if (!t->subgroup && avoided(r, RHUMB_SELF_TEST_ATTENTION_TILE_SUBGROUP))
        rhumb_add_reason(r, "; the form with shuffles " FOUND_WRONG);
}

static void set_decode_kernel(rhumb_resolved *r, uint32_t index, uint32_t invocations,
                              const struct decode *d)
{
    rhumb_pipeline_key *key = &r->keys[index];
    rhumb_set_common(r, key,
                     index == RHUMB_BY_ADDRESS ? RHUMB_KERNEL_ATTENTION_DECODE_ADDRESS
                                               : RHUMB_KERNEL_ATTENTION_DECODE,
                     true);
    key->spec[SPEC_WORKGROUP] = invocations;
    key->spec[SPEC_HEAD_DIM] = r->info.head_dim;
    key->spec[SPEC_VALUE_DIM] = r->info.value_dim;
    key->spec[SPEC_ROWS] = d->rows;
    key->spec[SPEC_KEYS] = d->keys;
    key->spec[SPEC_LANES] = d->lanes;
    r->rows_per_group[index] = d->rows;
}

/* CPU devices: a subgroup's lanes have a key each, with Q and O of the rows in the first cache. */
static void add_decode_by_address(const rhumb_context *context, rhumb_resolved *r)
{
    const rhumb_limits *l = &context->limits;
    uint64_t rows = (uint64_t)(r->info.heads / r->info.kv_heads) * r->info.max_q_length;
    uint32_t channels = r->info.head_dim + r->info.value_dim;
    struct decode d = {.rows = 1, .lanes = 1, .keys = 1};
    if (!rhumb_prefers_addresses(context, r) || l->subgroup_size != BROADCAST_LANES)
        return;
    while (d.rows < rows && 2 * d.rows * channels * BROADCAST_LANES * 4 <= DECODE_CACHE)
        d.rows *= 2;
    set_decode_kernel(r, RHUMB_BY_ADDRESS, BROADCAST_LANES, &d);
    r->has_by_address = true;
    rhumb_add_reason(r, "; by address where views have one");
}

static void set_decode(const rhumb_context *context, rhumb_resolved *r, const struct decode *d)
{
    rhumb_plan_properties *p = &r->properties;
    set_decode_kernel(r, RHUMB_FAST_ALIGNMENT, DECODE_INVOCATIONS, d);
    r->has_fast = true;
    p->variant = RHUMB_VARIANT_DECODE;
    p->invocations = DECODE_INVOCATIONS;
    p->shared_bytes = d->shared_bytes;
    p->rows_per_group = d->rows;
    p->keys_per_step = DECODE_INVOCATIONS / d->lanes * d->keys;
    snprintf(p->reason, sizeof p->reason,
             "attention: %u row%s of a kv head at once, %u lane%s a key, %u key%s a step", d->rows,
             d->rows == 1 ? "" : "s", d->lanes, d->lanes == 1 ? "" : "s", p->keys_per_step,
             p->keys_per_step == 1 ? "" : "s");
    cut_keys(context, r, d->rows);
    add_decode_by_address(context, r);
}

/* CPU devices: what is one vector of the processor to a subgroup of BROADCAST_LANES, and a read by
 * address is not checked against bounds. */
static bool broadcast_fits(const rhumb_context *context, const rhumb_resolved *r, char *why,
                           size_t size)
{
    const rhumb_limits *l = &context->limits;
    const rhumb_plan_info *i = &r->info;
    const uint32_t subgroup = VK_SUBGROUP_FEATURE_BALLOT_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    const uint32_t positions = BIT(RHUMB_VIEW_POSITIONS_Q) | BIT(RHUMB_VIEW_POSITIONS_K);
    const uint32_t vectors = TERM_QUERY | TERM_KEY | TERM_SCALAR | TERM_VALUE;
    if (!is_cpu_with_addresses(context) || l->subgroup_size != BROADCAST_LANES ||
        (l->subgroup_operations & subgroup) != subgroup)
        snprintf(why, size,
                 "wanted a CPU device with addresses, subgroups of %d, ballot and shuffle, found "
                 "others",
                 BROADCAST_LANES);
    else if (i->head_dim % 8 || i->value_dim % 8 || i->head_dim > TILE_MAX_DIM ||
             i->value_dim > TILE_MAX_DIM)
        snprintf(why, size,
                 "wanted head_dim and value_dim in multiples of 8 up to %d, found %u and %u",
                 TILE_MAX_DIM, i->head_dim, i->value_dim);
    /* Tables of vectors follow the diagonals of indices. */
    else if ((i->views & positions) == positions && (r->terms.mask & vectors))
        snprintf(why, size,
                 "wanted distances of indices for tables of vectors, found both position views");
    else
        return true;
    return false;
}

static void set_broadcast(rhumb_resolved *r)
{
    rhumb_pipeline_key *key = &r->keys[RHUMB_BY_ADDRESS];
    rhumb_set_common(r, key, RHUMB_KERNEL_ATTENTION_BROADCAST, true);
    key->spec[SPEC_WORKGROUP] = BROADCAST_LANES;
    key->spec[SPEC_HEAD_DIM] = r->info.head_dim;
    key->spec[SPEC_VALUE_DIM] = r->info.value_dim;
    r->rows_per_group[RHUMB_BY_ADDRESS] = BROADCAST_LANES * BROADCAST_ROWS;
    r->by_head[RHUMB_BY_ADDRESS] = true;
    r->has_by_address = true;
}

/* Beside the form that any bindings can have. */
static void add_broadcast(rhumb_resolved *r)
{
    set_broadcast(r);
    rhumb_add_reason(r, "; the broadcast form for views with addresses");
}

static void only_broadcast(rhumb_resolved *r)
{
    rhumb_plan_properties *p = &r->properties;
    set_broadcast(r);
    r->address_only = true;
    r->has_fast = false;
    p->variant = RHUMB_VARIANT_BROADCAST;
    p->invocations = BROADCAST_LANES;
    p->shared_bytes = 0;
    p->rows_per_group = r->rows_per_group[RHUMB_BY_ADDRESS];
    p->keys_per_step = BROADCAST_LANES;
    snprintf(p->reason, sizeof p->reason,
             "attention: broadcast form, %u rows in %d lanes, views by address", p->rows_per_group,
             BROADCAST_LANES);
}

/* A named variant that does not fit: on account of the shape, or of the device. */
static rhumb_result refuse(const rhumb_context *context, const char *variant, const char *why)
{
    return rhumb_fail(context, strstr(why, "bytes") ? RHUMB_ERROR_LIMIT : RHUMB_ERROR_UNSUPPORTED,
                      "attention: variant %s: %s", variant, why);
}

rhumb_result rhumb_choose_attention(const rhumb_context *context, rhumb_resolved *r)
{
    struct tile tile = {0};
    struct decode decode = {0};
    char tile_why[128] = "";
    char decode_why[128] = "";
    char broadcast_why[128] = "";
    bool broadcast = broadcast_fits(context, r, broadcast_why, sizeof broadcast_why);
    if (r->info.variant == RHUMB_VARIANT_BROADCAST) {
        if (!broadcast)
            return refuse(context, "broadcast", broadcast_why);
        only_broadcast(r);
        return RHUMB_OK;
    }
    if (r->info.variant == RHUMB_VARIANT_UNFUSED)
        return rhumb_choose_unfused(context, r);
    bool tile_fits = choose_tile(context, r, &tile, tile_why, sizeof tile_why);
    bool decode_fits = choose_decode(context, r, &decode, decode_why, sizeof decode_why);
    set_generic(r);
    r->aligned_only = avoided(r, RHUMB_SELF_TEST_ATTENTION_GENERIC);
    switch (r->info.variant) {
    case RHUMB_VARIANT_GENERIC:
        if (r->aligned_only)
            return refuse(context, "generic", FOUND_WRONG);
        snprintf(r->properties.reason, sizeof r->properties.reason,
                 "attention: generic form asked for");
        cut_keys(context, r, GENERIC_ROWS);
        return RHUMB_OK;
    case RHUMB_VARIANT_TILE:
        if (!tile_fits)
            return refuse(context, "tile", tile_why);
        set_tile(r, &tile);
        return RHUMB_OK;
    case RHUMB_VARIANT_DECODE:
        if (!decode_fits)
            return refuse(context, "decode", decode_why);
        set_decode(context, r, &decode);
        return RHUMB_OK;
    case RHUMB_VARIANT_UNFUSED:
    case RHUMB_VARIANT_BROADCAST:
    case RHUMB_VARIANT_AUTO: break;
    }
    /* A tile has rows for many queries, and walks all keys. */
    bool in_slices =
        few_rows(r) && (r->info.views & BIT(RHUMB_VIEW_WORKSPACE)) && !r->aligned_only;
    if (few_rows(r) && decode_fits)
        set_decode(context, r, &decode);
    else if (tile_fits && !in_slices && (!broadcast || r->aligned_only))
        set_tile(r, &tile);
    else if (r->aligned_only)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "attention: the generic form " FOUND_WRONG "; the tile form %s",
                          tile_why);
    else {
        /* On a CPU device tiles in shared memory gain nothing that pays for a pipeline more. */
        const char *other = few_rows(r) ? decode_why : tile_fits ? "is for GPUs" : tile_why;
        snprintf(r->properties.reason, sizeof r->properties.reason,
                 "attention: generic form; the %s form %s", few_rows(r) ? "decode" : "tile", other);
        if (few_rows(r) || !tile_fits)
            cut_keys(context, r, GENERIC_ROWS);
    }
    if (broadcast && (!few_rows(r) || !decode_fits))
        add_broadcast(r);
    if (few_rows(r) && !strcmp(decode_why, FOUND_WRONG))
        rhumb_add_reason(r, "; the decode form " FOUND_WRONG);
    return RHUMB_OK;
}
