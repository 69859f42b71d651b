/* ROTATE: Q, K or both turned by their positions; V copied beside K. */
#include "cache.h"
#include "norm.h"

static const uint32_t inputs[] = {RHUMB_VIEW_Q, RHUMB_VIEW_K};
static const uint32_t outputs[] = {RHUMB_VIEW_Q_OUT, RHUMB_VIEW_K_OUT};
#define TENSORS                                                                                    \
    (BIT(RHUMB_VIEW_Q) | BIT(RHUMB_VIEW_K) | BIT(RHUMB_VIEW_V) | BIT(RHUMB_VIEW_Q_OUT) |           \
     BIT(RHUMB_VIEW_K_OUT) | BIT(RHUMB_VIEW_V_OUT))

/* Frequencies of each head: one table serves Q and K if they have the same heads. */
static rhumb_result check_learned(const rhumb_context *context, const rhumb_resolved *r)
{
    const rhumb_plan_info *i = &r->info;
    bool view = i->views & BIT(RHUMB_VIEW_FREQUENCIES);
    uint32_t both = BIT(RHUMB_VIEW_Q) | BIT(RHUMB_VIEW_K);
    if (view != r->rotary.has_learned)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          view ? "rotate: views: wanted a scheme with LEARNED frequencies beside "
                                 "FREQUENCIES, found another"
                               : "rotate: views: wanted FREQUENCIES with LEARNED, found none");
    if (!view)
        return RHUMB_OK;
    if (i->dtype[RHUMB_VIEW_FREQUENCIES] != RHUMB_F32)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rotate: dtype of FREQUENCIES: wanted f32, found %s",
                          rhumb_dtype_name(i->dtype[RHUMB_VIEW_FREQUENCIES]));
    if ((i->views & both) == both && i->heads != i->kv_heads)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "rotate: kv_heads: wanted heads %u with LEARNED and both Q and K, found "
                          "%u: a plan and a table for each",
                          i->heads, i->kv_heads);
    return RHUMB_OK;
}

static rhumb_result resolve(const rhumb_context *context, rhumb_resolved *r)
{
    const rhumb_plan_info *i = &r->info;
    for (uint32_t n = 0; n < 2; n++)
        if ((i->views & BIT(outputs[n])) && !(i->views & BIT(inputs[n])))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "rotate: views: wanted %s beside %s, found none",
                              rhumb_view_name(inputs[n]), rhumb_view_name(outputs[n]));
    RHUMB_TRY(rhumb_check_append(context, i));
    RHUMB_TRY(rhumb_check_range(context, "rotate", "purpose", (uint32_t)i->purpose,
                                RHUMB_PURPOSE_ROTATE, RHUMB_PURPOSE_RESCHEDULE));
    RHUMB_TRY(rhumb_check_norm(context, i));
    if (!i->rotary)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rotate: rotary: wanted a rotary scheme struct, found NULL");
    if (i->scheme)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "rotate: scheme: wanted NULL, found a struct of type %u",
                          ((const rhumb_header *)i->scheme)->type);
    rhumb_fill_scale(r);
    RHUMB_TRY(rhumb_resolve_plan_rotary(context, "rotate", r));
    return check_learned(context, r);
}

