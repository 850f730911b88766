/* The C ABI between Go and libtorch: one exported function, gospml_torch_api, returns a table of functions.
 *
 * Rules of every entry: no C++ exception leaves it; the error comes back by value in the same call; handles are plain
 * integers that own one reference of a tensor; only backward and grad call back into Go, through gs_go_function.
 * The table only grows at its end; GOSPML_TORCH_ABI changes when an existing entry or struct changes. */
#ifndef GOSPML_TORCH_H
#define GOSPML_TORCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GOSPML_TORCH_ABI 2

typedef uint64_t gs_tensor; /* TensorImpl*, one owned reference; 0 = undefined tensor */

/* Kinds of an error; 0 is success. */
enum {
  GS_OK = 0,
  GS_ERR_RUNTIME = 1,
  GS_ERR_INDEX = 2,
  GS_ERR_VALUE = 3,
  GS_ERR_TYPE = 4,
  GS_ERR_NOT_IMPLEMENTED = 5,
  GS_ERR_OUT_OF_MEMORY = 6,
  GS_ERR_LINALG = 7,
  GS_ERR_INTERNAL = 8,
  GS_ERR_CALL = 9,   /* the call does not fit the operator's schema */
  GS_ERR_HANDLE = 20 /* a nil tensor where the operator needs one */
};

/* Tags of arguments and results. */
enum {
  GS_NONE = 0,
  GS_TENSOR = 1,
  GS_INT = 2,
  GS_DOUBLE = 3,
  GS_BOOL = 4,
  GS_STR = 5,     /* bytes in the list area */
  GS_INTS = 6,
  GS_DOUBLES = 7, /* bits of float64 */
  GS_BOOLS = 8,
  GS_TENSORS = 9, /* handles; 0 = None where the schema has Tensor?[] */
  GS_DEVICE = 10, /* type << 8 | (index & 0xff), index 255 = none */
  GS_GENERATOR = 11,
  GS_DEFAULT = 12, /* take the schema's default */
  GS_FAR = 0x80    /* flag: the list lies in `far`, not in the frame */
};

#define GS_MAX_ARGS 20
#define GS_INLINE 24
#define GS_MAX_RESULTS 6
#define GS_MAX_DIMS 16

/* Arguments and results of one operator call. It holds no pointers, so it lives on the Go stack. A list's word is
 * offset | length << 32. A call that succeeds overwrites n, tag and w with its results; one that fails leaves them.
 * Results that alias a written argument (in-place, out=) are dropped: the caller has them. */
typedef struct {
  uint32_t n;
  uint32_t used;  /* words of `data` in use */
  uint64_t bytes; /* out: bytes of storage that did not exist before, 0 in a scope */
  uint32_t scope; /* out: scope that owns the new handles, 0 = the caller owns them */
  uint32_t slot;  /* out: place of the first new handle in the scope; the others follow it */
  uint32_t flags; /* in: GS_CONTENDED */
  uint8_t tag[GS_MAX_ARGS];
  uint64_t w[GS_MAX_ARGS]; /* GS_TENSORS out: pointer to a block of uint64: length, handles; free with free_block */
  uint64_t data[GS_INLINE];
} gs_frame;

/* Other calls are running: this one takes one thread, unless it runs where the number of threads is fixed. */
enum { GS_CONTENDED = 1 };

typedef struct {
  int64_t kind;
  char* msg; /* error text; free with free_block */
} gs_error;

/* Result of the calls that are no operator; fields as in gs_frame. */
typedef struct {
  int32_t kind;
  int32_t n;
  uint8_t tag[8];
  uint64_t w[GS_MAX_RESULTS];
  uint64_t bytes;
  uint32_t scope;
  uint32_t slot;
  char* msg;
} gs_result;

typedef struct {
  int32_t dtype;
  int32_t device; /* as GS_DEVICE */
  int32_t ndim;
  uint32_t flags; /* GS_F_* */
  int64_t numel;
  int64_t itemsize;
  uint64_t data; /* address of the first element, 0 where there is no plain storage */
  int64_t storage_bytes;
  int64_t version; /* in-place version counter, -1 in inference mode */
  int64_t sizes[GS_MAX_DIMS];
  int64_t strides[GS_MAX_DIMS];
} gs_desc;

