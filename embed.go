// Package gospml is single-positive multi-label learning in Go over libtorch.
//
// This root package only carries the version and the C++ sources of the native libraries, so that `spml setup` can
// build them from an installed module (the module cache is read-only and has no build step). The work is in the
// packages below: torch (tensors), data (photos and labels), spml (methods), cmd/spml (the command).
package gospml

import "embed"

// Version is that of the module: the release that is being made, or was made last. docs/releases.md says when it moves.
const Version = "0.1.0"

// Sources holds CMakeLists.txt and every C, C++ and CUDA file that the native libraries are built from. The headers of
// the C tables lie beside the Go code that includes them: the go command looks for changes in a package's own folder
// alone.
//
//go:embed CMakeLists.txt torch/csrc data/csrc spml/csrc/*.* spml/csrc/loss spml/csrc/cuda/*.* cuda/csrc third_party/gloo third_party/cudalibs
//go:embed torch/internal/abi/*.h cuda/internal/abi/*.h data/pixel/*.h
var Sources embed.FS

// Licences holds this module's licence and those of what it carries, for bundles.
//
//go:embed LICENSE clip/tokenizer/LICENSE.openai clip/tokenizer/LICENSE.third-party.md
var Licences embed.FS
