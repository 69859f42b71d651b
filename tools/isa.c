#include "isa.h"

#include "rhumb_shared.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define HAS(spec, name) (((spec)[SPEC_VIEWS] >> VIEW_##name & 1u) != 0)

/* ----------------------------------------------------------------------------------------------
 * Reading
 */
static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Whether it begins with either spelling of a kind of access, the newer one first. */
static bool either(const char *text, const char *now, const char *before)
{
    return starts(text, now) || starts(text, before);
}

static uint32_t occurrences(const char *text, const char *part)
{
    uint32_t count = 0;

    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

/* Whether an access to shared memory has two addresses: it is two of half the size. */
static bool has_two(const char *text)
{
    return strstr(text, "2addr") != NULL || strstr(text, "read2") != NULL ||
           strstr(text, "write2") != NULL;
}

/* Bytes of a lane that an access moves, by its name. */
static double width_of(const char *text)
{
    static const struct {
        const char *part;
        double bytes;
    } widths[] = {
        {"b128", 16}, {"b96", 12},   {"b64", 8}, {"b32", 4}, {"dwordx4", 16}, {"dwordx3", 12},
        {"dwordx2", 8}, {"dword", 4}, {"byte", 1}, {"_u8", 1}, {"_i8", 1},      {"_b8", 1},
        {"short", 2}, {"16", 2},
    };
    char name[48];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, " "), text);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (strstr(name, widths[i].part) != NULL)
            return has_two(text) ? 2 * widths[i].bytes : widths[i].bytes;
    return 0.0;
}

static uint32_t block_of(const isa_listing *l, uint32_t number)
{
    uint32_t i = 0;

    while (i < l->count && l->blocks[i].number != number)
        i++;
    return i;
}

static void read_instruction(isa_listing *l, const char *text)
{
    isa_block *b = &l->blocks[l->count - 1];
    const char *target = strstr(text, "BB");
    const bool load = either(text, "buffer_load", "global_load") || starts(text, "flat_load");
    const bool store = either(text, "buffer_store", "global_store") || starts(text, "flat_store");
    const bool shared_load = either(text, "ds_load", "ds_read");
    const bool shared_store = either(text, "ds_store", "ds_write");
    double *of = b->count.of;
    uint32_t number;

    of[ISA_INSTRUCTIONS]++;
    of[ISA_VECTOR] += starts(text, "v_dual_") ? 2 : starts(text, "v_");
    of[ISA_MULTIPLY_ADDS] += occurrences(text, "fma") + occurrences(text, "v_mac_f") +
                             occurrences(text, "v_mad_f") + occurrences(text, "v_madak") +
                             occurrences(text, "v_madmk");
    of[ISA_SELECTS] += strstr(text, "cndmask") != NULL;
    of[ISA_LOADS] += load;
    of[ISA_STORES] += store;
    of[ISA_GLOBAL_BYTES] += load || store ? width_of(text) : 0.0;
    of[ISA_SHARED_LOADS] += shared_load ? 1 + has_two(text) : 0;
    of[ISA_SHARED_STORES] += shared_store ? 1 + has_two(text) : 0;
    of[ISA_SHARED_READ] += shared_load ? width_of(text) : 0.0;
    of[ISA_SHARED_WRITTEN] += shared_store ? width_of(text) : 0.0;
    of[ISA_BARRIERS] += starts(text, "s_barrier") && !starts(text, "s_barrier_wait");
    if (either(text, "s_branch", "s_cbranch") && target != NULL &&
        sscanf(target, "BB%u", &number) == 1) {
        const uint32_t to = block_of(l, number);
        if (to < b->back)
            b->back = to;
        else if (to == l->count)
            b->ahead = number; /* a label until all are known */
        b->jumps = starts(text, "s_branch") && to == l->count;
    }
}

static void find_ahead(isa_listing *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        const uint32_t to = block_of(l, l->blocks[i].ahead);
        l->blocks[i].ahead = to > i && to < l->count ? to : i + 1;
    }
}

