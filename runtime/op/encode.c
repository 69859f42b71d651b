/* ENCODE: an absolute position added to rows, or its table alone. */
#include "op.h"

#include <stdio.h>

#define POSITIONS BIT(RHUMB_VIEW_POSITIONS)

/* By the names that rhumb.h gives these ids in operations on embeddings. */
static const rhumb_view_rule rules[RHUMB_VIEW_COUNT] = {
    [RHUMB_VIEW_X] = {"X", false, "[B, 1, L, D] or [B, D, H, W]"},
    [RHUMB_VIEW_Y] = {"Y", false, "[B, 1, L, D] or [B, D, H, W]"},
    [RHUMB_VIEW_POSITIONS] = {"POSITIONS", true, "[1, 1, B or 1, L]"},
    [RHUMB_VIEW_TABLE] = {"TABLE", false, "[1, 1, rows, channels]"},
    [RHUMB_VIEW_COLUMN_TABLE] = {"COLUMN_TABLE", false, "[1, 1, columns, channels]"},
    [RHUMB_VIEW_VALID] = {"VALID", true, "[1, B or 1, H, W]"},
};

static rhumb_result check_info(const rhumb_context *context, const rhumb_plan_info *i)
{
    RHUMB_TRY(rhumb_check_range(context, "encode", "heads", i->heads, 1, 1));
    if (i->value_dim != i->head_dim)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "encode: value_dim: wanted head_dim %u, found %u", i->head_dim,
                          i->value_dim);
    RHUMB_TRY(rhumb_refuse_rotary(context, "encode", i));
    RHUMB_TRY(rhumb_check_variant(context, "encode", i));
    if (i->scale < RHUMB_SCALE_AUTO)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "encode: scale: wanted RHUMB_SCALE_AUTO, as scales are the scheme's, "
                          "found %g",
                          (double)i->scale);
    return RHUMB_OK;
}

static rhumb_result check_views(const rhumb_context *context, const rhumb_resolved *r)
{
    const rhumb_encoding *e = &r->encoding;
    const char *scheme =
        rhumb_find_scheme(((const rhumb_header *)r->info.scheme)->type)->name;
    uint32_t others = r->info.views & ~(BIT(RHUMB_VIEW_X) | BIT(RHUMB_VIEW_Y));
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++) {
        const char *name = rhumb_rule_of(&rhumb_op_encode, id)->name;
        if ((e->required & BIT(id)) && !(others & BIT(id)))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "encode: views: wanted %s with %s, found none", name, scheme);
        if ((others & BIT(id)) && !((e->required | e->optional) & BIT(id)))
            return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                              "encode: views: %s (%u) is no view of %s as it is here", name, id,
                              scheme);
    }
    return RHUMB_OK;
}

/* Runs of angles where a coordinate costs a walk over a row or column of VALID. */
#define VALID_ANGLES (4 * ENCODE_ANGLES)

static void cut_rows(rhumb_resolved *r)
{
    rhumb_encoding *e = &r->encoding;
    bool image = e->mask & ENCODE_IMAGE;
    uint32_t angles = image ? 1 : ENCODE_ANGLES;
    uint32_t channels = image ? 2 : ENCODE_CHANNELS;
    uint32_t plain = r->info.head_dim - (e->mask & ENCODE_SINUSOID ? e->encoded : 0);
    e->axis_run = e->required & BIT(RHUMB_VIEW_VALID) ? VALID_ANGLES / angles : 1;
    e->axis_parts = (e->angles + angles * e->axis_run - 1) / (angles * e->axis_run);
    e->parts = e->axis_parts * (e->mask & ENCODE_TWO_AXES ? 2 : 1) +
               (plain + channels - 1) / channels;
}

static rhumb_result resolve(const rhumb_context *context, rhumb_resolved *r)
{
    RHUMB_TRY(check_info(context, &r->info));
    RHUMB_TRY(rhumb_resolve_encoding(context, r->info.scheme, &r->info, &r->encoding));
    RHUMB_TRY(check_views(context, r));
    r->has_encoding = true;
    r->info.scale = 1.0f;
    cut_rows(r);
    return RHUMB_OK;
}

/* ---- Kernels */

