package loss_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// Every method of the papers under the spellings that their tables, code and this module's reference numbers use.
func TestNames(t *testing.T) {
	for name, id := range map[string]string{
		"BCE": "bce", "bce_full": "bce", "IUN": "iun", "AN": "an", "WAN": "wan", "DW": "dw", "EPR": "epr", "L1R": "l1r", "L2R": "l2r",
		"LS": "an-ls", "AN-LS": "an-ls", "an_ls": "an-ls", "N-LS": "n-ls", "EntMin": "entmin", "Focal": "focal", "ASL": "asl", "ROLE": "role",
		"EM": "em", "EM+APL": "em-apl", "EM_APL": "em-apl", "LL-R": "ll-r", "LL-Ct": "ll-ct", "LL-Cp": "ll-cp", "EN": "en", "EN+CL": "en-cl",
		"EN+SCL": "en-scl", "Hill": "hill", "SPLC": "splc", "SMILE": "smile", "smile_pred": "smile-classifier", "smile_enc": "smile-encoder",
		"smile_img": "smile", "MIME": "mime", "VLPL": "vlpl", "GR": "gr", "GR Loss": "gr", "GPR": "gpr", "PLC": "plc", "LAC": "lac", "ROLE+LinearInit": "role",
	} {
		e, err := loss.Lookup(name)
		require.NoError(t, err)
		require.Equal(t, id, e.ID, name)
	}
	_, err := loss.Lookup("nothing")
	require.ErrorContains(t, err, `no loss is called "nothing"; there are an, an-ls`)
}

func TestEntriesAreComplete(t *testing.T) {
	for _, e := range loss.Entries() {
		require.Regexp(t, `^[a-z0-9]+(-[a-z0-9]+)*$`, e.ID)
		require.NotEmpty(t, e.Title, e.ID)
		require.NotEmpty(t, e.Formula, e.ID)
		require.NotEmpty(t, e.Source, e.ID)
		require.NotZero(t, e.Needs, e.ID)
		for _, d := range []string{"", "voc", "coco", "nus", "cub"} {
			for _, p := range []string{"", "paper", "code"} {
				_, err := e.Make(d, nil, loss.Options{Form: p})
				require.NoError(t, err, "%s %s %s", e.ID, d, p)
			}
		}
		for i := range e.Params {
			p := &e.Params[i]
			require.NotEmpty(t, p.Doc, "%s %s", e.ID, p.Name)
			for _, v := range append([]float64{p.Default}, mapValues(p.ByData)...) {
				x, err := p.Parse(p.Format(v))
				require.NoError(t, err, "%s %s", e.ID, p.Name)
				require.Equal(t, v, x)
			}
		}
	}
}

func mapValues(m map[string]float64) []float64 {
	var v []float64
	for _, x := range m {
		v = append(v, x)
	}
	return v
}

func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		id, data, name string
		want           float64
	}{
		{"epr", "coco", "k", 2.9}, {"dw", "cub", "neg_weight", 0.02}, {"l1r", "cub", "lam", 1e-9}, {"n-ls", "voc", "ls_coef", 0.3},
		{"entmin", "coco", "strength", 0.9}, {"asl", "cub", "gamma_neg", 1}, {"em", "cub", "alpha", 0.01}, {"em-apl", "nus", "beta", 0.2},
		{"vlpl", "voc", "alpha", 0.2}, {"gr", "cub", "q3", 1.5}, {"gr", "nus", "wT", 10}, {"gpr", "cub", "lam_hi", 0.8}, {"gpr", "voc", "eta", 0.05},
		{"mime", "cub", "warmup", 5}, {"plc", "voc", "delta", 0.6}, {"lac", "voc", "delta", 0.9},
	} {
		e, err := loss.Lookup(c.id)
		require.NoError(t, err)
		require.Equal(t, c.want, e.Defaults(c.data)[c.name], "%s %s %s", c.id, c.data, c.name)
	}
}

