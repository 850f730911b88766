package dist

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gospml/gospml/internal/hook"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
	"github.com/stretchr/testify/require"
)

// The test program starts itself as the processes of a group: worker names what they do.
const workerVariable = "GOSPML_DIST_WORKER"

func TestMain(m *testing.M) {
	name := os.Getenv(workerVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	torch.SetNumThreads(1)
	Main(func() error { return workers[name](os.Getenv("GOSPML_DIST_DIR")) })
}

// process is one of a group.
type process struct {
	cmd    *exec.Cmd
	out    bytes.Buffer
	report string // the launcher's error file
}

// launch starts size processes as torchrun would. With agent this process hosts their store.
func launch(t *testing.T, ctx context.Context, worker, dir string, size int, agent bool) []*process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	store, err := NewTCPStore("127.0.0.1", 0, true, 0, time.Minute)
	require.NoError(t, err)
	if agent {
		t.Cleanup(func() { store.Close() })
	} else {
		require.NoError(t, store.Close()) // its port is free now
	}
	var ps []*process
	for rank := range size {
		p := &process{report: filepath.Join(dir, fmt.Sprintf("error-%d.json", rank))}
		p.cmd = exec.CommandContext(ctx, self, "-test.run=^$")
		p.cmd.Env = append(os.Environ(), workerVariable+"="+worker, "GOSPML_DIST_DIR="+dir,
			fmt.Sprint("RANK=", rank), fmt.Sprint("LOCAL_RANK=", rank), fmt.Sprint("WORLD_SIZE=", size), fmt.Sprint("LOCAL_WORLD_SIZE=", size),
			"MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", store.Port()), "TORCHELASTIC_RUN_ID=test", "OMP_NUM_THREADS=1",
			"TORCHELASTIC_ERROR_FILE="+p.report)
		if agent {
			p.cmd.Env = append(p.cmd.Env, "TORCHELASTIC_USE_AGENT_STORE=True")
		}
		p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
		require.NoError(t, p.cmd.Start())
		t.Cleanup(func() { p.cmd.Process.Kill() })
		ps = append(ps, p)
	}
	return ps
}

// succeed runs a group to its end.
func succeed(t *testing.T, worker string, size int, agent bool) (dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir = t.TempDir()
	for rank, p := range launch(t, ctx, worker, dir, size, agent) {
		require.NoError(t, p.cmd.Wait(), "rank %d: %s", rank, &p.out)
	}
	return dir
}

// join is what a worker begins with.
func join(o Options) (*Group, error) {
	env, err := FromEnv()
	if err != nil {
		return nil, err
	}
	return Init(env, o)
}

var workers = map[string]func(dir string) error{
	"collectives": collectives,
	"attach":      attach,
	"ddp":         func(dir string) error { return trainRank(dir, DDPOptions{FirstBucketBytes: 256, BucketBytes: 1024}) },
	"unused":      unused,
	"killed":      killed,
	"late":        late,
	"other model": otherModel,
	"panic":       func(string) error { panic("the sky fell") },
}

func expect(what string, got, want any) error {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}

// TestAttach: processes that compute on devices of different kinds, or of which one lacks what joins the devices, all
// get an error that says so.
func TestAttach(t *testing.T) { succeed(t, "attach", 2, true) }

func attach(string) error {
	g, err := join(Options{Timeout: 30 * time.Second})
	if err != nil {
		return err
	}
	defer g.Close()
	r := g.Rank()
	for _, c := range []struct {
		on   [2]torch.DeviceType
		want [2]string
	}{
		{[2]torch.DeviceType{torch.DeviceCPU, torch.DeviceCPU}, [2]string{"<nil>", "<nil>"}},
		{[2]torch.DeviceType{torch.DeviceCUDA, torch.DeviceCUDA}, [2]string{"import package cuda", "import package cuda"}},
		{
			[2]torch.DeviceType{torch.DeviceMeta, torch.DeviceCPU},
			[2]string{"nothing to join devices of the type meta", "it computes on cpu, rank 0 on meta"},
		},
	} {
		if got := fmt.Sprint(g.Attach(c.on[r])); !strings.Contains(got, c.want[r]) {
			return fmt.Errorf("rank %d on %v: got %q, want %q", r, c.on, got, c.want[r])
		}
	}
	join := func(_, _ uint64, rank, _ int, _ time.Duration) error {
		if rank == 0 {
			return errors.New("there is no wire")
		}
		return nil
	}
	hook.Collectives[int(torch.DeviceMeta)] = hook.Collective{Name: "a test's", Attach: join}
	want := []string{"a test's: there is no wire", "rank 0 could not; its error says why"}[r]
	if got := fmt.Sprint(g.Attach(torch.DeviceMeta)); !strings.Contains(got, want) {
		return fmt.Errorf("rank %d: got %q, want %q", r, got, want)
	}
	one := torch.FromSlice([]float32{1})
	if err := g.AllReduce(one, Sum); err != nil {
		return err
	}
	return expect("the group goes on", one.Item(), 2)
}