/* Whether every run of channels, or of pixels, that the kernel writes is whole vectors. */
static bool vectors_fit(const rhumb_resolved *r)
{
    const rhumb_encoding *e = &r->encoding;
    if (e->mask & ENCODE_IMAGE)
        return e->grid[1] % 4 == 0;
    if (r->info.head_dim % 4)
        return false;
    if (e->mask & ENCODE_TABLE)
        return e->table_width % 4 == 0;
    if (e->step == 2)
        return e->angles % 2 == 0 && e->sine[1] % 4 == 0 && e->encoded % 4 == 0;
    return e->angles % 4 == 0 && e->encoded % 4 == 0;
}

static void set_pipeline(rhumb_resolved *r, uint32_t index)
{
    rhumb_pipeline_key *key = &r->keys[index];
    rhumb_set_common(r, key,
                     index == RHUMB_BY_ADDRESS ? RHUMB_KERNEL_ENCODE_ADDRESS : RHUMB_KERNEL_ENCODE,
                     index != RHUMB_ANY_ALIGNMENT);
    key->spec[SPEC_ENCODING] = r->encoding.mask;
    r->rows_per_group[index] = 1;
}

static rhumb_result choose(const rhumb_context *context, rhumb_resolved *r)
{
    r->has_fast = vectors_fit(r);
    r->has_by_address = r->has_fast && rhumb_prefers_addresses(context, r);
    set_pipeline(r, RHUMB_ANY_ALIGNMENT);
    if (r->has_fast)
        set_pipeline(r, RHUMB_FAST_ALIGNMENT);
    if (r->has_by_address)
        set_pipeline(r, RHUMB_BY_ADDRESS);
    rhumb_plan_properties *p = &r->properties;
    p->variant = RHUMB_VARIANT_GENERIC;
    p->invocations = ENCODE_INVOCATIONS;
    p->shared_bytes = 4 * ENCODE_INVOCATIONS;
    p->rows_per_group = 1;
    snprintf(p->reason, sizeof p->reason, "encode: one kernel for all schemes; %s",
             r->has_fast ? "vector accesses where rows start at multiples of 4 elements"
                         : "scalar accesses: some run of channels is no multiple of a vector");
    if (r->has_by_address)
        rhumb_add_reason(r, "; by address where views have one");
    return RHUMB_OK;
}

static void count_cost(rhumb_resolved *r)
{
    const rhumb_plan_info *i = &r->info;
    rhumb_plan_properties *p = &r->properties;
    uint64_t elements = rhumb_saturated_product(i->max_q_length, i->head_dim);
    uint32_t size = rhumb_dtype_size(i->dtype[RHUMB_VIEW_Y]);
    if (i->views & BIT(RHUMB_VIEW_X))
        size += rhumb_dtype_size(i->dtype[RHUMB_VIEW_X]);
    p->bytes = rhumb_saturated_product(elements, size);
    if (r->encoding.mask & (ENCODE_CONCAT | ENCODE_SUM))
        p->bytes += (uint64_t)r->encoding.table_width *
                    (r->encoding.rows * rhumb_dtype_size(i->dtype[RHUMB_VIEW_TABLE]) +
                     r->encoding.columns * rhumb_dtype_size(i->dtype[RHUMB_VIEW_COLUMN_TABLE]));
    else if (r->encoding.mask & ENCODE_TABLE)
        p->bytes += elements * rhumb_dtype_size(i->dtype[RHUMB_VIEW_TABLE]);
    p->flops = elements * 2;
    p->table_rows = r->encoding.rows;
}

static uint32_t written(const rhumb_plan_info *i)
{
    return i->views & (BIT(RHUMB_VIEW_Y) | BIT(RHUMB_VIEW_STATUS));
}

static uint32_t shared_slot(uint32_t id)
{
    return id == RHUMB_VIEW_X              ? 1
           : id == RHUMB_VIEW_TABLE        ? 2
           : id == RHUMB_VIEW_COLUMN_TABLE ? 3
                                           : 0;
}

/* ---- Bindings */
static rhumb_result check_tensor(const rhumb_binder *b, uint32_t id, const rhumb_bindings *bindings)
{
    const rhumb_encoding *e = &b->plan->resolved.encoding;
    uint32_t channels = b->plan->resolved.info.head_dim;
    bool image = e->mask & ENCODE_IMAGE;
    RHUMB_TRY(rhumb_want(b, id, 0, "B", bindings->batch));
    RHUMB_TRY(rhumb_want(b, id, 1, image ? "head_dim" : "exactly", image ? channels : 1));
    RHUMB_TRY(rhumb_want(b, id, 2, image ? "H" : "L", image ? e->grid[0] : bindings->q_length));
    return rhumb_want(b, id, 3, image ? "W" : "head_dim", image ? e->grid[1] : channels);
}

