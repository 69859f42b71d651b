/* The queries and keys of a Llama layer, rotated in place inside somebody's engine. */
#include "minimal.h"
#include <rhumb/rhumb_schemes.h>
#define TRY(call) if ((call) != RHUMB_OK) goto done

int rotate(engine *e, engine_buffer *q, engine_buffer *k, engine_buffer *blocks, int first,
           int tokens)
{
    rhumb_context *context = NULL;
    rhumb_plan *plan = NULL;
    rhumb_bindings *bindings = NULL;
    int failed = 1;

    rhumb_hosted_info host; /* once for the device */
    rhumb_init_hosted_info(&host);
    host.instance = e->instance;
    host.physical_device = e->physical_device;
    host.device = e->device;
    host.get_instance_proc_addr = vkGetInstanceProcAddr;
    TRY(rhumb_create_hosted(&host, &context));

    rhumb_rope rope; /* once for the model, while it loads: compiles */
    rhumb_init_rope(&rope);
    rhumb_plan_info info;
    rhumb_init_plan_info(&info, RHUMB_OP_ROTATE);
    info.rotary = &rope;
    info.heads = HEADS;
    info.head_dim = DIM;
    info.max_q_length = ROWS;
    info.views = RHUMB_VIEW_BIT(RHUMB_VIEW_Q) | RHUMB_VIEW_BIT(RHUMB_VIEW_K);
    TRY(rhumb_create_plan(context, &info, &plan));
    TRY(rhumb_write_constants(plan, 0, 0, blocks->mapped, BLOCK));

    rhumb_view views[2]; /* once for the buffers of a layer */
    rhumb_init_view(&views[0], RHUMB_VIEW_Q, RHUMB_F32, q->buffer, q->size, 1, HEADS, ROWS, DIM);
    rhumb_init_view(&views[1], RHUMB_VIEW_K, RHUMB_F32, k->buffer, k->size, 1, HEADS, ROWS, DIM);
    rhumb_bindings_info use;
    rhumb_init_bindings_info(&use);
    use.views = views;
    use.view_count = 2;
    use.constants_buffer = use.bindings_buffer = blocks->buffer;
    TRY(rhumb_create_bindings(plan, &use, &bindings));
    TRY(rhumb_write_bindings(bindings, (char *)blocks->mapped + BLOCK, BLOCK));

    rhumb_dispatch dispatch; /* whenever there are tokens */
    rhumb_init_dispatch(&dispatch);
    dispatch.bindings_offset = BLOCK;
    dispatch.q_length = tokens;
    dispatch.q_offset = first;
    TRY(rhumb_record(engine_begin(e), bindings, &dispatch));
    engine_finish(e); /* a barrier from compute shader writes, submit, wait */
    failed = 0;
done:
    if (failed)
        engine_complain(rhumb_last_message(context));
    rhumb_destroy_bindings(bindings);
    rhumb_destroy_plan(plan);
    rhumb_destroy_context(context);
    return failed;
}
