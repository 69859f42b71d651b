/* The one place where volk's function table is defined, for the tools and tests. The library has
 * its own table in each context. */
#define VOLK_IMPLEMENTATION
#include <volk.h>
