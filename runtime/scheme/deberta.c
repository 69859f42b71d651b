#include "../internal.h"

const rhumb_scheme rhumb_scheme_deberta = {
    .name = "deberta",
    .type = RHUMB_TYPE_DEBERTA,
};
