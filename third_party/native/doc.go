// Package native finds, fetches and builds the native libraries: libtorch, libturbojpeg and the libraries made from
// this module's C++ sources.
//
// Finding ([FindTorch], [FindLib], [FindTurboJPEG], [Describe]) is cheap, reads only file names and small files, starts no
// program and downloads nothing. Fetching and building are what [Setup] does; the command `spml setup` calls it.
//
// What is fetched is fixed in libtorch.lock: each wheel with version, SHA-256, size and the members that are kept, in
// sets: "cpu" (libtorch with headers), "gpu" (what its CUDA part needs on top) and "nvcc" (a CUDA compiler).
//
// The per-user folder ([CacheDir]) holds
//
//	libtorch-2.11.0/        torch/{lib,include}, nvidia/cu13/lib: the wheels' own layout
//	libtorch-2.11.0.python  path of an accepted Python installation's torch, in place of the folder above
//	nvcc-13.0.88/           the "nvcc" set
//	lib/<BuildKey>/         libraries built from exactly the C++ sources in this program
//	setup.lock              held by the set-up that is running
//
// Every file arrives there by a rename from a temporary name beside it, after its hash or its build was checked, so a
// killed set-up leaves nothing half-used; the next one removes its remains and starts clean.
//
// All functions may be called from many goroutines and processes at once; set-ups wait for each other.
// Errors are one sentence each that names what to do next; a missing library wraps [ErrNotFound].
package native