static void count_cost(rhumb_resolved *r)
{
    static const uint32_t gains[] = {RHUMB_VIEW_Q_GAIN, RHUMB_VIEW_K_GAIN};
    const rhumb_plan_info *i = &r->info;
    rhumb_plan_properties *p = &r->properties;
    const uint32_t heads[] = {i->heads, i->kv_heads};
    for (uint32_t n = 0; n < 2; n++) {
        if (!(i->views & BIT(inputs[n])))
            continue;
        bool apart = i->views & BIT(outputs[n]), norm = i->views & BIT(gains[n]);
        uint64_t rows = (uint64_t)heads[n] * i->max_q_length;
        uint32_t size = rhumb_dtype_size(i->dtype[inputs[n]]);
        p->bytes += rows * (apart ? i->head_dim * (size + rhumb_dtype_size(i->dtype[outputs[n]]))
                                  : 2 * (norm ? i->head_dim : r->rotary.rotary_dim) * size);
        p->flops += rows * (3 * r->rotary.rotary_dim + (norm ? 5 * i->head_dim : 0));
    }
    if (i->views & BIT(RHUMB_VIEW_V))
        p->bytes += (uint64_t)i->kv_heads * i->max_q_length * i->value_dim *
                    (rhumb_dtype_size(i->dtype[RHUMB_VIEW_V]) +
                     rhumb_dtype_size(i->dtype[RHUMB_VIEW_V_OUT]));
}

/* Without an output view the input is written. */
static uint32_t written(const rhumb_plan_info *i)
{
    uint32_t views = i->views & (BIT(RHUMB_VIEW_Q_OUT) | BIT(RHUMB_VIEW_K_OUT) |
                                 BIT(RHUMB_VIEW_V_OUT) | BIT(RHUMB_VIEW_STATUS));
    for (uint32_t n = 0; n < 2; n++)
        if (!(i->views & BIT(outputs[n])))
            views |= i->views & BIT(inputs[n]);
    return views;
}

/* The inputs of a layer's keys and values lie together, and so do their caches. */
static uint32_t shared_slot(uint32_t id)
{
    switch (id) {
    case RHUMB_VIEW_K:
    case RHUMB_VIEW_V: return 1;
    case RHUMB_VIEW_Q_OUT: return 2;
    case RHUMB_VIEW_K_OUT:
    case RHUMB_VIEW_V_OUT: return 3;
    default: return 0;
    }
}

static rhumb_result check_tensor(const rhumb_binder *b, uint32_t id, const rhumb_bindings *bindings)
{
    const rhumb_plan_info *i = &b->plan->resolved.info;
    bool of_queries = id == RHUMB_VIEW_Q || id == RHUMB_VIEW_Q_OUT;
    bool of_values = id == RHUMB_VIEW_V || id == RHUMB_VIEW_V_OUT;
    bool cache = i->append != RHUMB_APPEND_NONE &&
                 (id == RHUMB_VIEW_K_OUT || id == RHUMB_VIEW_V_OUT);
    RHUMB_TRY(rhumb_want(b, id, 0, "B", bindings->batch));
    RHUMB_TRY(rhumb_want(b, id, 1, of_queries ? "heads" : "kv_heads",
                         of_queries ? i->heads : i->kv_heads));
    RHUMB_TRY(rhumb_want(b, id, 2, cache ? "the capacity" : "Lq",
                         cache ? bindings->k_length : bindings->q_length));
    return rhumb_want(b, id, 3, of_values ? "value_dim" : "head_dim",
                      of_values ? i->value_dim : i->head_dim);
}

static rhumb_result check_shapes(const rhumb_binder *b, rhumb_bindings *bindings)
{
    uint32_t lead = b->present & BIT(RHUMB_VIEW_Q) ? RHUMB_VIEW_Q : RHUMB_VIEW_K;
    bool cache = b->plan->resolved.info.append != RHUMB_APPEND_NONE;
    RHUMB_TRY(rhumb_take_sizes(b, lead, cache ? RHUMB_VIEW_K_OUT : lead, bindings));
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++)
        if (b->present & TENSORS & BIT(id))
            RHUMB_TRY(check_tensor(b, id, bindings));
    if (b->present & BIT(RHUMB_VIEW_POSITIONS_Q))
        RHUMB_TRY(rhumb_check_positions(b, RHUMB_VIEW_POSITIONS_Q, b->plan->resolved.rotary.axes,
                                        bindings->batch, bindings->q_length));
    if (b->present & BIT(RHUMB_VIEW_SLOTS))
        RHUMB_TRY(rhumb_check_positions(b, RHUMB_VIEW_SLOTS, 1, bindings->batch,
                                        bindings->q_length));
    RHUMB_TRY(rhumb_check_ring(b, bindings));
    RHUMB_TRY(rhumb_check_gains(b));
    if (b->present & BIT(RHUMB_VIEW_FREQUENCIES)) {
        const rhumb_resolved *r = &b->plan->resolved;
        const uint64_t shape[4] = {
            1, 2, b->present & BIT(RHUMB_VIEW_Q) ? r->info.heads : r->info.kv_heads,
            r->rotary.rotary_dim / 2};
        RHUMB_TRY(rhumb_want_shape(b, RHUMB_VIEW_FREQUENCIES, shape));
    }
    return rhumb_check_small_views(b, bindings->batch);
}