/* A table of [rows, width]; a pair of tables may be larger than the grid. */
static rhumb_result check_table(const rhumb_binder *b, uint32_t id, uint32_t rows)
{
    const rhumb_encoding *e = &b->plan->resolved.encoding;
    const rhumb_view *v = b->placed[id].view;
    bool at_least = e->mask & (ENCODE_CONCAT | ENCODE_SUM);
    RHUMB_TRY(rhumb_want(b, id, 0, "exactly", 1));
    RHUMB_TRY(rhumb_want(b, id, 1, "exactly", 1));
    if (rows && !(at_least && v->shape[2] >= rows))
        RHUMB_TRY(rhumb_want(b, id, 2, at_least ? "at least" : "rows", rows));
    return rhumb_want(b, id, 3, "channels", e->table_width);
}

static rhumb_result check_valid(const rhumb_binder *b, uint32_t batch)
{
    const rhumb_encoding *e = &b->plan->resolved.encoding;
    RHUMB_TRY(rhumb_want(b, RHUMB_VIEW_VALID, 0, "exactly", 1));
    if (b->placed[RHUMB_VIEW_VALID].view->shape[1] != 1)
        RHUMB_TRY(rhumb_want(b, RHUMB_VIEW_VALID, 1, "1 or B", batch));
    RHUMB_TRY(rhumb_want(b, RHUMB_VIEW_VALID, 2, "H", e->grid[0]));
    return rhumb_want(b, RHUMB_VIEW_VALID, 3, "W", e->grid[1]);
}

static rhumb_result check_shapes(const rhumb_binder *b, rhumb_bindings *bindings)
{
    const rhumb_encoding *e = &b->plan->resolved.encoding;
    bool has_table = b->present & BIT(RHUMB_VIEW_TABLE);
    RHUMB_TRY(rhumb_take_sizes(b, RHUMB_VIEW_Y, has_table ? RHUMB_VIEW_TABLE : RHUMB_VIEW_Y,
                               bindings));
    if (e->mask & ENCODE_GRID)
        bindings->q_length = b->plan->resolved.info.max_q_length;
    RHUMB_TRY(check_tensor(b, RHUMB_VIEW_Y, bindings));
    if (b->present & BIT(RHUMB_VIEW_X))
        RHUMB_TRY(check_tensor(b, RHUMB_VIEW_X, bindings));
    if (b->present & POSITIONS)
        RHUMB_TRY(rhumb_check_positions(b, RHUMB_VIEW_POSITIONS, 1, bindings->batch,
                                        bindings->q_length));
    if (has_table)
        RHUMB_TRY(check_table(b, RHUMB_VIEW_TABLE, e->rows));
    if (b->present & BIT(RHUMB_VIEW_COLUMN_TABLE))
        RHUMB_TRY(check_table(b, RHUMB_VIEW_COLUMN_TABLE, e->columns));
    if (b->present & BIT(RHUMB_VIEW_VALID))
        RHUMB_TRY(check_valid(b, bindings->batch));
    return rhumb_check_small_views(b, bindings->batch);
}

/* ---- Record */
/* A grid is encoded whole. */
static rhumb_result check_dispatch(const rhumb_bindings *bindings, const rhumb_dispatch *d)
{
    rhumb_dispatch rest = *d;
    if (bindings->plan->resolved.encoding.mask & ENCODE_GRID)
        return rhumb_check_defaults(bindings, d);
    rest.q_length = RHUMB_UNSET;
    rest.q_offset = RHUMB_UNSET;
    return rhumb_check_defaults(bindings, &rest);
}

/* What the host says of positions can be checked before the table is read. LENGTHS overrules what
 * is unset here. */
static rhumb_result check_table_positions(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                          const struct rhumb_push *push)
{
    const rhumb_resolved *r = &bindings->plan->resolved;
    bool by_host = !(r->info.views & POSITIONS) &&
                   (d->q_offset != RHUMB_UNSET || !(r->info.views & BIT(RHUMB_VIEW_LENGTHS)));
    int64_t first = d->q_offset == RHUMB_UNSET ? 0 : d->q_offset;
    int64_t low = first + r->encoding.offset, high = low + push->q_length - 1;
    if (!(r->encoding.mask & ENCODE_TABLE) || (r->encoding.mask & ENCODE_GRID) || !by_host ||
        push->q_length == 0 || (low >= 0 && high < bindings->k_length))
        return RHUMB_OK;
    return rhumb_fail(bindings->plan->context, RHUMB_ERROR_ARGUMENT,
                      "encode: q_offset: wanted rows 0 to %u of TABLE, found positions %lld to "
                      "%lld, whose rows are %lld to %lld",
                      bindings->k_length - 1, (long long)first,
                      (long long)(first + push->q_length - 1), (long long)low, (long long)high);
}

