package command

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/rundir"
)

// madeRun is a run directory as a run leaves it: epochs with these validation mAPs, done or not.
func madeRun(t *testing.T, dir, method, data string, seed uint32, done bool, vals ...float64) *rundir.Dir {
	c, err := config.Config{
		Data: config.Data{Path: data}, Method: config.Method{ID: method}, Model: config.Model{Backbone: "resnet18"},
		Run: config.Run{Seed: seed},
	}.Resolve()
	require.NoError(t, err)
	c.Schedule.Epochs = 5
	d := rundir.New(dir)
	started := time.Date(2026, 3, 1, 12, int(seed), 0, 0, time.UTC)
	require.NoError(t, d.Start(c, rundir.Environment{Started: started}))
	epochsOf(t, d, vals...)
	if done {
		require.NoError(t, d.JSON(rundir.ResultFile, rundir.Result{Stopped: "all epochs"}))
	}
	return d
}

func epochsOf(t *testing.T, d *rundir.Dir, vals ...float64) {
	var all []rundir.EpochRecord
	best := 0.0
	for i, v := range vals {
		all = append(all, rundir.EpochRecord{Epoch: i + 1, Loss: 1 / v, ValMAP: v, TestMAP: v - 1, Best: v > best,
			Seconds: 2})
		best = max(best, v)
	}
	require.NoError(t, d.Metrics(all))
}

// runFolder is a folder of five runs.
func runFolder(t *testing.T) string {
	dir := t.TempDir()
	photos := filepath.Join(dir, "photos")
	madeRun(t, filepath.Join(dir, "a"), "em", "shapes", 1, true, 40, 60, 50)
	madeRun(t, filepath.Join(dir, "cmp", "an", "1"), "an", "shapes", 2, false, 70)
	madeRun(t, filepath.Join(dir, "cmp", "an", "2"), "an", photos, 3, true, 30)
	madeRun(t, filepath.Join(dir, "none"), "gr", photos, 4, false)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "stage1"), 0o755))
	madeRun(t, filepath.Join(dir, "a", "stage1"), "an", photos, 5, true, 99)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bad"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad", rundir.SettingsFile), []byte("seed: [\n"), 0o644))
	return dir
}

// firstColumn are the names of a table's rows, without the folder.
func firstColumn(dir, table string) (out []string) {
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		out = append(out, strings.TrimPrefix(strings.Fields(line)[0], dir+string(filepath.Separator)))
	}
	return out
}

// TestRunsList: every run of a folder stands in the table once, in the order and of the kind that is asked for.
func TestRunsList(t *testing.T) {
	dir := runFolder(t)
	for args, want := range map[string]string{
		"":                                       "none cmp/an/2 cmp/an/1 a bad",
		"--sort name":                            "a bad cmp/an/1 cmp/an/2 none",
		"--sort name --reverse":                  "none cmp/an/2 cmp/an/1 bad a",
		"--sort val":                             "cmp/an/1 a cmp/an/2 bad none",
		"--sort val --filter state=done":         "a cmp/an/2",
		"--sort name --filter method=a*":         "cmp/an/1 cmp/an/2",
		"--sort name --filter method!=an,seed>0": "a none",
		"--sort name --filter val>59,val<61":     "a",
		"--sort name --filter data=photos":       "cmp/an/2 none",
		"--sort name --filter seed=3":            "cmp/an/2",
		"--best 1":                               "cmp/an/2 cmp/an/1",
	} {
		code, stdout, stderr := spml(t, nil, append([]string{"runs", "list", dir}, strings.Fields(args)...)...)
		require.Zero(t, code, stderr)
		require.Equal(t, want, strings.Join(firstColumn(dir, stdout), " "), "%q: %s", args, stdout)
	}
	code, stdout, stderr := spml(t, nil, "runs", "list", dir, "--sort", "name")
	require.Zero(t, code)
	require.Regexp(t, `/a +done +em +resnet18 +shapes +3/5 +60\.00 +59\.00 `, stdout)
	require.Regexp(t, `none +unfinished +gr +resnet18 +photos +0/5 +n/a +n/a `, stdout)
	require.Contains(t, stderr, filepath.Join("bad", rundir.SettingsFile))
	require.NotContains(t, stdout, "\x1b")

	code, stdout, _ = spml(t, nil, "runs", "list", dir, "--json", "--filter", "method=em")
	require.Zero(t, code)
	var rows []map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &rows))
	require.Len(t, rows, 1)
	require.Equal(t, 60.0, rows[0]["val_map"])
	require.Equal(t, 2.0, rows[0]["best"])
	code, stdout, _ = spml(t, nil, "runs", "list", dir, "--json", "--filter", "method=nothing")
	require.Zero(t, code)
	require.Equal(t, "[]", strings.TrimSpace(stdout))

	for args, words := range map[string]string{
		"--sort size2": "none of started, name", "--filter method": "no condition", "--filter seeds=3": "is it seed?",
		"--filter val>high": "no number", "--best -1": "want a number of runs",
	} {
		code, _, stderr := spml(t, nil, append([]string{"runs", "list", dir}, strings.Fields(args)...)...)
		require.Equal(t, exitUsage, code, args)
		require.Contains(t, stderr, words)
	}
	code, _, stderr = spml(t, nil, "runs", "list", filepath.Join(dir, "nowhere"))
	require.Equal(t, exitIO, code, stderr)
	code, _, stderr = spml(t, nil, "runs", "lst")
	require.Equal(t, exitCommand, code)
	require.Contains(t, stderr, "list")
}