bool isa_read(const char *assembly, isa_listing *l)
{
    memset(l, 0, sizeof *l);
    for (const char *line = assembly; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        char text[160];
        uint32_t number;

        line += *line == '\n';
        snprintf(text, sizeof text, "%.*s", (int)strcspn(line, ";\n"), line);
        if (sscanf(text, "BB%u:", &number) == 1) {
            if (l->count == ISA_MOST_BLOCKS)
                return false;
            l->blocks[l->count] = (isa_block){.number = number, .back = l->count + 1};
            l->count++;
        } else if (l->count > 0 && text[0] == '\t') {
            read_instruction(l, text + 1);
        }
    }
    find_ahead(l);
    return l->count > 0;
}

/* ----------------------------------------------------------------------------------------------
 * Loops
 */
static void add(isa_count *sum, const isa_count *part, double times)
{
    for (uint32_t i = 0; i < ISA_COUNTS; i++)
        sum->of[i] += times * part->of[i];
}

static isa_count sum_of(const isa_listing *l, uint32_t first, uint32_t last)
{
    isa_count sum = {{0}};

    for (uint32_t i = first; i <= last; i++)
        add(&sum, &l->blocks[i].count, 1.0);
    return sum;
}

static bool ends_loop(const isa_listing *l, uint32_t i)
{
    return l->blocks[i].back <= i;
}

static bool is_innermost(const isa_listing *l, uint32_t last)
{
    for (uint32_t i = l->blocks[last].back; i < last; i++)
        if (ends_loop(l, i) && l->blocks[i].back > l->blocks[last].back)
            return false;
    return true;
}

/* How often each block runs: in a round of the key loop, or in all. */
typedef struct times {
    double of[ISA_MOST_BLOCKS];
} times;

/* But of those that are left out. */
static void set_times(times *t, uint32_t first, uint32_t last, double value)
{
    for (uint32_t i = first; i <= last; i++)
        t->of[i] = t->of[i] != 0.0 ? value : 0.0;
}

/* A loop that does not run, with what is done for it alone: all that the nearest branch around it
 * leaves out. */
static void leave_out(const isa_listing *l, uint32_t way_first, uint32_t way_last, uint32_t first,
                      uint32_t last, times *t)
{
    for (uint32_t i = first; i-- > way_first;) {
        if (l->blocks[i].ahead > last && l->blocks[i].ahead <= way_last) {
            set_times(t, i + 1, l->blocks[i].ahead - 1, 0.0);
            return;
        }
    }
    set_times(t, first, last, 0.0);
}

static void set_once(times *t, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i <= last; i++)
        t->of[i] = 1.0;
}

static isa_count sum_by(const isa_listing *l, uint32_t first, uint32_t last, const times *t)
{
    isa_count sum = {{0}};

    for (uint32_t i = first; i <= last; i++)
        add(&sum, &l->blocks[i].count, t->of[i]);
    return sum;
}

/* Of two ways from a block to a later one the one with fewer vector instructions is left out. */
static void leave_out_ways(const isa_listing *l, uint32_t first, uint32_t last, times *t)
{
    for (uint32_t i = last; i-- > first;) {
        const uint32_t other = l->blocks[i].ahead, end = l->blocks[other - 1].ahead;
        double vector[2] = {0.0, 0.0};

        if (other <= i + 1 || other > last || !l->blocks[other - 1].jumps || end > last)
            continue;
        for (uint32_t n = i + 1; n < end; n++)
            vector[n >= other] += t->of[n] * l->blocks[n].count.of[ISA_VECTOR];
        if (vector[0] < vector[1])
            set_times(t, i + 1, other - 1, 0.0);
        else
            set_times(t, other, end - 1, 0.0);
    }
}

isa_count isa_sum_without_loops(const isa_listing *l)
{
    static times t;

    set_once(&t, 0, l->count - 1);
    for (uint32_t i = 0; i < l->count; i++)
        if (ends_loop(l, i))
            leave_out(l, 0, l->count - 1, l->blocks[i].back, i, &t);
    leave_out_ways(l, 0, l->count - 1, &t);
    return sum_by(l, 0, l->count - 1, &t);
}

isa_count isa_longest_block(const isa_listing *l)
{
    uint32_t longest = 0;

    for (uint32_t i = 1; i < l->count; i++)
        if (l->blocks[i].count.of[ISA_VECTOR] > l->blocks[longest].count.of[ISA_VECTOR])
            longest = i;
    return l->blocks[longest].count;
}