func collectives(string) error {
	g, err := join(Options{Timeout: 30 * time.Second})
	if err != nil {
		return err
	}
	defer g.Close()
	r, n := g.Rank(), g.Size()
	vector := func() *torch.Tensor { return torch.FromSlice([]float32{float32(r + 1), float32(-r)}, 2) }
	sum, product, low, high := 0, 1, 1, n
	for i := range n {
		sum += i + 1
		product *= i + 1
	}
	var errs []error
	for _, c := range []struct {
		op   Op
		want int
	}{{Sum, sum}, {Product, product}, {Min, low}, {Max, high}} { // in the same order on every rank
		t := vector()
		if err := g.AllReduce(t, c.op); err != nil {
			return err
		}
		errs = append(errs, expect(fmt.Sprint("reduction ", c.op), torch.ToSlice[float32](t)[0], c.want))
	}
	t := vector()
	if err := g.Broadcast(t, n-1); err != nil {
		return err
	}
	errs = append(errs, expect("broadcast", torch.ToSlice[float32](t), []int{n, 1 - n}))

	all, err := g.AllGather(torch.FromSlice([]int64{int64(10 * r)}, 1))
	if err != nil {
		return err
	}
	for i, t := range all {
		errs = append(errs, expect("gathered", torch.ToSlice[int64](t), []int{10 * i}))
	}
	var parts []*torch.Tensor
	for i := range n {
		parts = append(parts, torch.FromSlice([]float64{float64(100*i + r)}, 1))
	}
	out := torch.FromSlice([]float64{0}, 1)
	if err := g.ReduceScatter(out, parts, Sum); err != nil {
		return err
	}
	errs = append(errs, expect("scattered", torch.ToSlice[float64](out), []int{100*r*n + sum - n}))

	// Several at once.
	var ws []*Work
	var ts []*torch.Tensor
	for i := range 8 {
		t := torch.Full([]int{1000}, float64(i+r))
		w, err := g.StartAllReduce(t, Sum)
		if err != nil {
			return err
		}
		ws, ts = append(ws, w), append(ts, t)
	}
	for i, w := range ws {
		if err := w.Wait(); err != nil {
			return err
		}
		errs = append(errs, w.Wait(), expect("one of several", torch.ToSlice[float32](ts[i])[999], n*i+sum-n))
	}

	// Wrong calls are refused here, before anybody waits for them.
	freed := vector()
	freed.Free()
	if err := g.AllReduce(freed, Sum); !errors.Is(err, torch.ErrHandle) {
		errs = append(errs, fmt.Errorf("a freed tensor: %v", err))
	}
	if err := g.Broadcast(t, n); err == nil || !strings.Contains(err.Error(), fmt.Sprint("there is no rank ", n)) {
		errs = append(errs, fmt.Errorf("no such root: %v", err))
	}
	if err := g.ReduceScatter(out, nil, Sum); err == nil {
		errs = append(errs, errors.New("no parts"))
	}
	if err := g.Barrier(); err != nil {
		return err
	}
	return errors.Join(errs...)
}

func TestCollectives(t *testing.T) {
	require.NoError(t, torch.Available())
	succeed(t, "collectives", 2, true)
	succeed(t, "collectives", 4, false)
}

// network is a small classifier whose weights depend on the seed.
type network struct {
	First, Second, Third *nn.Linear
}

func newNetwork(seed int64) *network {
	g := torch.NewGenerator(seed)
	return &network{nn.NewLinear(12, 40, nn.Generator(g)), nn.NewLinear(40, 24, nn.Generator(g)), nn.NewLinear(24, 5, nn.Generator(g))}
}

func (n *network) loss(x, y *torch.Tensor) *torch.Tensor {
	h := n.Second.Forward(n.First.Forward(x).Relu()).Tanh()
	return n.Third.Forward(h).BinaryCrossEntropyWithLogits(y, nil, nil, torch.ReductionMean)
}

const (
	steps = 20
	batch = 16
)

// examples are the whole batch of a step, the same in every process.
func examples(step int) (x, y *torch.Tensor) {
	g := torch.NewGenerator(int64(1000 + step))
	x = torch.Randn([]int{batch, 12}, g)
	y = torch.Rand([]int{batch, 5}, g).GtScalar(0.6).ToDType(torch.Float32)
	return x, y
}