/* Whether an invocation serves several batch entries: is_shared of encode.comp. */
static bool is_shared(const rhumb_bindings *bindings)
{
    uint32_t views = bindings->plan->resolved.info.views;
    return !(views & BIT(RHUMB_VIEW_LENGTHS)) &&
           (!(views & POSITIONS) || !bindings->block.view[RHUMB_VIEW_POSITIONS][2]) &&
           (!(views & BIT(RHUMB_VIEW_VALID)) || !bindings->block.view[RHUMB_VIEW_VALID][1]);
}

/* Rows of one invocation, as the kernel has it. */
static uint32_t rows_at_once(const rhumb_resolved *r)
{
    return r->encoding.mask & (ENCODE_IMAGE | ENCODE_NORMALIZE) ? 1 : ENCODE_ROWS;
}

static uint64_t count_groups(const rhumb_bindings *bindings, const struct rhumb_push *push)
{
    const uint32_t rows = rows_at_once(&bindings->plan->resolved);
    const rhumb_encoding *e = &bindings->plan->resolved.encoding;
    uint32_t batch = bindings->batch;
    if (is_shared(bindings))
        batch = (batch + ENCODE_BATCH - 1) / ENCODE_BATCH;
    uint64_t units = e->mask & ENCODE_IMAGE ? (uint64_t)e->grid[0] * ((e->grid[1] + 3) / 4)
                                            : ((uint32_t)push->max_q_length + rows - 1) / rows;
    if (e->mask & ENCODE_NORMALIZE)
        return units * batch;
    uint64_t parts = rhumb_saturated_product(units * e->parts, batch);
    return parts / ENCODE_INVOCATIONS + (parts % ENCODE_INVOCATIONS != 0);
}

static rhumb_result record(VkCommandBuffer command_buffer, const rhumb_bindings *bindings,
                           const rhumb_dispatch *d)
{
    struct rhumb_push push = {.batch = bindings->batch, .q_offset = d->q_offset};
    bool has_positions = bindings->plan->resolved.info.views & POSITIONS;
    RHUMB_TRY(rhumb_check_lengths(bindings, d, false, &push));
    if (d->q_offset != RHUMB_UNSET)
        RHUMB_TRY(
            rhumb_check_offset(bindings, d, has_positions ? -RHUMB_MAX_LENGTH : 0, &push));
    RHUMB_TRY(check_dispatch(bindings, d));
    RHUMB_TRY(check_table_positions(bindings, d, &push));
    push.k_length = (int32_t)bindings->k_length;
    uint64_t groups = count_groups(bindings, &push);
    RHUMB_TRY(rhumb_check_groups(bindings, groups));
    rhumb_emit(command_buffer, bindings, d, bindings->pipeline, groups, &push);
    return RHUMB_OK;
}

const rhumb_operation rhumb_op_encode = {
    .op = RHUMB_OP_ENCODE,
    .name = "encode",
    .required = BIT(RHUMB_VIEW_Y),
    .optional = BIT(RHUMB_VIEW_X) | POSITIONS | BIT(RHUMB_VIEW_LENGTHS) | BIT(RHUMB_VIEW_STATUS) |
                BIT(RHUMB_VIEW_TABLE) | BIT(RHUMB_VIEW_COLUMN_TABLE) | BIT(RHUMB_VIEW_VALID),
    .vectors = BIT(RHUMB_VIEW_X) | BIT(RHUMB_VIEW_Y) | BIT(RHUMB_VIEW_TABLE) |
               BIT(RHUMB_VIEW_COLUMN_TABLE),
    .max_head_dim = RHUMB_MAX_CHANNELS,
    .resolve = resolve,
    .choose = choose,
    .count_cost = count_cost,
    .written = written,
    .in_place = BIT(RHUMB_VIEW_X),
    .rules = rules,
    .shared_slot = shared_slot,
    .check_shapes = check_shapes,
    .record = record,
};
