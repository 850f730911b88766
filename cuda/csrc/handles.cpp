// cuBLAS's and cuDNN's handles belong to a thread and cannot be made within a capture. Declared here, because their
// headers want the libraries' own.
namespace at::cuda {
void* getCurrentCUDABlasHandle();
void* getCurrentCUDABlasLtHandle();
} // namespace at::cuda
namespace at::native {
void* getCudnnHandle();
}

// Makes those of the calling thread and its current stream.
void gc_handles() {
  at::cuda::getCurrentCUDABlasHandle();
  at::cuda::getCurrentCUDABlasLtHandle();
  at::native::getCudnnHandle();
}
