package cuda

import "fmt"

// Architectures are the cards that the CUDA libraries of this module hold machine code for, as 10·major + minor of the
// compute capability. For newer ones the driver compiles the PTX of the last.
var Architectures = []int{75, 80, 90}

// Code says how the kernels of this module run on a card of a compute capability; false: not at all, and the composed
// forms take their place.
func Code(major, minor int) (how string, ok bool) {
	best := 0
	for _, a := range Architectures {
		if a/10 == major && a%10 <= minor {
			best = a
		}
	}
	last := Architectures[len(Architectures)-1]
	switch {
	case best > 0:
		return fmt.Sprintf("machine code of sm_%d", best), true
	case 10*major+minor > last:
		return fmt.Sprintf("PTX of compute_%d, which the driver compiles once", last), true
	}
	return fmt.Sprintf("no kernels: they want compute capability %d.%d", Architectures[0]/10, Architectures[0]%10), false
}

// String is the card in a line: name, memory, compute capability, how the kernels run.
func (p Properties) String() string {
	how, _ := Code(p.Major, p.Minor)
	return fmt.Sprintf("%s, %.1f GB, compute capability %d.%d (%s)", p.Name, float64(p.TotalMemory)/1e9, p.Major,
		p.Minor, how)
}
