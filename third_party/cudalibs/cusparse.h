// Stand-in for the toolkit's header, which no wheel of ours ships: the one name that libtorch's headers need.
#pragma once

typedef struct cusparseContext* cusparseHandle_t;
typedef int cusparseStatus_t;
#define CUSPARSE_STATUS_SUCCESS 0
