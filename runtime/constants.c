/* The constants block of a plan, and what becomes of rotated keys when it changes. */
#include "internal.h"

#include <math.h>

void rhumb_write_fraction(long double part, uint32_t words[2])
{
    long double high = floorl(part * 4294967296.0L);
    long double low = roundl((part * 4294967296.0L - high) * 4294967296.0L);
    /* low may have been rounded up to 2^32: the sum carries. */
    uint64_t word = part >= 1 ? UINT64_MAX : ((uint64_t)high << 32) + (uint64_t)low;
    words[0] = (uint32_t)word;
    words[1] = (uint32_t)(word >> 32);
}

void rhumb_write_turns(long double frequency, uint32_t words[2])
{
    const long double two_pi = 6.283185307179586476925286766559005768L;
    rhumb_write_fraction(fmodl(fabsl(frequency) / two_pi, 1.0L), words);
    if (frequency < 0) {
        uint64_t word = 0 - ((uint64_t)words[1] << 32 | words[0]);
        words[0] = (uint32_t)word;
        words[1] = (uint32_t)(word >> 32);
    }
}

/* A product with an int is exact in the words' signed form: high 2^32 + low, low an int. */
static void make_low_signed(uint32_t words[2])
{
    words[1] += words[0] >> 31;
}

/* List 0 is that of new_length; two lists that the length chooses from are both there. */
static void write_frequencies(const rhumb_rotary *rotary, uint32_t new_length,
                              struct rhumb_constants_block *block)
{
    bool both = rotary->length_rule == RHUMB_LENGTH_SWITCH;
    uint32_t(*long_turns)[4] = block->turns + TURNS_PER_LIST;
    for (uint32_t p = 0; p < rotary->rotary_dim / 2; p++) {
        uint32_t *turns = &block->turns[p / 2][p % 2 * 2];
        rhumb_write_turns(rhumb_frequency_at(rotary, p, both ? 0 : new_length), turns);
        make_low_signed(turns);
        if (both) {
            turns = &long_turns[p / 2][p % 2 * 2];
            rhumb_write_turns(rotary->long_frequency[p], turns);
            make_low_signed(turns);
        }
    }
    block->turns_first = both && new_length > rotary->length_limit ? TURNS_PER_LIST : 0;
}

/* What keys rotated by the frequencies of old_length have still to turn: two rotations are one by
 * the difference, which is exact modulo a turn. */
static void write_differences(const rhumb_rotary *rotary, uint32_t old_length, uint32_t new_length,
                              struct rhumb_constants_block *block)
{
    for (uint32_t p = 0; p < rotary->rotary_dim / 2; p++) {
        uint32_t old[2], *turns = &block->turns[p / 2][p % 2 * 2];
        rhumb_write_turns(rhumb_frequency_at(rotary, p, old_length), old);
        rhumb_write_turns(rhumb_frequency_at(rotary, p, new_length), turns);
        uint64_t difference = ((uint64_t)turns[1] << 32 | turns[0]) -
                              ((uint64_t)old[1] << 32 | old[0]);
        turns[0] = (uint32_t)difference;
        turns[1] = (uint32_t)(difference >> 32);
        make_low_signed(turns);
    }
}

static void write_axes(const rhumb_rotary *rotary, struct rhumb_constants_block *block)
{
    block->segments = rotary->segments ? rotary->segments : 1;
    block->centre = rotary->centre;
    for (uint32_t p = 0; p < rotary->rotary_dim / 2; p++) {
        uint32_t turns[2];
        block->axes[p / 64][p / 16 % 4] |= (uint32_t)rotary->axis[p] << 2 * (p % 16);
        rhumb_write_turns(rotary->phase[p], turns);
        block->phases[p / 4][p % 4] = turns[1];
        block->growth[p / 4][p % 4] = (float)rotary->growth[p];
    }
}

static void write_terms(const rhumb_terms *t, struct rhumb_constants_block *block)
{
    block->delta_low = t->delta_low;
    block->delta_high = t->delta_high;
    block->none_below = t->none_below;
    block->none_above = t->none_above;
    block->base_past = t->base[0];
    block->base_future = t->base[1];
    block->step_past = t->step[0];
    block->step_future = t->step[1];
    block->near_low = t->near_low;
    block->near_high = t->near_high;
    block->exact = t->exact;
    block->edge_count = t->edge_count;
    block->term_flags = (t->flip_half ? TERM_FLAG_FLIP_HALF : 0) |
                        (t->key_mirrored ? TERM_FLAG_KEY_MIRRORED : 0) |
                        (t->folded ? TERM_FLAG_FOLDED : 0) |
                        (t->bias_in_scale ? TERM_FLAG_BIAS_IN_SCALE : 0);
    block->slope_reference = t->slope_reference | t->capped_reference << 2;
    block->table_rows = t->rows;
    block->bias_scale = (float)t->bias_scale;
    block->mask_value = (float)t->mask_value;
    block->window_height = t->window[0];
    block->window_width = t->window[1];
    block->grid_height = t->grid[0];
    block->grid_width = t->grid[1];
    block->shift_height = t->shift[0];
    block->shift_width = t->shift[1];
    block->padded_height = t->padded[0];
    block->padded_width = t->padded[1];
    block->modulus_height = t->modulus[0];
    block->modulus_width = t->modulus[1];
    block->class_tokens = t->class_tokens;
    block->max_log_scale = (float)t->max_log_scale;
    block->epsilon = (float)t->epsilon;
    memcpy(block->edges, t->edges, t->edge_count * sizeof t->edges[0]);
    for (uint32_t h = 0; h < RHUMB_MAX_SLOPES; h++)
        for (uint32_t side = 0; side < 2; side++)
            block->slopes[h / 2][h % 2 * 2 + side] = (float)t->slope[h][side];
}

