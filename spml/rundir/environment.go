package rundir

import (
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/mod/module"

	"github.com/gospml/gospml"
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/third_party/native"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/safetensors"
)

// Format is the format of run folders that this program writes. It reads this one and all before; a folder of a later
// one is refused. Folders without a format are of before 0.1.0.
const Format = 1

// Environment is env.json: what is needed to understand or repeat a run.
type Environment struct {
	Format        int       `json:"format,omitempty"` // Format
	Started       time.Time `json:"started"`
	Module        string    `json:"module_version"`
	Commit        string    `json:"commit,omitempty"`
	Go            string    `json:"go"`
	Libtorch      string    `json:"libtorch"`
	CPU           string    `json:"cpu_capability"`
	Threads       int       `json:"threads"`
	Cores         int       `json:"cores"`
	Data          string    `json:"data"`
	DataSHA256    string    `json:"data_sha256"`     // classes, image names, full labels, split
	ObservedSHA   string    `json:"observed_sha256"` // the labels that training saw
	LabelsFrom    string    `json:"labels_from"`
	SplitFrom     string    `json:"split_from"`
	ObservedFrom  string    `json:"observed_from"`
	WeightsSHA256 string    `json:"weights_sha256,omitempty"`
	Features      string    `json:"features_sha256,omitempty"`
	Strong        string    `json:"strong_features_sha256,omitempty"`
	Pseudo        string    `json:"pseudo_labels_sha256,omitempty"`
	Clip          string    `json:"clip_sha256,omitempty"` // of a single file
	Precision     string    `json:"precision"`
	Device        string    `json:"device"` // where it computed: cpu, or a card by name
	Processes     int       `json:"processes"`
	Seed          uint32    `json:"seed"`
	Rows          [3]int    `json:"rows_train_val_test"`
}

// Where is the device that a run computed on; versions before Device had the CPU only.
func (e *Environment) Where() string {
	if e.Device == "" {
		return config.DeviceCPU
	}
	return e.Device
}

// Describe gives what is needed to understand or repeat a run of resolved settings that begins now on a device.
func Describe(c config.Config, ds *data.Dataset, d torch.Device) (Environment, error) {
	e := Environment{
		Format:  Format,
		Started: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(), Libtorch: native.TorchVersion,
		CPU: torch.CPUCapability(), Threads: torch.NumThreads(), Cores: runtime.NumCPU(),
		Data: ds.Name, DataSHA256: ds.Fingerprint(),
		ObservedSHA: ds.ObservedFingerprint(), LabelsFrom: ds.Info.Labels, SplitFrom: ds.Info.Split,
		ObservedFrom: ds.Info.Observed, Seed: c.Run.Seed, Precision: c.Run.Precision, Device: compute.CardName(d),
	}
	e.Module, e.Commit = BuildVersion()
	for _, s := range ds.Split {
		e.Rows[s]++
	}
	for _, h := range []struct {
		paths config.Paths
		to    *string
	}{
		{config.Paths{c.Model.WeightsFile()}, &e.WeightsSHA256}, {c.Model.Features, &e.Features},
		{c.Model.StrongFeatures, &e.Strong},
		{config.Paths{c.Pseudo.File}, &e.Pseudo}, {config.Paths{c.Pseudo.SingleFile()}, &e.Clip},
	} {
		if h.paths.String() == "" || h.paths.Own() {
			continue
		}
		var sums []string
		for _, path := range h.paths {
			sum, err := safetensors.Hash(path)
			if err != nil {
				return e, err
			}
			sums = append(sums, sum)
		}
		*h.to = strings.Join(sums, ",")
	}
	return e, nil
}

// BuildVersion is the version of this module in the running program, and the commit it was built from where that is
// known.
func BuildVersion() (version, commit string) {
	version = "v" + gospml.Version
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, ""
	}
	const path = "github.com/gospml/gospml"
	for _, d := range info.Deps {
		if rev, err := module.PseudoVersionRev(d.Version); d.Path == path && err == nil {
			commit = rev
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && info.Main.Path == path {
			commit = s.Value
		}
	}
	return version, commit
}
