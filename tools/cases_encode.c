/* ENCODE of a golden case on a device. */
#include "cases_absolute.h"

#include <stdlib.h>

static int encode_once(case_file *c, const gpu_operation *given, const tensor *x,
                       const tensor *golden, const uint64_t shape[4], bool in_place, tensor *y)
{
    gpu_operation op = *given;
    gpu_tensor *t;

    if (x != NULL)
        gpu_add_tensor(&op, RHUMB_VIEW_X, RHUMB_F32, shape[0], shape[1], shape[2], shape[3],
                       x->data, NULL);
    t = gpu_add_tensor(&op, RHUMB_VIEW_Y, RHUMB_F32, shape[0], shape[1], shape[2], shape[3], NULL,
                       y->data);
    t->same_as = in_place ? op.tensor_count - 1 : 0;
    if (case_run_device(c, in_place ? "encode in place" : "encode", &op) != 0)
        return -1;
    return case_compare_tensor(c, in_place ? "device: encode in place" : "device: encode", golden,
                               y);
}

int case_encode_on_device(case_file *c, const gpu_operation *op, const tensor *x,
                          const tensor *golden, const uint64_t shape[4])
{
    tensor y = *golden;
    int result;

    y.data = malloc((size_t)y.count * sizeof(float));
    if (y.data == NULL)
        return case_fail(c, "no memory for the device's output");
    result = encode_once(c, op, x, golden, shape, false, &y);
    if (result == 0 && x != NULL)
        result = encode_once(c, op, x, golden, shape, true, &y);
    free(y.data);
    return result;
}