// TestRunsDisk: the parts of a run are its whole, and links out of it do not count.
func TestRunsDisk(t *testing.T) {
	dir := runFolder(t)
	part := filepath.Join(dir, "none", "checkpoints", "last")
	require.NoError(t, os.MkdirAll(part, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(part, "state"), make([]byte, 3_000_000), 0o644))
	require.NoError(t, os.Symlink(filepath.Join(part, "state"), filepath.Join(dir, "a", "link")))
	code, stdout, stderr := spml(t, nil, "runs", "disk", dir)
	require.Zero(t, code, stderr)
	require.Equal(t, "none", firstColumn(dir, stdout)[0])
	require.Regexp(t, `none +3\.0 MB +0 kB +3\.0 MB `, stdout)
	code, stdout, _ = spml(t, nil, "runs", "disk", dir, "--json")
	require.Zero(t, code)
	var rows []diskRow
	require.NoError(t, json.Unmarshal([]byte(stdout), &rows))
	require.Len(t, rows, 5)
	for _, r := range rows {
		require.Equal(t, r.Bytes, r.Model+r.Checkpoints+r.Other, r.Dir)
	}
}

// answered runs the command with an answer on its standard input.
func answered(t *testing.T, answer string, args ...string) (int, string) {
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), "GOSPML_TEST_COMMAND=1")
	cmd.Stdin = strings.NewReader(answer)
	out, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestRunsDelete: nothing goes without an answer, nothing that is no run or is being written, and then all of it.
func TestRunsDelete(t *testing.T) {
	dir := runFolder(t)
	a, none := filepath.Join(dir, "a"), filepath.Join(dir, "none")
	for answer, want := range map[string]int{"": exitUsage, "n\n": exitOK, "\n": exitOK, "yess\n": exitOK} {
		code, out := answered(t, answer, "runs", "delete", a, none)
		require.Equal(t, want, code, out)
		require.Contains(t, out, "delete 2 runs")
		require.Contains(t, out, "nothing is deleted")
		require.DirExists(t, a)
	}
	lock, err := rundir.Lock(none, func(string) {})
	require.NoError(t, err)
	code, out := answered(t, "y\n", "runs", "delete", a, none)
	require.NotZero(t, code)
	require.Contains(t, out, "is being written")
	require.DirExists(t, a, "all or none")
	code, stdout, _ := spml(t, nil, "runs", "list", dir, "--filter", "state=running")
	require.Zero(t, code)
	require.Equal(t, []string{"none"}, firstColumn(dir, stdout))
	require.NoError(t, lock.Close())

	code, out = answered(t, "", "runs", "delete", "--yes", a, dir)
	require.NotZero(t, code)
	require.Contains(t, out, "is no run directory")
	require.DirExists(t, a)
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(a, link))
	code, out = answered(t, "", "runs", "delete", "--yes", link)
	require.NotZero(t, code, out)
	require.DirExists(t, a)

	code, out = answered(t, "y\n", "runs", "delete", a, none)
	require.Zero(t, code, out)
	require.NoDirExists(t, a)
	require.NoDirExists(t, none)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3, "bad, cmp, the link")
}

// TestWatch: runs stand side by side while they go on, and the command ends with the last of them.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	one, two := madeRun(t, a, "em", "shapes", 1, false, 40), madeRun(t, b, "an", "shapes", 2, false, 30)
	lock, err := rundir.Lock(a, func(string) {})
	require.NoError(t, err)
	other, err := rundir.Lock(b, func(string) {})
	require.NoError(t, err)
	t.Chdir(dir)
	x := onTerminal(t, 100, []string{"GOSPML_TEST_COMMAND=1"}, nil, "watch", "a", "b", "--every", "100ms")
	shows := func(pattern string) {
		require.Eventually(t, func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			return len(regexpRows(pattern, x.rows())) == 1
		}, 20*time.Second, 20*time.Millisecond, pattern)
	}
	shows(`^a +running +1/5 +0\.02500 +40\.00 +40\.00 at 1 +8s +█`)
	shows(`^b +running +1/5`)
	epochsOf(t, one, 40, 50, 45)
	shows(`^a +running +3/5 +0\.02222 +45\.00 +50\.00 at 2 +4s +▁█▄`)
	require.NoError(t, one.JSON(rundir.ResultFile, rundir.Result{}))
	require.NoError(t, lock.Close())
	shows(`^a +done +3/5`)
	epochsOf(t, two, 30, 35)
	require.NoError(t, other.Close())
	<-x.done
	shows(`^b +unfinished +2/5 `)
	shows(`^run +state `)

	code, stdout, stderr := spml(t, nil, "watch", "a", "b")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "a  epoch 2/5  loss 0.020000  val mAP 50.00  test mAP 49.00\n")
	require.Contains(t, stdout, "b  unfinished at epoch 2/5, val mAP 35.00, test mAP 34.00\n")
	code, _, stderr = spml(t, nil, "watch", "nowhere")
	require.Equal(t, exitIO, code)
	require.Contains(t, stderr, "nowhere is no run directory")
	code, _, stderr = spml(t, nil, "watch")
	require.Equal(t, exitIO, code)
	require.Contains(t, stderr, "no folder runs here")
}

func regexpRows(pattern string, rows []string) (out []string) {
	re := regexp.MustCompile(pattern)
	for _, r := range rows {
		if re.MatchString(r) {
			out = append(out, r)
		}
	}
	return out
}
