/* The C ABI of several processes: gospml_dist_api returns a table of functions. Rules, results and handles are those of
 * gospml_torch.h; a store, a group, a work and a reducer are integers that own one reference each. Calls may block up
 * to their timeouts, which are in milliseconds. */
#ifndef GOSPML_DIST_H
#define GOSPML_DIST_H

#include "gospml_torch.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GOSPML_DIST_ABI 1

enum {
  GS_DIST_ALLREDUCE = 0,
  GS_DIST_BROADCAST = 1,
  GS_DIST_ALLGATHER = 2,
  GS_DIST_REDUCE_SCATTER = 3,
  GS_DIST_BARRIER = 4
};

typedef struct {
  uint32_t abi;
  uint32_t size;

  /* Stores. */
  gs_result (*tcp_store)(const char* host, int port, int server, int workers, int64_t timeout); /* w: store, port */
  gs_result (*prefix_store)(uint64_t store, const char* prefix); /* w: store */
  gs_result (*store_set)(uint64_t store, const char* key, const uint8_t* value, size_t n);
  gs_result (*store_get)(uint64_t store, const char* key, int64_t timeout); /* w: block with the bytes */
  gs_result (*store_add)(uint64_t store, const char* key, int64_t n); /* w: the sum */
  gs_result (*store_delete)(uint64_t store, const char* key); /* w: 1 if it was there */
  gs_result (*store_free)(uint64_t store);

  /* Groups. */
  gs_result (*gloo_group)(uint64_t store, int rank, int size, const char* interface_or_host, int is_host,
                          int64_t timeout); /* w: group */
  gs_result (*empty_group)(uint64_t store, int rank, int size); /* w: group without a backend */
  gs_result (*group_timeout)(uint64_t group, int64_t timeout);
  gs_result (*group_free)(uint64_t group);

  /* Starts a collective. tensors: the one that is reduced or broadcast; what all ranks gave; the one that receives.
   * others: what this rank gives to allgather or, a part for each rank, to reduce_scatter. op: c10d::ReduceOp. w: work
   */
  gs_result (*start)(uint64_t group, int kind, const uint64_t* tensors, size_t n, const uint64_t* others,
                     size_t nothers, int op, int root, int64_t timeout);
  gs_result (*wait)(uint64_t work, int64_t timeout); /* timeout 0: the group's */
  gs_result (*done)(uint64_t work); /* w: 1 if it has ended */
  gs_result (*work_free)(uint64_t work);

  /* Gradients. */
  gs_result (*sync)(uint64_t group, const uint64_t* tensors, size_t n, int root); /* all become root's */
  gs_result (*verify)(uint64_t group, const uint64_t* params, size_t n); /* same number and shapes on every rank */
  gs_result (*reducer)(uint64_t group, const uint64_t* params, size_t n, int64_t first_bucket, int64_t bucket,
                       int find_unused); /* w: reducer, buckets */
  gs_result (*prepare)(uint64_t reducer, const uint64_t* outputs, size_t n); /* w: 1 if the buckets were rebuilt */
  gs_result (*reducer_free)(uint64_t reducer);
} gs_dist;

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const gs_dist* gospml_dist_api(uint32_t abi);

#ifdef __cplusplus
}
#endif
#endif
