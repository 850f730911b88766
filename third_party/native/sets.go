package native

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/cpu"
)

// GOSPML_NATIVE=1 compiles the kernels of the fused losses for this processor's instruction set alone, which is a third
// of the work after an edit. It is part of the libraries' key, so programs need it too.

func checkNative() error {
	if v := os.Getenv("GOSPML_NATIVE"); v != "" && v != "0" && v != "1" {
		return fmt.Errorf("GOSPML_NATIVE is %q: want 1 for this processor's instruction set alone, or unset it for all", v)
	}
	return nil
}

// allSets are the instruction sets that CMakeLists.txt knows, the best first.
func allSets() []string {
	if runtime.GOARCH == "amd64" {
		return []string{"avx512", "avx2", "generic"}
	}
	return []string{"generic"}
}

// nativeSet is the one that GOSPML_NATIVE=1 asks for, chosen as the library does; "" without it.
func nativeSet() string {
	if os.Getenv("GOSPML_NATIVE") != "1" || runtime.GOARCH != "amd64" {
		return ""
	}
	x := cpu.X86
	avx2 := x.HasAVX2 && x.HasFMA
	switch {
	case avx2 && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL:
		return "avx512"
	case avx2:
		return "avx2"
	}
	return "generic"
}

// kernelSets are those that a build compiles.
func kernelSets() []string {
	if s := nativeSet(); s != "" {
		return []string{s}
	}
	return allSets()
}