enum {
  GS_F_REQUIRES_GRAD = 1,
  GS_F_CONTIGUOUS = 2,
  GS_F_LEAF = 4,
  GS_F_CHANNELS_LAST = 8,
  GS_F_INFERENCE = 16,
  GS_F_VIEW = 32
};

/* Thread-local modes. Inside each, as inside a scope, the number of threads of a call is fixed; GS_MODE_STEADY does
 * nothing else. */
enum { GS_MODE_GRAD = 0, GS_MODE_INFERENCE = 1, GS_MODE_STEADY = 2 };

/* A function of Go's that a graph calls: args holds its tensors (GS_TENSORS, owned as results are), which Go takes; it
 * writes owned references, or 0, to out. It returns 0, or the kind of the error, whose text (malloc) it leaves in msg.
 */
typedef int32_t (*gs_go_function)(uint64_t id, gs_result* args, uint64_t* out, size_t nout, char** msg);

/* Switches of the process. */
enum {
  GS_FLAG_TF32 = 0,                     /* matrix products and convolutions on CUDA in TensorFloat-32 */
  GS_FLAG_CUDNN_BENCHMARK = 1,
  GS_FLAG_CUDNN_DETERMINISTIC = 2,
  GS_FLAG_DETERMINISTIC = 3,            /* operators without a deterministic form raise an error */
  GS_FLAG_ANOMALY = 4,                  /* backward checks every gradient for NaN */
  GS_FLAG_MATMUL_PRECISION = 5          /* 0 highest, 1 high, 2 medium */
};