static void write_resampling(const rhumb_resampling *s, struct rhumb_constants_block *block)
{
    block->prefix_tokens = s->prefix;
    block->suffix_tokens = s->suffix;
    block->old_height = s->old_grid[0];
    block->old_width = s->old_grid[1];
    block->new_height = s->new_grid[0];
    block->new_width = s->new_grid[1];
    block->spread_height = (float)s->spread[0];
    block->spread_width = (float)s->spread[1];
    block->cubic = (float)s->cubic;
    for (uint32_t axis = 0; axis < 2; axis++) {
        block->sample_start[0][2 * axis] = (uint32_t)(uint64_t)s->start[axis];
        block->sample_start[0][2 * axis + 1] = (uint32_t)((uint64_t)s->start[axis] >> 32);
        block->sample_step[0][2 * axis] = (uint32_t)s->step[axis];
        block->sample_step[0][2 * axis + 1] = (uint32_t)(s->step[axis] >> 32);
        for (uint32_t i = 0; s->flags & RESIZE_LISTED && i < LISTED_SAMPLES; i++) {
            uint32_t at = axis * LISTED_SAMPLES + i;
            block->edges[at / 4][at % 4] = (uint32_t)s->index[axis][i];
            block->slopes[at / 4][at % 4] = (float)s->fraction[axis][i];
        }
    }
}

static void write_continuous(const rhumb_continuous *c, struct rhumb_constants_block *block)
{
    block->window_height = c->window[0];
    block->window_width = c->window[1];
    block->spread_height = (float)c->divisor[0];
    block->spread_width = (float)c->divisor[1];
    block->hidden = c->hidden;
    block->bias_gain = (float)c->gain;
}

rhumb_result rhumb_write_constants(const rhumb_plan *plan, uint32_t old_length, uint32_t new_length,
                                   void *memory, size_t size)
{
    struct rhumb_constants_block block = {0};
    if (!plan || !memory)
        return rhumb_fail(plan ? plan->context : NULL, RHUMB_ERROR_ARGUMENT,
                          "write_constants: wanted a plan and memory, found NULL");
    if (size < sizeof block)
        return rhumb_fail(plan->context, RHUMB_ERROR_ARGUMENT,
                          "write_constants: size: wanted at least %zu, found %zu", sizeof block,
                          size);
    const rhumb_plan_info *i = &plan->resolved.info;
    const rhumb_rotary *rotary = &plan->resolved.rotary;
    block.head_dim = i->head_dim;
    block.value_dim = i->value_dim;
    block.heads = i->heads;
    block.kv_heads = i->kv_heads;
    block.rotary_dim = rotary->rotary_dim;
    block.rotary_offset = rotary->rotary_offset;
    block.magnitude = (float)rotary->magnitude;
    block.scale_log2 = (float)((double)i->scale * 1.4426950408889634);
    block.mask_order = (uint32_t)i->mask_order;
    block.scale = i->scale;
    block.norm_epsilon = i->norm_epsilon;
    block.gain_offset = i->gain_offset;
    if (i->purpose == RHUMB_PURPOSE_RESCHEDULE)
        write_differences(rotary, old_length, new_length, &block);
    else
        write_frequencies(rotary, new_length, &block);
    write_axes(rotary, &block);
    write_terms(&plan->resolved.terms, &block);
    if (plan->resolved.has_encoding)
        rhumb_write_encoding(&plan->resolved.encoding, &block);
    if (i->op == RHUMB_OP_RESIZE)
        write_resampling(&plan->resolved.resampling, &block);
    if (plan->resolved.continuous.hidden)
        write_continuous(&plan->resolved.continuous, &block);
    block.weight_layout = (uint32_t)i->weight_layout;
    memcpy(memory, &block, sizeof block);
    return RHUMB_OK;
}

rhumb_result rhumb_keys_stale(const rhumb_plan *plan, uint32_t old_length, uint32_t new_length,
                              uint32_t *stale)
{
    if (!plan || !stale)
        return rhumb_fail(plan ? plan->context : NULL, RHUMB_ERROR_ARGUMENT,
                          "keys_stale: wanted a plan and a place for the answer, found NULL");
    *stale = plan->resolved.has_rotary &&
             rhumb_frequencies_differ(&plan->resolved.rotary, old_length, new_length);
    return RHUMB_OK;
}
