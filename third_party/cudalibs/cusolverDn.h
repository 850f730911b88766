// Stand-in for the toolkit's header, which no wheel of ours ships: the one name that libtorch's headers need.
#pragma once

typedef struct cusolverDnContext* cusolverDnHandle_t;