// trainRank trains on this rank's part of each batch and writes the weights.
func trainRank(dir string, o DDPOptions) error {
	g, err := join(Options{Timeout: 30 * time.Second})
	if err != nil {
		return err
	}
	defer g.Close()
	net := newNetwork(int64(7 + g.Rank())) // rank 0's weights must win
	ddp, err := NewDDP(g, net, o)
	if err != nil {
		return err
	}
	defer ddp.Close()
	if ddp.Buckets() < 3 {
		return fmt.Errorf("%d buckets, several are wanted", ddp.Buckets())
	}
	sgd := optim.NewSGD(nn.Parameters(net), optim.LR(2))
	part := batch / g.Size()
	for step := range steps {
		x, y := examples(step)
		loss := net.loss(x.Narrow(0, g.Rank()*part, part), y.Narrow(0, g.Rank()*part, part))
		if err := ddp.Prepare(loss); err != nil {
			return err
		}
		if err := torch.Try(func() { loss.Backward() }); err != nil {
			return err
		}
		sgd.Step()
		sgd.ZeroGrad()
	}
	if err := nn.SaveSafetensors(filepath.Join(dir, fmt.Sprintf("rank%d.safetensors", g.Rank())), nn.StateDictOf(net), nil); err != nil {
		return err
	}
	return g.Barrier()
}

// TestDDPEqualsOneProcess: the weights after 20 steps are those of one process that sees the whole batch.
func TestDDPEqualsOneProcess(t *testing.T) {
	require.NoError(t, torch.Available())
	net := newNetwork(7)
	start := nn.StateDictOf(net).Clone()
	sgd := optim.NewSGD(nn.Parameters(net), optim.LR(2))
	for step := range steps {
		x, y := examples(step)
		net.loss(x, y).Backward()
		sgd.Step()
		sgd.ZeroGrad()
	}
	want := nn.StateDictOf(net)
	for _, size := range []int{2, 4} {
		dir := succeed(t, "ddp", size, size == 2)
		for rank := range size {
			got, _, err := nn.LoadSafetensors(filepath.Join(dir, fmt.Sprintf("rank%d.safetensors", rank)))
			require.NoError(t, err)
			for key, w := range want {
				far := w.Sub(start[key]).Abs().Max().Item()
				require.Greater(t, far, 0.02, "%s has moved", key)
				require.LessOrEqual(t, w.Sub(got[key]).Abs().Max().Item(), 1e-6, "%d processes, rank %d, %s", size, rank, key)
			}
		}
	}
}

// unused trains a network of which each rank leaves out another layer.
func unused(string) error {
	g, err := join(Options{Timeout: 30 * time.Second})
	if err != nil {
		return err
	}
	defer g.Close()
	net := newNetwork(1)
	ddp, err := NewDDP(g, net, DDPOptions{FindUnused: true})
	if err != nil {
		return err
	}
	defer ddp.Close()
	for range 3 {
		x := torch.Ones([]int{2, 12})
		loss := net.First.Forward(x).Sum()
		if g.Rank() == 1 {
			loss = net.Second.Forward(torch.Ones([]int{2, 40})).Sum()
		}
		if err := ddp.Prepare(loss); err != nil {
			return err
		}
		if err := torch.Try(func() { loss.Backward() }); err != nil {
			return err
		}
		// Each bias has gradient 2 on one rank and none on the other.
		for _, b := range []*torch.Tensor{net.First.Bias, net.Second.Bias} {
			if err := expect("bias gradient", torch.ToSlice[float32](b.Grad())[0], 1); err != nil {
				return err
			}
		}
		torch.ZeroGrad(nn.Parameters(net), false)
	}
	return g.Barrier()
}

func TestUnusedParameters(t *testing.T) {
	require.NoError(t, torch.Available())
	succeed(t, "unused", 2, true)
}

// killed: rank 1 dies in the middle of a step.
func killed(string) error {
	g, err := join(Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	t := torch.Ones([]int{10})
	for step := range 100 {
		if step == 3 && g.Rank() == 1 {
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				return err
			}
		}
		if err := g.AllReduce(t, Sum); err != nil {
			return err
		}
	}
	return errors.New("nobody noticed")
}

// errorFile is torchrun's format.
func errorFile(t *testing.T, p *process) string {
	t.Helper()
	text, err := os.ReadFile(p.report)
	require.NoError(t, err)
	var f struct {
		Message struct {
			Message string
			Extra   struct{ Timestamp string } `json:"extraInfo"`
		}
	}
	require.NoError(t, json.Unmarshal(text, &f))
	require.NotEmpty(t, f.Message.Extra.Timestamp)
	return f.Message.Message
}

