/* What `rhumb run` did, for people and for programs. */
#include "run_model.h"

#include "command_line.h"
#include "json_out.h"

#include <math.h>
#include <stdio.h>

static void print_step(const char *name, const run_step *step)
{
    const double seconds = step->ns * 1e-9;
    char time[32], amount[32], rate[32];

    if (!step->ran)
        return;
    printf("%-10s %s, %s%s, %s, %s", name, command_variant_name(step->properties.variant),
           command_time_text(step->ns, time, sizeof time),
           step->host_clock ? " by the host's clock" : "",
           command_amount_text(step->bytes, "B", amount, sizeof amount),
           command_amount_text(step->bytes / seconds, "B/s", rate, sizeof rate));
    if (step->flops > 0.0)
        printf(", %s, %s", command_amount_text(step->flops, "FLOP", amount, sizeof amount),
               command_amount_text(step->flops / seconds, "FLOP/s", rate, sizeof rate));
    printf(" (%s)\n", step->properties.reason);
    if (step->outside)
        printf("%-10s positions, lengths or slots beyond a table, a cache or the sizes: clamped or "
               "skipped\n",
               "  outside");
    if (step->checked)
        printf("%-10s max error %.2e, bound %.2e: %s\n", "  check", step->check.error,
               step->check.bound, step->check.pass ? "pass" : "FAIL");
}

static void print_layer(const run_request *request, const run_tensors *t)
{
    const rhumb_layer_kind *kind = request->kind;
    const run_tensor *q = &t->view[RHUMB_VIEW_Q], *k = &t->view[RHUMB_VIEW_K];
    const bool causal = request->settings.plan.causal != 0;

    printf("%-10s %s: %u heads, %u kv_heads, head_dim %u, %s\n", "layer", kind->name, kind->heads,
           kind->kv_heads, kind->head_dim, kind->rotary != NULL ? "rotary" : "no rotary");
    printf("%-10s %s, B %llu, Lq %llu", "input", command_dtype_name(q->dtype),
           (unsigned long long)q->shape[0], (unsigned long long)q->shape[2]);
    if (k->present)
        printf(", Lk %llu", (unsigned long long)k->shape[2]);
    if (request->op == RHUMB_OP_ATTENTION)
        printf(", %s%s", causal ? "causal" : "not causal",
               !causal && kind->causal ? " (the model is: --causal)" : "");
    if (request->op == RHUMB_OP_ATTENTION && kind->window_left != RHUMB_NO_WINDOW)
        printf(", window %d", kind->window_left);
    if (request->op == RHUMB_OP_ATTENTION && kind->chunk != RHUMB_NO_WINDOW)
        printf(", chunks of %d", kind->chunk);
    if (request->op == RHUMB_OP_ATTENTION && isfinite(kind->softcap))
        printf(", softcap %g", kind->softcap);
    putchar('\n');
}

/* "q [2, 3, 17, 8] f32" of each tensor, as the file has it. */
static void print_views(const char *title, const run_tensors *t, uint32_t mask)
{
    const char *comma = "";

    printf("%-10s", title);
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++) {
        const run_tensor *v = &t->view[id];
        if (!v->present || !(mask >> id & 1u))
            continue;
        printf("%s %s [", comma, v->name);
        for (uint32_t i = 0; i < v->rank; i++)
            printf("%s%llu", i > 0 ? ", " : "", (unsigned long long)v->file_shape[i]);
        printf("] %s", command_dtype_name(v->dtype));
        comma = ",";
    }
    printf("%s\n", *comma == '\0' ? " none" : "");
}

static void print_scheme(const run_request *request, const run_tensors *t)
{
    const run_settings *s = &request->settings;
    cJSON *object = s->entry != NULL ? scheme_write(s->entry, s->scheme) : NULL;
    char *text = object != NULL ? cJSON_PrintUnformatted(object) : NULL;
    const uint32_t results = run_results(request, t);

    printf("%-10s %s %s\n", "scheme", s->entry != NULL ? s->entry->name : "none",
           text != NULL ? text : "");
    print_views("input", t, ~results);
    if (t->unused[0] != '\0')
        printf("%-10s %s\n", "unused", t->unused);
    print_views("result", t, results);
    cJSON_free(text);
    cJSON_Delete(object);
}