static double memory_accesses(const isa_count *part)
{
    return part->of[ISA_LOADS] + part->of[ISA_STORES] + part->of[ISA_SHARED_LOADS] +
           part->of[ISA_SHARED_STORES] + part->of[ISA_BARRIERS];
}

/* The one that multiplies and adds most; of those around it, which do no more, the innermost. */
static bool find_key_loop(const isa_listing *l, uint32_t *first, uint32_t *last)
{
    double most = 0.0;

    for (uint32_t i = 0; i < l->count; i++) {
        const double found =
            ends_loop(l, i) ? sum_of(l, l->blocks[i].back, i).of[ISA_MULTIPLY_ADDS] : 0.0;
        if (found > most) {
            *first = l->blocks[i].back;
            *last = i;
            most = found;
        }
    }
    return most > 0.0;
}

/* ----------------------------------------------------------------------------------------------
 * The tile form. Its inner loops are known by what they do.
 */

#define STAGED 40

/* What a lane stages in the loops that do, in their order, in all rounds of loops around them. */
typedef struct staging {
    uint32_t quads[STAGED];
    uint32_t count;
    uint32_t next;
} staging;

static staging staging_of(const uint32_t *spec)
{
    const uint32_t invocations = spec[SPEC_WORKGROUP];
    const uint32_t rows = invocations / TILE_LANES * TILE_ROWS, keys = TILE_LANES * spec[SPEC_KEYS];
    const uint32_t quads = spec[SPEC_HEAD_DIM] / 4, value_quads = spec[SPEC_VALUE_CHUNK] / 4;
    const bool a = HAS(spec, QUERY_TABLE), c = HAS(spec, KEY_TABLE), v = HAS(spec, VALUE_TABLE);
    staging s = {.count = 0};

    if (spec[SPEC_HEAD_CHUNK] < spec[SPEC_HEAD_DIM])
        s.quads[s.count++] = rows * quads / invocations;
    s.quads[s.count++] = keys * quads / invocations;
    for (uint32_t i = 0; i < (uint32_t)a + c; i++)
        s.quads[s.count++] = (rows + keys) * quads / invocations;
    for (uint32_t d = 0; d < spec[SPEC_VALUE_DIM] && s.count + 2 <= STAGED;
         d += spec[SPEC_VALUE_CHUNK]) {
        s.quads[s.count++] = keys * value_quads / invocations;
        if (v)
            s.quads[s.count++] = (rows + keys) * value_quads / invocations;
    }
    return s;
}

/* Multiply-adds there convert halves, four of a load. */
static bool stages(const isa_count *loop)
{
    return loop->of[ISA_LOADS] > 0 && loop->of[ISA_LOADS] == loop->of[ISA_SHARED_STORES] &&
           loop->of[ISA_MULTIPLY_ADDS] <= 4 * loop->of[ISA_LOADS];
}

/* Caps logits, or zeroes what is staged for distances without a row. */
static bool caps_or_clears(const isa_count *loop)
{
    return loop->of[ISA_SHARED_STORES] > 0 && loop->of[ISA_SHARED_LOADS] > 0 &&
           loop->of[ISA_LOADS] == 0;
}

/* How often an innermost loop runs in all, which is not one that stages. */
static double rounds_of(const isa_count *loop, const uint32_t *spec)
{
    const double fused = loop->of[ISA_MULTIPLY_ADDS];
    const uint32_t keys = spec[SPEC_KEYS];
    const uint32_t chunks = spec[SPEC_VALUE_DIM] / spec[SPEC_VALUE_CHUNK];
    const uint32_t at_once = TILE_KEYS_AT_ONCE(chunks);

    if (fused > 0 && loop->of[ISA_SHARED_STORES] == 1 && loop->of[ISA_SHARED_LOADS] >= 3)
        return ceil(4.0 * TILE_LANES * keys / spec[SPEC_WORKGROUP]) * spec[SPEC_HEAD_DIM] /
               spec[SPEC_HEAD_CHUNK]; /* (w - u) . A of new slots, by four lanes each */
    if (caps_or_clears(loop))
        return 0.0;
    if (fused == 0 && loop->of[ISA_LOADS] == 0 && loop->of[ISA_SHARED_LOADS] > 0)
        return 0.0; /* looks for what is not finite in V, where keys are hidden */
    if (fused == TILE_ROWS * spec[SPEC_VALUE_CHUNK] / TILE_LANES &&
        2 * loop->of[ISA_SELECTS] >= fused)
        return 0.0; /* of keys one by one, where V has what is not finite */
    if (fused == at_once * TILE_ROWS * spec[SPEC_VALUE_CHUNK] / TILE_LANES &&
        loop->of[ISA_SHARED_LOADS] < 4 * (TILE_ROWS + keys))
        return TILE_LANES * keys / at_once; /* of keys */
    if (fused >= TILE_ROWS * keys * 4) /* of channels; first products may be no fma */
        return spec[SPEC_HEAD_DIM] / (4.0 * TILE_QUADS_AT_ONCE(chunks));
    return loop->of[ISA_LOADS] > 0 ? 6.0 : 1.0; /* search among the edges */
}