// TestKilledWorkerEndsTheOthers: within 10 seconds, though operations may take a minute, and torchrun is told why.
func TestKilledWorkerEndsTheOthers(t *testing.T) {
	require.NoError(t, torch.Available())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ps := launch(t, ctx, "killed", t.TempDir(), 4, true)
	require.Error(t, ps[1].cmd.Wait())
	require.NoFileExists(t, ps[1].report)
	ended := make(chan int)
	for _, rank := range []int{0, 2, 3} {
		go func() {
			ps[rank].cmd.Wait()
			ended <- rank
		}()
	}
	limit := time.After(10 * time.Second)
	for range 3 {
		select {
		case <-ended:
		case <-limit:
			t.Fatal("a process still runs 10 s after another was killed")
		}
	}
	for _, rank := range []int{0, 2, 3} {
		require.Equal(t, ExitCode, ps[rank].cmd.ProcessState.ExitCode(), "rank %d: %s", rank, &ps[rank].out)
		require.Contains(t, errorFile(t, ps[rank]), fmt.Sprintf("all-reduce on rank %d of 4: another process has ended", rank))
	}
}

// late: rank 1 does not come.
func late(dir string) error {
	g, err := join(Options{Timeout: 20 * time.Second})
	if err != nil {
		return err
	}
	if err := g.SetTimeout(time.Second); err != nil {
		return err
	}
	if g.Rank() == 1 {
		for { // until rank 0 has given up
			if _, err := os.Stat(filepath.Join(dir, "error-0.json")); err == nil {
				return nil
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	err = g.AllReduce(torch.Ones([]int{10}), Sum)
	var e *Error
	if !errors.As(err, &e) || !e.Timeout() {
		return fmt.Errorf("no timeout: %w", err)
	}
	return err
}

func TestTimeout(t *testing.T) {
	require.NoError(t, torch.Available())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ps := launch(t, ctx, "late", t.TempDir(), 2, true)
	require.Error(t, ps[0].cmd.Wait())
	require.NoError(t, ps[1].cmd.Wait(), &ps[1].out)
	require.Contains(t, errorFile(t, ps[0]), "all-reduce on rank 0 of 2: another process did not come in time")
}

// otherModel: the ranks have different networks.
func otherModel(string) error {
	g, err := join(Options{Timeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer g.Close()
	_, err = NewDDP(g, nn.NewLinear(3+g.Rank(), 2), DDPOptions{})
	return err
}

func TestOtherModelIsRefused(t *testing.T) {
	require.NoError(t, torch.Available())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ps := launch(t, ctx, "other model", t.TempDir(), 2, true)
	for rank, p := range ps {
		require.Error(t, p.cmd.Wait())
		require.Contains(t, errorFile(t, p), fmt.Sprintf("DDP on rank %d of 2", rank))
	}
	require.Contains(t, ps[0].out.String()+ps[1].out.String(), "appears not to match sizes")
}

func TestMainReports(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := launch(t, ctx, "panic", t.TempDir(), 1, true)[0]
	require.Error(t, p.cmd.Wait())
	require.Equal(t, ExitCode, p.cmd.ProcessState.ExitCode())
	require.Equal(t, "panic: the sky fell", errorFile(t, p))
	require.Contains(t, p.out.String(), "dist_test.go", "the stack")
}

func TestStore(t *testing.T) {
	require.NoError(t, torch.Available())
	s, err := NewTCPStore("127.0.0.1", 0, true, 0, 10*time.Second)
	require.NoError(t, err)
	defer s.Close()
	require.NotZero(t, s.Port())
	c, err := NewTCPStore("127.0.0.1", s.Port(), false, 0, 10*time.Second)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, s.Set("k", []byte{0, 255, 1}))
	v, err := c.Get("k", time.Second)
	require.NoError(t, err)
	require.Equal(t, []byte{0, 255, 1}, v)
	n, err := c.Add("n", 5)
	require.NoError(t, err)
	require.EqualValues(t, 5, n)
	n, err = s.Add("n", -2)
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
	view, err := c.WithPrefix("p")
	require.NoError(t, err)
	require.NoError(t, view.Set("k", nil))
	v, err = view.Get("k", time.Second)
	require.NoError(t, err)
	require.Empty(t, v)
	was, err := c.Delete("k")
	require.NoError(t, err)
	require.True(t, was)
	_, err = c.Get("k", 100*time.Millisecond)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.True(t, e.Timeout(), err)
	require.ErrorContains(t, err, `dist: getting "k" from the store: another process did not come in time`)
	require.NoError(t, view.Close())
	require.NoError(t, view.Close())
	require.Error(t, view.Set("k", nil), "it is closed")

	_, err = NewTCPStore("127.0.0.1", 70000, false, 0, time.Second)
	require.ErrorContains(t, err, "is not in 0 to 65535")
	_, err = NewGroup(s, 2, 2, Options{})
	require.ErrorContains(t, err, "rank 2 is not among 2")
	_, err = NewGroup(s, 0, 1, Options{Backend: "mpi"})
	require.ErrorContains(t, err, "gloo and nccl are known")
	_, err = NewGroup(s, 0, 1, Options{Backend: "nccl"})
	require.ErrorContains(t, err, "NCCL needs the CUDA library")
}
