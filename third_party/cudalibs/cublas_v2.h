// Stand-in for the toolkit's header, which no wheel of ours ships: the one name that libtorch's headers need.
#pragma once

typedef struct cublasContext* cublasHandle_t;
typedef int cublasStatus_t;
#define CUBLAS_STATUS_SUCCESS 0