static rhumb_result check_inverse(const rhumb_bindings *bindings, const rhumb_dispatch *d)
{
    const rhumb_context *context = bindings->plan->context;
    const rhumb_rotary *rotary = &bindings->plan->resolved.rotary;
    RHUMB_TRY(rhumb_check_flag(bindings, "causal", d->causal));
    RHUMB_TRY(rhumb_check_flag(bindings, "inverse", d->inverse));
    if (d->inverse && (bindings->plan->resolved.info.views & NORM_GAINS))
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "rotate: inverse: wanted 0 with a gain, as the angle alone does not undo "
                          "a norm, found 1");
    if (d->inverse && rotary->has_growth)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "rotate: inverse: wanted 0 with a scheme whose pairs grow, found 1");
    if (d->inverse && rotary->pairing == PAIRING_INTERLEAVED_TO_HALF)
        return rhumb_fail(context, RHUMB_ERROR_UNSUPPORTED,
                          "rotate: inverse: wanted 0 with INTERLEAVED_TO_HALF, whose order of "
                          "channels the angle alone does not undo, found 1");
    return RHUMB_OK;
}

static uint32_t pieces(uint32_t whole, uint32_t piece)
{
    return (whole + piece - 1) / piece;
}

uint32_t rhumb_rotate_parts(const rhumb_resolved *r)
{
    const rhumb_rotary *rotary = &r->rotary;
    uint32_t parts =
        rotary->segments * pieces(rotary->rotary_dim / 2 / rotary->segments, ROTATE_PAIRS);
    if (r->info.views & (BIT(RHUMB_VIEW_Q_OUT) | BIT(RHUMB_VIEW_K_OUT) | NORM_GAINS))
        parts += pieces(r->info.head_dim - rotary->rotary_dim, ROTATE_COPY);
    return parts;
}

/* Heads of a tensor are rotated in groups that share their angles. */
static uint32_t head_groups(const rhumb_resolved *r, rhumb_view_id id, uint32_t heads)
{
    uint32_t at_once = r->rotary.has_learned ? 1 : ROTATE_HEADS;
    return r->info.views & BIT(id) ? pieces(heads, at_once) : 0;
}

static uint64_t count_groups(const rhumb_bindings *bindings, const struct rhumb_push *push)
{
    const rhumb_plan_info *i = &bindings->plan->resolved.info;
    const rhumb_resolved *r = &bindings->plan->resolved;
    uint64_t parts = i->views & NORM_GAINS ? r->keys[RHUMB_ANY_ALIGNMENT].spec[SPEC_LANES]
                                           : rhumb_rotate_parts(r);
    uint64_t of_row = parts * head_groups(r, RHUMB_VIEW_Q, i->heads) +
                      parts * head_groups(r, RHUMB_VIEW_K, i->kv_heads) +
                      (uint64_t)pieces(i->value_dim, ROTATE_COPY) *
                          head_groups(r, RHUMB_VIEW_V, i->kv_heads);
    uint64_t invocations = of_row * (uint32_t)push->max_q_length * bindings->batch;
    return (invocations + ROTATE_INVOCATIONS - 1) / ROTATE_INVOCATIONS;
}