typedef struct {
  uint32_t abi;
  uint32_t size; /* sizeof(gs_api) of the library */
  const char* torch_version; /* compiled against */

  /* Operators. */
  gs_result (*op)(const char* name, const char* overload); /* w[0] = operator, cached for ever */
  gs_error (*call)(uint64_t op, gs_frame* f, const uint64_t* far);
  gs_result (*schema)(uint64_t op);                         /* w[0] = block with the text (GS_STR: length, bytes) */
  gs_result (*overloads)(const char* name);                 /* the same: names, one a line */

  /* Handles. */
  void (*free_block)(void* p);
  uint64_t (*release)(const uint64_t* h, size_t n); /* returns bytes of storage that went with them */
  gs_result (*retain)(uint64_t h); /* another handle of the same tensor, owned by the current scope */
  gs_result (*describe)(uint64_t h, gs_desc* out);
  int64_t (*live)(void);

  /* Scopes: thread-local, nested. A handle is named with the id of its scope and its place there. */
  void (*scope_begin)(uint32_t id);
  void (*scope_end)(void); /* frees what the innermost scope holds */
  gs_result (*scope_keep)(uint32_t id, uint32_t slot,
                          uint64_t h); /* moves to the next outer scope; n = 0: not of a scope of this thread */
  int32_t (*scope_drop)(uint32_t id, uint32_t slot, uint64_t h); /* frees early; 0: not of a scope of this thread */

  /* Autograd. Lists as (pointer, length). */
  gs_result (*backward)(const uint64_t* roots, size_t n, const uint64_t* grads, const uint64_t* inputs, size_t ninputs,
                        int retain, int create, uint32_t flags);
  gs_result (*grad)(const uint64_t* outputs, size_t n, const uint64_t* inputs, size_t ninputs,
                    const uint64_t* grad_outputs, int retain, int create, int allow_unused, uint32_t flags);
  gs_result (*get_grads)(const uint64_t* h, size_t n); /* GS_TENSORS, 0 where there is none */
  gs_result (*set_grad)(uint64_t h, uint64_t grad); /* grad 0 clears */
  gs_result (*zero_grads)(const uint64_t* h, size_t n, int set_to_none);
  gs_result (*set_requires_grad)(uint64_t h, int on);
  gs_result (*set_data)(uint64_t h, uint64_t source); /* x.data = source */
  gs_result (*grad_fn)(uint64_t h); /* block with the name; n = 0 for a leaf */
  int (*mode)(int which);
  gs_result (*enter)(int which, int on); /* w[0] = what leave wants; strictly nested with leave */
  gs_result (*leave)(int which, int before);

  /* Random numbers; generator 0 = the default CPU generator. */
  gs_result (*manual_seed)(uint64_t seed);
  gs_result (*generator)(uint64_t seed); /* w[0] = new CPU generator */
  void (*generator_free)(uint64_t g);
  gs_result (*generator_seed)(uint64_t g, uint64_t seed);
  gs_result (*generator_state)(uint64_t g); /* tensor uint8 */
  gs_result (*generator_set_state)(uint64_t g, uint64_t state);

  /* Process. */
  gs_result (*set_num_threads)(int n); /* intra-op threads of the process */
  gs_result (*set_thread_threads)(int n); /* of this OS thread only */
  int (*num_threads)(void);
  int (*parallel_threads)(void); /* distinct threads that a parallel_for of 64 chunks really used */
  int64_t (*heap_in_use)(void); /* bytes that malloc has handed out (mallinfo2) */
  const char* (*cpu_capability)(void);
  gs_result (*config)(void); /* block with libtorch's build description */
  gs_result (*load_ops)(const char* path); /* dlopen of an operator library, RTLD_GLOBAL */

  /* Go functions in graphs. Ids name them; those whose last user is gone are handed out by dead_functions. */
  void (*set_go_function)(gs_go_function f);
  size_t (*dead_functions)(uint64_t* ids, size_t n);
  uint64_t (*own)(uint64_t h); /* one more reference, of no scope, for `out` of gs_go_function */
  gs_result (*node)(uint64_t id, const uint64_t* inputs, size_t n, const uint64_t* outputs, size_t nout,
                    const uint8_t* differentiable, const uint64_t* saved,
                    size_t nsaved); /* GS_TENSORS: the outputs with a history; n = 0: nothing requires grad */
  gs_result (*hook)(uint64_t h, uint64_t id); /* w[0] = its position */
  gs_result (*unhook)(uint64_t h, uint64_t position);

  /* Precision, switches, measurement. */
  gs_result (*autocast_enter)(int device_type, int on, int dtype); /* w[0] = what leave wants */
  gs_result (*autocast_leave)(int device_type, uint64_t before);
  gs_result (*autocast_state)(int device_type); /* w[0] on, w[1] dtype */
  gs_result (*set_flag)(int which, int value);
  gs_result (*get_flag)(int which);
  gs_result (*profile_begin)(void);
  gs_result (*profile_end)(uint64_t handle); /* block: lines "operator\tcalls\tnanoseconds\tnanoseconds of its own" */

  /* Recorded steps: begin and end take down what operators are called on this thread, plan (after the step's handles
   * are released) makes it ready, replay runs it. A recording may be replayed from any thread, by one at a time. */
  gs_result (*record_begin)(uint64_t id, const uint64_t* inputs,
                            size_t n); /* GS_TENSORS: what the step reads instead of inputs */
  gs_result (*record_end)(const uint64_t* outputs, size_t n); /* w[0] = recording */
  void (*record_cancel)(void);
  void (*record_fail)(const char* why); /* record_end will fail with these words */
  uint64_t (*record_current)(
      int64_t* position); /* id of the recording under way on this thread, 0 = none; calls so far */
  gs_result (*record_plan)(uint64_t recording);
  gs_result (*record_outputs)(uint64_t recording); /* GS_TENSORS, which every replay overwrites */
  gs_result (*record_set)(uint64_t recording, uint64_t call, uint32_t argument, double value);
  gs_result (*replay)(
      uint64_t recording, const uint64_t* inputs, size_t n,
      uint32_t flags); /* w[0]: 0 ran, 1 inputs of another form, 2 what the step refers to has changed */
  gs_result (*record_text)(uint64_t recording); /* block: bytes of planned memory, then the calls, one a line */
  void (*record_free)(uint64_t recording);
  gs_result (*accumulated)(uint64_t h, uint64_t id); /* calls the function after .grad has changed; id 0 takes it off */
} gs_api;

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const gs_api* gospml_torch_api(uint32_t abi);

#ifdef __cplusplus
}
#endif
#endif
