/* ROTATE of a golden case on a device: the routes that the rotary schemes share. */
#include "cases_rope.h"

#include <stdio.h>
#include <string.h>

/* The rows that turn; the others lie outside the view and stay as they are. */
static void add_rows(gpu_operation *op, const case_rotation *r, rhumb_view_id id, const void *input,
                     void *output)
{
    const uint64_t *s = r->x->shape;
    gpu_tensor *t = gpu_add_tensor(op, id, RHUMB_F32, s[0], s[1], s[2], s[3], input, output);

    t->bytes = r->x->count * sizeof(float);
    t->offset = r->first * s[3] * sizeof(float);
    t->shape[2] = r->rows;
}

static void copy_outside(const case_rotation *r, tensor *y)
{
    const uint64_t *s = y->shape;
    const uint64_t size = s[3] * sizeof(float);
    uint64_t row;

    for (row = 0; row < s[0] * s[1] * s[2]; row++) {
        const uint64_t l = row % s[2];
        if (l < r->first || l >= r->first + r->rows)
            memcpy((char *)y->data + row * size, (const char *)r->x->data + row * size, size);
    }
}

static int compare(case_file *c, const case_rotation *r, rhumb_view_id side, bool in_place,
                   tensor *y)
{
    char who[48];

    snprintf(who, sizeof who, "device: %c %s place", side == RHUMB_VIEW_Q ? 'Q' : 'K',
             in_place ? "in" : "out of");
    if (!in_place)
        copy_outside(r, y);
    return case_compare_tensor(c, who, r->golden, y);
}

/* One record; a side RHUMB_VIEW_COUNT is none. */
static int rotate_once(case_file *c, const case_rotation *r, rhumb_view_id apart,
                       rhumb_view_id in_place, tensor *y, tensor *z)
{
    const rhumb_view_id out = apart == RHUMB_VIEW_Q ? RHUMB_VIEW_Q_OUT : RHUMB_VIEW_K_OUT;
    gpu_operation op;

    gpu_init_operation(&op, RHUMB_OP_ROTATE);
    op.info.rotary = r->rotary;
    op.info.heads = (uint32_t)r->x->shape[1];
    op.info.head_dim = (uint32_t)r->x->shape[3];
    op.info.max_q_length = (uint32_t)r->rows;
    if (apart != RHUMB_VIEW_COUNT) {
        add_rows(&op, r, apart, r->x->data, NULL);
        add_rows(&op, r, out, NULL, y->data);
    }
    if (in_place != RHUMB_VIEW_COUNT) {
        memcpy(z->data, r->x->data, r->x->count * sizeof(float));
        add_rows(&op, r, in_place, z->data, z->data);
    }
    gpu_add_tensor(&op, RHUMB_VIEW_POSITIONS_Q, RHUMB_I32, 1, r->axes, r->batch, r->rows,
                   r->positions, NULL);
    if (r->frequencies != NULL)
        gpu_add_tensor(&op, RHUMB_VIEW_FREQUENCIES, RHUMB_F32, 1, r->frequencies->shape[0],
                       r->frequencies->shape[1], r->frequencies->shape[2], r->frequencies->data,
                       NULL);
    if (case_run_device(c, "rotate", &op) != 0)
        return -1;
    if (apart != RHUMB_VIEW_COUNT && compare(c, r, apart, false, y) != 0)
        return -1;
    return in_place != RHUMB_VIEW_COUNT ? compare(c, r, in_place, true, z) : 0;
}

int case_rotate_on_device(case_file *c, const case_rotation *r)
{
    const rhumb_view_id none = RHUMB_VIEW_COUNT;
    tensor_list store = {0};
    int result = -1;

    if (tensor_list_add(&store, "apart", TENSOR_F32, 4, r->x->shape, NULL) == NULL ||
        tensor_list_add(&store, "in place", TENSOR_F32, 4, r->x->shape, NULL) == NULL) {
        case_fail(c, "no memory");
    } else {
        tensor *y = &store.items[0], *z = &store.items[1];
        if (r->side == none)
            result = rotate_once(c, r, RHUMB_VIEW_Q, RHUMB_VIEW_K, y, z);
        else if (rotate_once(c, r, r->side, none, y, z) == 0)
            result = rotate_once(c, r, none, r->side, y, z);
    }
    tensor_list_free(&store);
    return result;
}