void run_print_text(const gpu *g, const run_request *request, const run_tensors *tensors,
                    const run_steps *steps, const char *output)
{
    printf("%-10s %s (%s)\n", "device", g->properties.deviceName,
           gpu_device_type_name(g->properties.deviceType));
    if (request->kind != NULL)
        print_layer(request, tensors);
    else
        print_scheme(request, tensors);
    print_step("rotate", &steps->keys);
    print_step(command_op_name(request->op), &steps->main);
    if (output != NULL)
        printf("%-10s %s\n", "output", output);
}

/* ----------------------------------------------------------------------------------------------
 * JSON
 */
static void put_step(cJSON *root, const char *name, const run_step *step)
{
    cJSON *item;

    if (!step->ran)
        return;
    item = cJSON_AddObjectToObject(root, name);
    json_put_plan(item, &step->properties);
    if (step->properties.table_rows > 0) {
        cJSON_AddNumberToObject(item, "table_rows", (double)step->properties.table_rows);
        cJSON_AddNumberToObject(item, "table_zero", (double)step->properties.table_zero);
    }
    cJSON_AddNumberToObject(item, "gpu_ns", step->ns);
    cJSON_AddStringToObject(item, "clock", step->host_clock ? "host" : "queue");
    cJSON_AddNumberToObject(item, "total_bytes", step->bytes);
    cJSON_AddNumberToObject(item, "gigabytes_per_second", step->bytes / step->ns);
    if (step->flops > 0.0) {
        cJSON_AddNumberToObject(item, "visible_flops", step->flops);
        cJSON_AddNumberToObject(item, "gigaflops_per_second", step->flops / step->ns);
    }
    cJSON_AddBoolToObject(item, "outside", step->outside);
    if (step->checked) {
        cJSON_AddNumberToObject(item, "max_error", step->check.error);
        cJSON_AddNumberToObject(item, "bound", step->check.bound);
        cJSON_AddBoolToObject(item, "pass", step->check.pass);
    }
}

/* The view's shape, or the file's. */
static void put_shape(cJSON *root, const run_tensor *t, bool of_file)
{
    const uint64_t *shape = of_file ? t->file_shape : t->shape;
    cJSON *list;

    if (!t->present)
        return;
    list = cJSON_AddArrayToObject(root, t->name);
    for (uint32_t i = 0; i < (of_file ? t->rank : 4); i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)shape[i]));
}

static void put_layer(cJSON *root, const run_request *request, const run_tensors *t)
{
    cJSON_AddStringToObject(root, "layer_kind", request->kind->name);
    cJSON_AddStringToObject(root, "dtype", command_dtype_name(t->view[RHUMB_VIEW_Q].dtype));
    cJSON_AddBoolToObject(root, "causal", request->settings.plan.causal != 0);
    put_shape(root, &t->view[RHUMB_VIEW_Q], false);
    put_shape(root, &t->view[RHUMB_VIEW_K], false);
    put_shape(root, &t->view[RHUMB_VIEW_V], false);
}

static void put_scheme(cJSON *root, const run_request *request, const run_tensors *t)
{
    const run_settings *s = &request->settings;
    const uint32_t results = run_results(request, t);
    cJSON *inputs, *outputs;

    cJSON_AddStringToObject(root, "scheme", s->entry != NULL ? s->entry->name : "none");
    if (s->entry != NULL)
        cJSON_AddItemToObject(root, "params", scheme_write(s->entry, s->scheme));
    cJSON_AddItemToObject(root, "plan", run_plan_write(&s->plan));
    inputs = cJSON_AddObjectToObject(root, "inputs");
    outputs = cJSON_AddObjectToObject(root, "results");
    for (uint32_t id = 0; id < RHUMB_VIEW_COUNT; id++)
        put_shape(results >> id & 1u ? outputs : inputs, &t->view[id], true);
    if (t->unused[0] != '\0')
        cJSON_AddStringToObject(root, "unused", t->unused);
}

int run_print_json(const gpu *g, const run_request *request, const run_tensors *tensors,
                   const run_steps *steps, const char *output)
{
    cJSON *root = cJSON_CreateObject();

    json_put_device(cJSON_AddObjectToObject(root, "device"), g);
    cJSON_AddStringToObject(root, "op", command_op_name(request->op));
    if (request->kind != NULL)
        put_layer(root, request, tensors);
    else
        put_scheme(root, request, tensors);
    put_step(root, "rotate", &steps->keys);
    put_step(root, command_op_name(request->op), &steps->main);
    if (output != NULL)
        cJSON_AddStringToObject(root, "output", output);
    return json_print(root);
}
