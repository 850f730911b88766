package command

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain runs the command itself when a test starts this binary again.
func TestMain(m *testing.M) {
	if os.Getenv("GOSPML_TEST_COMMAND") == "1" {
		breakDisk(os.Getenv("GOSPML_TEST_DISK"))
		Main()
	}
	if label, ok := os.LookupEnv("GOSPML_TEST_PROGRESS"); ok {
		showProgress(strings.TrimPrefix(label, " "))
		os.Exit(0)
	}
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		panic("this binary was started as the command without GOSPML_TEST_COMMAND=1: it would run its tests again, and those start it again")
	}
	os.Exit(m.Run())
}

// spml runs the command in a process of its own and returns its exit code and outputs.
func spml(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, args...)
	cmd.Env = append(append(os.Environ(), "GOSPML_TEST_COMMAND=1"), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		exit, ok := err.(*exec.ExitError)
		require.True(t, ok, err)
		code = exit.ExitCode()
	}
	return code, out.String(), errs.String()
}

// dataFolder is a CSV data set of two PNG pictures, the second of which is missing on request.
func dataFolder(t *testing.T, missing bool) string {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "images"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "labels.csv"), []byte("filename,cat,dog\na.png,1,0\nb.png,0,1\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "images", "a.png"), bomb(1, 1), 0o644))
	if !missing {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "images", "b.png"), bomb(1, 1), 0o644))
	}
	return dir
}

// bomb is a PNG whose header promises w×h pixels and that ends there.
func bomb(w, h uint32) []byte {
	b := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
	b = binary.BigEndian.AppendUint32(b, w)
	b = binary.BigEndian.AppendUint32(b, h)
	b = append(b, 1, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[12:]))
}

func TestExitCodes(t *testing.T) {
	data := dataFolder(t, false)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o644))
	cut := filepath.Join(t.TempDir(), "cut.safetensors")
	header := `{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}`
	require.NoError(t, os.WriteFile(cut, append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header+"1234"...), 0o644))
	for name, tc := range map[string]struct {
		env  []string
		args []string
		code int
		want string
	}{
		"no command":        {nil, []string{}, exitOK, ""},
		"unknown command":   {nil, []string{"trian"}, exitCommand, `did you mean "train"?`},
		"unknown flag":      {nil, []string{"train", "--metod", "an"}, exitUsage, "unknown flag: --metod"},
		"no data":           {nil, []string{"train", "--method", "an"}, exitUsage, "no data set"},
		"unknown method":    {nil, []string{"train", "--data", data, "--method", "x"}, exitUsage, "there are"},
		"no photo":          {nil, []string{"predict", "run"}, exitUsage, "wants photos, --data PATH or --part NAME"},
		"no run":            {nil, []string{"eval", filepath.Join(data, "none")}, exitIO, "is no run directory"},
		"missing image":     {nil, []string{"train", "--data", dataFolder(t, true), "--method", "an", "--backbone", "small_cnn"}, exitData, "b.png"},
		"unwritable run":    {nil, []string{"train", "--data", data, "--method", "an", "--run", filepath.Join(file, "run")}, exitIO, "cannot be made"},
		"truncated weights": {nil, []string{"train", "--data", data, "--method", "an", "--weights", cut}, exitData, "cut.safetensors"},
		"no library":        {[]string{"GOSPML_LIB=" + t.TempDir()}, []string{"train", "--data", data, "--method", "an"}, exitMissing, "spml setup"},
		"no libtorch":       {[]string{"LIBTORCH=" + t.TempDir()}, []string{"train", "--data", data, "--method", "an"}, exitMissing, "LIBTORCH"},
		"unwell":            {[]string{"GOSPML_LIB=" + t.TempDir()}, []string{"doctor"}, exitMissing, "not everything is in place"},
		"bad progress":      {nil, []string{"train", "--data", data, "--method", "an", "--progress", "loud"}, exitUsage, "--progress"},
		"bad param":         {nil, []string{"train", "--data", data, "--method", "em", "--param", "alpha"}, exitUsage, "NAME=NUMBER"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := spml(t, tc.env, tc.args...)
			require.Equal(t, tc.code, code, stderr)
			require.Contains(t, stderr, tc.want)
			require.NotContains(t, stderr, "goroutine", "an error is a sentence, not a trace")
		})
	}
}

func TestTrainEvalPredict(t *testing.T) {
	runDir := filepath.Join(t.TempDir(), "run")
	code, stdout, stderr := spml(t, nil, "train", "--data", "shapes", "--method", "an", "--epochs", "1", "--run", runDir, "--json")
	require.Zero(t, code, stderr)
	var res struct {
		Best struct {
			TestMAP float64 `json:"test_map"`
		} `json:"best"`
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &res), stdout)
	require.Greater(t, res.Best.TestMAP, 20.0)

	code, stdout, stderr = spml(t, nil, "eval", runDir, "--json")
	require.Zero(t, code, stderr)
	var rep struct {
		MAP      float64 `json:"map"`
		PerClass []any   `json:"per_class"`
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &rep), stdout)
	require.InDelta(t, res.Best.TestMAP, rep.MAP, 1e-6)
	require.Len(t, rep.PerClass, 12)

	photo, err := testPhoto()
	require.NoError(t, err)
	good := filepath.Join(t.TempDir(), "good.jpg")
	huge := filepath.Join(t.TempDir(), "huge.png")
	require.NoError(t, os.WriteFile(good, photo, 0o644))
	require.NoError(t, os.WriteFile(huge, bomb(60000, 60000), 0o644))
	code, stdout, stderr = spml(t, nil, "predict", runDir, good)
	require.Zero(t, code, stderr)
	require.Equal(t, 11, strings.Count(stdout, "\n"), stdout)
	code, stdout, stderr = spml(t, nil, "predict", runDir, huge, good, "--json")
	require.Equal(t, exitData, code, stderr)
	require.Contains(t, stderr, "huge.png")
	require.Equal(t, 1, strings.Count(stdout, "\n"), "the good photo is labelled all the same")

	code, _, stderr = spml(t, nil, "train", "--data", "shapes", "--method", "an", "--run", runDir)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "already holds a run")
}

func TestVersionAndDoctor(t *testing.T) {
	code, stdout, stderr := spml(t, nil, "version", "--json")
	require.Zero(t, code, stderr)
	var v map[string]string
	require.NoError(t, json.Unmarshal([]byte(stdout), &v))
	require.Equal(t, "2.11.0", v["libtorch"])

	code, stdout, stderr = spml(t, nil, "doctor", "--json")
	require.Zero(t, code, stdout+stderr)
	var all []finding
	require.NoError(t, json.Unmarshal([]byte(stdout), &all))
	seen := map[string]bool{}
	for _, f := range all {
		require.True(t, f.OK, f)
		seen[f.Check] = true
	}
	for _, check := range []string{"libtorch", "load", "training", "gradient", "matmul", "photos"} {
		require.True(t, seen[check], check)
	}
}
