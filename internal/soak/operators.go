package main

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gospml/gospml/torch"
)

// upstream are operators whose kernels in libtorch end the process, or do not end, on extreme arguments.
// AdaptiveMaxPool2d counts through an output of 2⁶³ - 1 rows without a column, Bincount fills as many bins as it is
// told.
var upstream = []string{"RandomFrom_", "RandomTo_", "Random_", "LinalgMatrixPower", "MatrixPower", "AdaptiveMaxPool2d", "Bincount"}

// notOperators manage tensors and are no operators of libtorch.
var notOperators = []string{"Free", "Backward", "Grad", "SetGrad", "OnGrad", "OnAccumulate", "Retain", "Keep", "RequiresGrad", "SetRequiresGrad"}

// operatorTime is how long one call may take.
const operatorTime = 20 * time.Second

// operators calls typed operators with arguments of all kinds in processes of their own: an error is right, a death or
// an endless call is not.
func operators(j *job) error {
	calls, refused, children := 0, 0, 0
	for n := 0; n == 0 || !j.over(); n++ {
		seconds := min(20, max(3, time.Until(j.end).Seconds()))
		cmd := exec.Command(self(), strconv.FormatUint(j.random.Uint64(), 10), fmt.Sprint(seconds))
		cmd.Env = append(os.Environ(), mode+"=operators", "OMP_NUM_THREADS=1")
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		children++
		lines := make(chan string, 64)
		go func() {
			defer close(lines)
			for s := bufio.NewScanner(out); s.Scan(); {
				lines <- s.Text()
			}
		}()
		last, hung := "", false
		for open := true; open; {
			var line string
			select {
			case line, open = <-lines:
				if open {
					last = line
				}
			case <-time.After(operatorTime):
				hung, open = true, false
				_ = cmd.Process.Kill()
			}
		}
		for range lines { // what a killed child had said
		}
		err = cmd.Wait()
		var c, r int
		_, no := fmt.Sscanf(last, "done %d %d", &c, &r)
		switch {
		case hung:
			j.lose("%s takes over %v", last, operatorTime)
		case err != nil || no != nil:
			j.lose("%s ended the process: %v: %s", last, err, tail(errs.String(), 1500))
		}
		calls, refused = calls+c, refused+r
	}
	j.did("%d calls of typed operators, %d refused with an error, %d processes; known upstream deaths left out: %s", calls, refused, children, strings.Join(upstream, ", "))
	return nil
}

func operatorsChild() int {
	seed, _ := strconv.ParseUint(os.Args[1], 10, 64)
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	const space = 8 << 30 // addresses: an operator that asks for more gets an error
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: space, Max: space}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	random := rand.New(rand.NewPCG(seed, 2))
	tensor := reflect.TypeFor[*torch.Tensor]()
	var names []string
	for i := range tensor.NumMethod() {
		m := tensor.Method(i)
		if !slices.Contains(upstream, m.Name) && !slices.Contains(notOperators, m.Name) && len(m.Name) > 2 && drawable(m.Type) {
			names = append(names, m.Name)
		}
	}
	calls, refused := 0, 0
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for time.Now().Before(end) {
		torch.Scope(func(*torch.Arena) {
			m, _ := tensor.MethodByName(names[random.IntN(len(names))])
			args := make([]reflect.Value, m.Type.NumIn())
			shown := make([]string, len(args))
			for k := range args {
				args[k] = draws(random, m.Type.In(k))
				shown[k] = show(args[k])
			}
			fmt.Println(m.Name, strings.Join(shown, " ")) // before the call: it may be the last
			call := m.Func.Call
			if m.Type.IsVariadic() {
				call = m.Func.CallSlice
			}
			if torch.Try(func() { call(args) }) != nil {
				refused++
			}
		})
		calls++
	}
	fmt.Println("done", calls, refused)
	return 0
}

// drawable says whether draws knows every parameter, and the operator gives a tensor or a number.
func drawable(f reflect.Type) bool {
	if f.NumOut() == 0 {
		return false
	}
	for k := range f.NumIn() {
		switch t := f.In(k); {
		case t == reflect.TypeFor[*torch.Tensor](), t == reflect.TypeFor[[]*torch.Tensor](), t == reflect.TypeFor[torch.DType]():
		case t.Kind() == reflect.Int, t.Kind() == reflect.Float64, t.Kind() == reflect.Bool, t.Kind() == reflect.String:
		case t.Kind() == reflect.Slice && (t.Elem().Kind() == reflect.Int || t.Elem().Kind() == reflect.Float64 || t.Elem().Kind() == reflect.Bool):
		default:
			return false
		}
	}
	return true
}

// draws gives an argument: mostly plausible, at times extreme.
func draws(r *rand.Rand, t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch {
	case t == reflect.TypeFor[*torch.Tensor]():
		v.Set(reflect.ValueOf(someTensor(r)))
	case t == reflect.TypeFor[torch.DType]():
		v.Set(reflect.ValueOf([]torch.DType{torch.Float32, torch.Float64, torch.Int64, torch.Bool}[r.IntN(4)]))
	case t.Kind() == reflect.Slice:
		n := r.IntN(4)
		v.Set(reflect.MakeSlice(t, n, n))
		for i := range n {
			v.Index(i).Set(draws(r, t.Elem()))
		}
	case t.Kind() == reflect.Int:
		x := int64(r.IntN(5) - 1)
		if r.IntN(8) == 0 {
			x = []int64{-7, 64, 1 << 20, 1<<31 - 1, -1 << 31, math.MaxInt64, math.MinInt64}[r.IntN(7)]
		}
		v.SetInt(x)
	case t.Kind() == reflect.Float64:
		x := r.NormFloat64()
		if r.IntN(6) == 0 {
			x = []float64{0, 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e308}[r.IntN(7)]
		}
		v.SetFloat(x)
	case t.Kind() == reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case t.Kind() == reflect.String:
		v.SetString([]string{"", "mean", "sum", "none", "floor", "trunc", "nonsense"}[r.IntN(7)])
	}
	return v
}

func someTensor(r *rand.Rand) *torch.Tensor {
	shape := make([]int, r.IntN(5))
	for i := range shape {
		shape[i] = r.IntN(5)
	}
	x := torch.Randn(torch.S(shape...), torch.Float32)
	switch r.IntN(6) {
	case 0:
		return x.MulScalar(10).ToDType(torch.Int64)
	case 1:
		return x.ToDType(torch.Float64)
	case 2:
		return x.GeScalar(0)
	}
	return x
}

func show(v reflect.Value) string {
	if t, ok := v.Interface().(*torch.Tensor); ok {
		return fmt.Sprintf("%v%v", t.DType(), t.Shape())
	}
	if list, ok := v.Interface().([]*torch.Tensor); ok {
		s := make([]string, len(list))
		for i, t := range list {
			s[i] = fmt.Sprintf("%v%v", t.DType(), t.Shape())
		}
		return fmt.Sprint(s)
	}
	return fmt.Sprint(v.Interface())
}
