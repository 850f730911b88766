// Package gpucheck tests the script that runs on a machine with a GPU (.ci/gpu-run.sh) where there is none: with
// programs that stand for the bundle's.
package gpucheck
