/* learned2d: tables over a grid, whole or by rows and columns. */
#include "encoding.h"

static rhumb_result check(const rhumb_context *context, const rhumb_learned2d *p,
                          const rhumb_plan_info *info)
{
    const char *name = "learned2d";
    RHUMB_TRY(rhumb_check_enum(context, name, "form", "rhumb_learned2d_form", (uint32_t)p->form,
                               RHUMB_LEARNED2D_SUM));
    RHUMB_TRY(rhumb_check_enum(context, name, "order", "rhumb_axis_order", (uint32_t)p->order,
                               RHUMB_AXIS_COLUMN_FIRST));
    RHUMB_TRY(rhumb_check_enum(context, name, "output", "rhumb_grid_output", (uint32_t)p->output,
                               RHUMB_OUTPUT_IMAGE));
    RHUMB_TRY(rhumb_check_range(context, name, "table_has_prefix", p->table_has_prefix, 0, 1));
    if (p->output == RHUMB_OUTPUT_IMAGE && p->prefix_tokens)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "learned2d: output: an image wanted no prefix_tokens, found %u",
                          p->prefix_tokens);
    if (p->form == RHUMB_LEARNED2D_CONCAT && info->head_dim % 2)
        return rhumb_fail(context, RHUMB_ERROR_ARGUMENT,
                          "learned2d: head_dim: wanted an even number of channels for CONCAT, "
                          "found %u",
                          info->head_dim);
    return rhumb_check_grid(context, name, p->grid, p->prefix_tokens, info);
}

/* A table with rows for the prefix is one of prefix + H W rows in a column: token by token. */
static void set_full(const rhumb_learned2d *p, const rhumb_plan_info *info, rhumb_encoding *e)
{
    if (p->table_has_prefix && p->prefix_tokens) {
        e->grid[0] = info->max_q_length;
        e->grid[1] = 1;
        e->prefix = 0;
    }
    e->rows = e->grid[0] * e->grid[1];
}

static void set_pair(const rhumb_learned2d *p, const rhumb_plan_info *info, rhumb_encoding *e)
{
    e->mask |= p->form == RHUMB_LEARNED2D_CONCAT ? ENCODE_CONCAT : ENCODE_SUM;
    e->flags = p->order == RHUMB_AXIS_COLUMN_FIRST ? ENCODE_FLAG_COLUMN_FIRST : 0;
    e->required |= RHUMB_VIEW_BIT(RHUMB_VIEW_COLUMN_TABLE);
    e->rows = e->grid[0];
    e->columns = e->grid[1];
    if (p->form == RHUMB_LEARNED2D_CONCAT)
        e->table_width = info->head_dim / 2;
}

static rhumb_result resolve(const rhumb_context *context, const void *params,
                            const rhumb_plan_info *info, rhumb_encoding *e)
{
    rhumb_learned2d p;
    rhumb_init_learned2d(&p);
    RHUMB_TRY(rhumb_adopt(context, "learned2d", "rhumb_learned2d", params, RHUMB_TYPE_LEARNED2D, &p,
                          sizeof p));
    RHUMB_TRY(check(context, &p, info));
    RHUMB_TRY(rhumb_set_scales(context, "learned2d", p.x_scale, p.pe_scale, e));
    e->mask = ENCODE_TABLE | ENCODE_GRID | (p.output == RHUMB_OUTPUT_IMAGE ? ENCODE_IMAGE : 0);
    e->required = RHUMB_VIEW_BIT(RHUMB_VIEW_TABLE);
    memcpy(e->grid, p.grid, sizeof e->grid);
    e->prefix = p.prefix_tokens;
    e->table_width = info->head_dim;
    if (p.form == RHUMB_LEARNED2D_FULL)
        set_full(&p, info, e);
    else
        set_pair(&p, info, e);
    return RHUMB_OK;
}

const rhumb_scheme rhumb_scheme_learned2d = {
    .name = "learned2d",
    .type = RHUMB_TYPE_LEARNED2D,
    .resolve_encoding = resolve,
};