/* For n below 2^31, which rhumb_check_groups looks after; by 0, where there is no work, as by 1.
 * (Granlund and Montgomery, Division by Invariant Integers using Multiplication, 1994, section 4.) */
static void set_divisor(struct rhumb_push *push, uint32_t which, uint32_t divisor)
{
    uint32_t shift = 0;
    while ((uint64_t)1 << shift < divisor)
        shift++;
    push->divide[which] =
        (uint32_t)(((uint64_t)1 << (31 + shift)) / (divisor ? divisor : 1) + 1);
    push->divide_shift |= shift << 8 * which;
}

static void set_divisors(const rhumb_resolved *r, struct rhumb_push *push)
{
    const uint32_t segment_pairs = r->rotary.rotary_dim / 2 / r->rotary.segments;
    set_divisor(push, DIVIDE_PARTS, rhumb_rotate_parts(r));
    set_divisor(push, DIVIDE_SEGMENT_PARTS, pieces(segment_pairs, ROTATE_PAIRS));
    set_divisor(push, DIVIDE_ROWS, (uint32_t)push->max_q_length);
    set_divisor(push, DIVIDE_PLACES, head_groups(r, RHUMB_VIEW_Q, r->info.heads) +
                                         head_groups(r, RHUMB_VIEW_K, r->info.kv_heads));
}

static rhumb_result record(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                           const rhumb_dispatch *d)
{
    struct rhumb_push push = {.batch = bindings->batch,
                              .q_offset = d->q_offset,
                              .window_left = RHUMB_NO_WINDOW,
                              .window_right = RHUMB_NO_WINDOW,
                              .flags = d->inverse ? FLAG_INVERSE : 0};
    const rhumb_plan_info *i = &bindings->plan->resolved.info;
    int64_t lowest = i->views & BIT(RHUMB_VIEW_POSITIONS_Q) ? -RHUMB_MAX_LENGTH : 0;
    if (i->purpose == RHUMB_PURPOSE_SHIFT) {
        push.flags |= FLAG_SHIFT;
        lowest = -(int64_t)INT32_MAX;
    }
    RHUMB_TRY(rhumb_check_lengths(bindings, d, false, &push));
    if (d->q_offset != RHUMB_UNSET)
        RHUMB_TRY(rhumb_check_offset(bindings, d, lowest, &push));
    RHUMB_TRY(rhumb_check_append_position(bindings, d, &push));
    RHUMB_TRY(check_inverse(bindings, d));
    RHUMB_TRY(rhumb_check_no_mask(bindings, d, false));
    set_divisors(&bindings->plan->resolved, &push);
    uint64_t groups = count_groups(bindings, &push);
    RHUMB_TRY(rhumb_check_groups(bindings, groups));
    rhumb_emit(command_buffer, bindings, d, bindings->pipeline, groups, &push);
    return RHUMB_OK;
}

const rhumb_operation rhumb_op_rotate = {
    .op = RHUMB_OP_ROTATE,
    .name = "rotate",
    .one_of = BIT(RHUMB_VIEW_Q) | BIT(RHUMB_VIEW_K),
    .optional = TENSORS | NORM_GAINS | BIT(RHUMB_VIEW_FREQUENCIES) |
                BIT(RHUMB_VIEW_POSITIONS_Q) | BIT(RHUMB_VIEW_SLOTS) | BIT(RHUMB_VIEW_LENGTHS) |
                BIT(RHUMB_VIEW_STATUS),
    .vectors = TENSORS | NORM_GAINS,
    .max_head_dim = RHUMB_MAX_HEAD_DIM,
    .resolve = resolve,
    .choose = rhumb_choose_rotate,
    .count_cost = count_cost,
    .written = written,
    .shared_slot = shared_slot,
    .check_shapes = check_shapes,
    .record = record,
};
