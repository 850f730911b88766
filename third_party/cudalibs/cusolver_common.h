// Stand-in for the toolkit's header, which no wheel of ours ships: the names that libtorch's headers need.
#pragma once

typedef int cusolverStatus_t;
#define CUSOLVER_STATUS_SUCCESS 0