func TestBadParameters(t *testing.T) {
	for _, c := range []struct {
		id   string
		set  loss.Values
		o    loss.Options
		want string
	}{
		{"em", loss.Values{"alpa": 1}, loss.Options{}, `em has no parameter "alpa"; it has alpha=0.2`},
		{"em", loss.Values{"alpha": math.NaN()}, loss.Options{}, "parameter alpha is NaN"},
		{"em", loss.Values{"alpha": -1}, loss.Options{}, "alpha is -1, want 0 or more"},
		{"focal", loss.Values{"alpha": 2}, loss.Options{}, "alpha is 2, want 0 to 1"},
		{"ll-r", loss.Values{"semantics": 4}, loss.Options{}, "want one of recommended, reference, released, boostlu"},
		{"gpr", loss.Values{"lam_lo": 0.8, "lam_hi": 0.3}, loss.Options{}, "the lower bound comes first"},
		{"gr", loss.Values{"epochs": 2, "frozen": 2}, loss.Options{}, "leave none for the schedule"},
		{"an", nil, loss.Options{LogEps: -1}, "log_eps is -1"},
		{"an", nil, loss.Options{Reduction: "max"}, `reduction "max"`},
		{"an", nil, loss.Options{Form: "both"}, `form "both"`},
	} {
		_, err := loss.New(c.id, "", c.set, c.o)
		require.ErrorContains(t, err, c.want)
	}
}

func TestBadBatches(t *testing.T) {
	z, y := torch.Zeros(torch.S(2, 3), torch.Float32), torch.Zeros(torch.S(2, 3), torch.Int8)
	for _, c := range []struct {
		id   string
		b    loss.Batch
		want string
	}{
		{"an", loss.Batch{Observed: y}, "no logits"},
		{"an", loss.Batch{Logits: z}, "the observed labels are missing"},
		{"an", loss.Batch{Logits: y, Observed: y}, "want floating point"},
		{"an", loss.Batch{Logits: z.Flatten(0, -1), Observed: y}, "want [batch, classes]"},
		{"an", loss.Batch{Logits: z, Observed: torch.Zeros(torch.S(3, 2), torch.Int8)}, "observed labels have shape [3 2], logits [2 3]"},
		{"vlpl", loss.Batch{Logits: z, Observed: y}, "the pseudo-labels are missing"},
		{"gr", loss.Batch{Logits: z, Observed: y}, "the epoch is 0"},
		{"l1r", loss.Batch{Logits: z, Observed: y}, "the parameters to regularise are missing"},
		{"lac", loss.Batch{Logits: z, Observed: y, Strong: z}, "the embeddings are missing"},
		{"lac", loss.Batch{Logits: z, Observed: y, Strong: z, Contrast: &loss.Contrast{}}, "embeddings want features [M, 2, D]"},
		{"smile-encoder", loss.Batch{Logits: z, Observed: y, Reconstruction: &loss.Reconstruction{}}, "a reconstruction needs"},
		{"en-scl", loss.Batch{Maps: z, Observed: y, Negative: y}, "score maps have shape [2 3]"},
	} {
		l, err := loss.New(c.id, "", nil, loss.Options{})
		require.NoError(t, err)
		_, err = l.Value(c.b)
		require.ErrorContains(t, err, c.want)
	}
}

func TestRegister(t *testing.T) {
	f := func(loss.Values, loss.Options) (loss.Func, error) {
		return func(b loss.Batch) *torch.Tensor { return b.Logits.Matmul(b.Logits).Sum() }, nil
	}
	require.ErrorContains(t, loss.Register(loss.Entry{ID: "x"}), "needs an id and New")
	require.ErrorContains(t, loss.Register(loss.Entry{ID: "A_N", New: f}), "belongs to an")
	require.ErrorContains(t, loss.Register(loss.Entry{ID: "x", Aliases: []string{"em+apl"}, New: f}), "belongs to em-apl")
	_, err := loss.Lookup("x")
	require.Error(t, err, "a refused entry leaves no name")
	e := loss.Entry{ID: "x", New: f}
	l, err := e.Make("", nil, loss.Options{})
	require.NoError(t, err)
	_, err = l.Value(loss.Batch{Logits: torch.Zeros(torch.S(2, 3), torch.Float32)})
	require.Error(t, err, "tensor errors come back as errors")
	require.True(t, strings.Contains(err.Error(), "matmul") || strings.Contains(err.Error(), "mat1"), err.Error())
}

func TestLargeLossCount(t *testing.T) {
	for e, want := range []int{0, 2, 4, 6, 8} {
		require.Equal(t, want, loss.LargeLossCount(e+1, 1000, 0.002, false, loss.Recommended))
	}
	for e, want := range []int{0, 3, 5, 7, 9} {
		require.Equal(t, want, loss.LargeLossCount(e+1, 1000, 0.002, false, loss.Reference), "rounding of the released code")
	}
	require.Equal(t, 2, loss.LargeLossCount(9, 1000, 0.002, true, loss.Recommended))
	require.Zero(t, loss.LargeLossCount(9, 0, 0.002, true, loss.Recommended))
}
