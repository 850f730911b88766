package testroot

import (
	"os"
	"strconv"
	"testing"
)

// Nightly says whether tests run in their full form: GOSPML_NIGHTLY=1, which `.ci/nightly` sets. Without it a test
// whose full form takes long runs a small fixed part of it; docs/testing.md says which.
func Nightly() bool { return os.Getenv("GOSPML_NIGHTLY") == "1" }

// Part is all of it in the full form, and otherwise the elements whose name is one of those given, at least one each; a
// name that is not there fails the test.
func Part[T any](t testing.TB, all []T, name func(T) string, fixed ...string) []T {
	t.Helper()
	if Nightly() {
		return all
	}
	var out []T
	for _, want := range fixed {
		n := len(out)
		for _, x := range all {
			if name(x) == want {
				out = append(out, x)
			}
		}
		if len(out) == n {
			t.Fatalf("the fixed part names %q, which is not among the %d of the full form", want, len(all))
		}
	}
	return out
}

// Count is a number of repetitions: what the variable says, else full in the full form and short without.
func Count(t testing.TB, variable string, short, full int) int {
	t.Helper()
	text := os.Getenv(variable)
	switch {
	case text != "":
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s=%q: want a number from 1 on", variable, text)
		}
		return n
	case Nightly():
		return full
	}
	return short
}

// All says whether a test runs in its full form: the variable is "all", or the full form is asked for and the variable
// does not say "short".
func All(variable string) bool {
	text := os.Getenv(variable)
	return text == "all" || text != "short" && Nightly()
}
