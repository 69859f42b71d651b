#include "../internal.h"

const rhumb_scheme rhumb_scheme_learned = {
    .name = "learned",
    .type = RHUMB_TYPE_LEARNED,
};
