package reference

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/train"
)

// referenceRuns are the runs of the papers' losses on MIML and CUB: method -> seed -> curves, of the exact form.
type referenceRuns map[string]map[string]struct {
	BestEpoch int       `json:"best_epoch"`
	Best      float64   `json:"map_best_epoch"`
	Last      float64   `json:"map_last_epoch"`
	Loss      []float64 `json:"loss_per_epoch"`
	Val       []float64 `json:"val_map_per_epoch"`
	Test      []float64 `json:"map_per_epoch"`
	After     []float64 `json:"map_after_epochs_1_5_10_15_20_25"`
}

func readReference(t *testing.T, block string) referenceRuns {
	var file map[string]json.RawMessage
	b, err := os.ReadFile(testroot.Shared(t, "spec", "reference_runs.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &file))
	var methods map[string]struct {
		Exact struct{ Seeds json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(file[block], &methods))
	out := referenceRuns{}
	for name, m := range methods {
		v := out[name]
		require.NoError(t, json.Unmarshal(m.Exact.Seeds, &v))
		out[name] = v
	}
	return out
}

// referenceMethods are the reference runs' names, our ids, and the parameters in which their recipe leaves our
// defaults.
var referenceMethods = []struct {
	name, id  string
	miml, cub map[string]float64
}{
	{"BCE-full", "bce", nil, nil},
	{"IUN", "iun", nil, nil},
	{"AN", "an", nil, nil},
	{"WAN", "wan", nil, nil},
	{"DW", "dw", nil, nil},
	{"L1R", "l1r", nil, nil},
	{"L2R", "l2r", nil, nil},
	{"EPR", "epr", map[string]float64{"k": 1.2}, nil},
	{"LS", "an-ls", nil, nil},
	{"N-LS", "n-ls", nil, nil},
	{"EntMin", "entmin", nil, nil},
	{"Focal", "focal", nil, nil},
	{"ASL", "asl", nil, nil},
	{"ROLE", "role", map[string]float64{"k": 1.2}, nil},
	{"EM", "em", nil, nil},
	{"EM+APL", "em-apl", nil, nil},
	{"LL-R", "ll-r", nil, nil},
	{"LL-Ct", "ll-ct", nil, nil},
	{"LL-Cp", "ll-cp", nil, nil},
	{"EN", "en", map[string]float64{"k": 1.2}, nil},
	{"Hill", "hill", nil, nil},
	{"SPLC", "splc", nil, nil},
	{"GR", "gr", nil, nil},
}

// fullRuns asks for every seed on both data sets; without it, one seed on MIML and three methods on CUB.
var fullRuns = testroot.All("GOSPML_REFERENCE_RUNS")

func mimlConfig(t *testing.T, id string, seed uint32) config.Config {
	return config.Config{
		Data:   config.Data{Path: testroot.Shared(t, "data", "miml")},
		Method: config.Method{ID: id},
		Model: config.Model{
			Features: config.Paths{testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy")},
			Mode:     config.Frozen,
		},
		Run: config.Run{Seed: seed},
	}
}

func cubConfig(t *testing.T, id string, seed uint32) config.Config {
	return config.Config{
		Data:   config.Data{Path: testroot.Shared(t, "data", "cub")},
		Method: config.Method{ID: id, DataSet: "cub"},
		Model: config.Model{
			Features: config.Paths{
				testroot.Shared(t, "data", "features", "cub_train_mobilenetv2.npy"),
				testroot.Shared(t, "data", "features", "cub_test_mobilenetv2.npy"),
			},
			Mode: config.Frozen,
		},
		Optim: config.Optim{BatchSize: 64},
		Run:   config.Run{Seed: seed},
	}
}

// tolerances are the reference's: its ranking reacts to rounding in EM+APL.
func tolerances(id string) (mAP, loss float64) {
	if id == "em-apl" {
		return 0.2, 2e-3
	}
	return 0.1, 1e-4
}

// TestReferenceRuns trains the linear heads of the reference runs with the same files, draws and recipe: every epoch
// must agree.
func TestReferenceRuns(t *testing.T) {
	ref := readReference(t, "linear_miml")
	for _, m := range referenceMethods {
		for seed, want := range ref[m.name] {
			if !fullRuns && seed != "1200" {
				continue
			}
			t.Run(m.id+"/"+seed, func(t *testing.T) {
				c := mimlConfig(t, m.id, number(t, seed))
				c.Method.Params = m.miml
				res, err := train.Run(context.Background(), c, train.RunOptions{})
				require.NoError(t, err)
				require.Len(t, res.Epochs, len(want.Loss))
				tolMAP, tolLoss := tolerances(m.id)
				for i, e := range res.Epochs {
					require.InEpsilon(t, want.Loss[i], e.Loss, tolLoss, "loss of epoch %d", i+1)
					require.InDelta(t, want.Val[i], e.ValMAP, tolMAP, "validation mAP of epoch %d", i+1)
					require.InDelta(t, want.Test[i], e.TestMAP, tolMAP, "test mAP of epoch %d", i+1)
				}
				if m.id != "em-apl" { // its curve is flat to within its tolerance
					require.Equal(t, want.BestEpoch, res.Best.Epoch)
				}
				require.InDelta(t, want.Best, res.Best.TestMAP, tolMAP)
			})
		}
	}
}

// TestReferenceRunsBirds does the same on the bird attributes, which have no validation part.
func TestReferenceRunsBirds(t *testing.T) {
	ref := readReference(t, "linear_cub")
	for _, m := range referenceMethods {
		for seed, want := range ref[m.name] {
			if !fullRuns && (seed != "1200" || m.id != "em-apl" && m.id != "role" && m.id != "en") {
				continue
			}
			t.Run(m.id+"/"+seed, func(t *testing.T) {
				c := cubConfig(t, m.id, number(t, seed))
				c.Method.Params = m.cub
				epochs := len(want.Loss)
				if !fullRuns {
					epochs = 5 // the schedules that depend on the run's length are em-apl's and gr's
				}
				var res []train.EpochRecord
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				_, err := train.Run(ctx, c, train.RunOptions{Events: train.Events{Epoch: func(e train.EpochRecord) {
					if res = append(res, e); e.Epoch == epochs && epochs < len(want.Loss) {
						cancel()
					}
				}}})
				if epochs == len(want.Loss) {
					require.NoError(t, err)
				}
				require.GreaterOrEqual(t, len(res), epochs)
				tolMAP, tolLoss := tolerances(m.id)
				for i, e := range res[:epochs] {
					require.InEpsilon(t, want.Loss[i], e.Loss, tolLoss, "loss of epoch %d", i+1)
				}
				for i, n := range []int{1, 5, 10, 15, 20, 25} {
					if n <= epochs {
						require.InDelta(t, want.After[i], res[n-1].TestMAP, tolMAP, "test mAP of epoch %d", n)
					}
				}
				require.Zero(t, res[0].ValMAP, "there is no validation part")
			})
		}
	}
}

func number(t *testing.T, s string) uint32 {
	var n uint32
	_, err := fmt.Sscan(s, &n)
	require.NoError(t, err)
	return n
}