/* V's table: a row for each slot, a product for each key. */
static void set_value_rows(const isa_listing *l, uint32_t first, uint32_t last,
                           const uint32_t *spec, times *t)
{
    const uint32_t at_once = TILE_KEYS_AT_ONCE(spec[SPEC_VALUE_DIM] / spec[SPEC_VALUE_CHUNK]);
    const double keys = (double)TILE_LANES * spec[SPEC_KEYS] / at_once;
    const double slots = keys + 24.0 / at_once;

    for (uint32_t i = first; i <= last; i++)
        set_times(t, i, i, l->blocks[i].count.of[ISA_MULTIPLY_ADDS] > 0 ? keys : slots);
}

/* Whether a part without loops does nothing but hide keys of each of a lane's pairs. */
static bool hides(const isa_listing *l, uint32_t first, uint32_t last, const uint32_t *spec)
{
    const isa_count part = sum_of(l, first, last);

    for (uint32_t i = first; i <= last; i++)
        if (ends_loop(l, i))
            return false;
    return part.of[ISA_SELECTS] >= TILE_ROWS * spec[SPEC_KEYS] &&
           part.of[ISA_MULTIPLY_ADDS] == 0 && memory_accesses(&part) <= 1; /* the flag that says so */
}

/* How often a loop with loops inside does what it does: that over chunks of channels of Q and K, which
 * loads and multiplies. Of V's table inner rounds are all counted, and the loop of two stages caps in
 * one and adds the bias in the other. */
static double rounds_around(const isa_listing *l, uint32_t last, const uint32_t *spec)
{
    const isa_count loop = sum_of(l, l->blocks[last].back, last);

    if (loop.of[ISA_LOADS] > 0 &&
        loop.of[ISA_MULTIPLY_ADDS] >= 4 * TILE_ROWS * spec[SPEC_KEYS])
        return spec[SPEC_HEAD_DIM] / spec[SPEC_HEAD_CHUNK];
    return 1.0;
}

static bool count_tile(const isa_listing *l, uint32_t first, uint32_t last, const uint32_t *spec,
                       isa_count *sum)
{
    static times t;
    staging staged = staging_of(spec);

    set_once(&t, first, last);
    for (uint32_t i = first; i < last; i++)
        if (ends_loop(l, i) && !is_innermost(l, i))
            set_times(&t, l->blocks[i].back, i, rounds_around(l, i, spec));
    for (uint32_t i = first; i < last; i++) {
        const uint32_t start = l->blocks[i].back;
        const isa_count loop = ends_loop(l, i) ? sum_of(l, start, i) : (isa_count){{0}};
        uint32_t parts = 0;

        if (!ends_loop(l, i) && l->blocks[i].ahead > i + 1 && l->blocks[i].ahead <= last &&
            hides(l, i + 1, l->blocks[i].ahead - 1, spec))
            set_times(&t, i + 1, l->blocks[i].ahead - 1, 0.0);
        if (!ends_loop(l, i) || !is_innermost(l, i))
            continue;
        for (uint32_t n = start; n <= i; n++)
            parts += l->blocks[n].count.of[ISA_MULTIPLY_ADDS] > 0;
        if (stages(&loop) && staged.next == staged.count)
            return false;
        if (stages(&loop))
            set_times(&t, start, i, staged.quads[staged.next++] / loop.of[ISA_LOADS]);
        else if (parts > 1 && !caps_or_clears(&loop))
            set_value_rows(l, start, i, spec, &t);
        else if (rounds_of(&loop, spec) == 0.0)
            leave_out(l, first, last, start, i, &t);
        else
            set_times(&t, start, i, rounds_of(&loop, spec));
    }
    leave_out_ways(l, first, last, &t);
    *sum = sum_by(l, first, last, &t);
    return staged.next == staged.count;
}

