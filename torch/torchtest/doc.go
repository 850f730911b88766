// Package torchtest holds the checks that tests of tensor code share: gradients against differences (Gradcheck,
// Gradgradcheck), tensors that outlive a test (NoLeaks), closeness with the worst element named (AllClose), and golden
// values from files (Golden, Array). Device is a device that is not the CPU, to test where code puts its tensors.
//
// Every check takes a testing.TB and reports through it. Tensor maths that panics inside a checked function fails the
// test with libtorch's words. The checks make tensors of their own and free them; they may be called from any test
// goroutine, but NoLeaks counts the whole process and must not be used in tests that run in parallel with others.
package torchtest