bool isa_key_loop(const isa_listing *l, const uint32_t *spec, isa_loop *loop)
{
    uint32_t first = 0, last = 0;

    if (!find_key_loop(l, &first, &last))
        return false;
    loop->count = sum_of(l, first, last);
    loop->multiply_adds = loop->count.of[ISA_MULTIPLY_ADDS];
    if (spec == NULL)
        return true;
    const uint32_t keys = 1u + HAS(spec, QUERY_TABLE) + HAS(spec, KEY_TABLE); /* vectors of a pair */
    const uint32_t values = 1u + HAS(spec, VALUE_TABLE);
    loop->multiply_adds = (double)TILE_ROWS * spec[SPEC_KEYS] *
                          (spec[SPEC_HEAD_DIM] * keys + spec[SPEC_VALUE_DIM] * values);
    return count_tile(l, first, last, spec, &loop->count);
}

/* The way that hides keys has selects; a cap is what multiplies and adds behind a branch. Neither
 * touches memory. */
static void leave_out_rare(const isa_listing *l, uint32_t i, uint32_t last, times *t)
{
    const uint32_t to = l->blocks[i].ahead;
    const uint32_t end = to > i + 1 && l->blocks[to - 1].jumps ? l->blocks[to - 1].ahead : to;
    isa_count part, other;

    if (l->blocks[i].jumps || to <= i + 1 || end > last)
        return;
    part = sum_of(l, i + 1, to - 1);
    if (part.of[ISA_MULTIPLY_ADDS] == 0 || memory_accesses(&part) > 0)
        return;
    other = end > to ? sum_of(l, to, end - 1) : (isa_count){{0}};
    if (other.of[ISA_MULTIPLY_ADDS] == 0 || part.of[ISA_SELECTS] > other.of[ISA_SELECTS])
        set_times(t, i + 1, to - 1, 0.0);
    else
        set_times(t, to, end - 1, 0.0);
}

bool isa_decode_loop(const isa_listing *l, isa_loop *loop)
{
    static times t;
    uint32_t first = 0, last = 0;

    if (!find_key_loop(l, &first, &last))
        return false;
    set_once(&t, first, last);
    for (uint32_t i = first; i < last; i++)
        leave_out_rare(l, i, last, &t);
    loop->count = sum_by(l, first, last, &t);
    loop->multiply_adds = loop->count.of[ISA_MULTIPLY_ADDS];
    return true;
}

/* ----------------------------------------------------------------------------------------------
 * Residency
 */
double isa_waves(const char *device, uint32_t vector_registers, uint32_t shared_bytes,
                 uint32_t invocations, uint32_t subgroup_size, uint32_t *lanes)
{
    static const struct generation {
        const char *part; /* of the device's name */
        uint32_t lanes;   /* that a register has */
        double registers; /* of a SIMD */
        double waves;     /* that it holds at most, of any size */
        double memory;    /* that four SIMDs share */
    } generations[] = {
        {"NAVI31", 32, 1536, 16, 131072}, {"NAVI32", 32, 1536, 16, 131072},
        {"NAVI2", 32, 1024, 16, 131072},  {"VANGOGH", 32, 1024, 16, 131072},
        {"POLARIS", 64, 256, 10, 65536},  {"VEGA", 64, 256, 10, 65536},
    };

    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++) {
        const struct generation *g = &generations[i];
        const uint32_t units = subgroup_size > g->lanes ? subgroup_size / g->lanes : 1;
        double waves = g->waves;
        if (strstr(device, g->part) == NULL)
            continue;
        *lanes = g->lanes;
        if (vector_registers > 0)
            waves = fmin(waves, floor(g->registers / (units * vector_registers)));
        waves *= units;
        if (shared_bytes > 0)
            waves = fmin(waves, floor(g->memory / shared_bytes) * invocations / (4.0 * g->lanes));
        return waves;
    }
    return 0.0;
}
