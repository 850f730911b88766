package train

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// TestLazyRoleTrainsAsDense: head, estimates and the table with its moments are those of the dense table to rounding.
func TestLazyRoleTrainsAsDense(t *testing.T) {
	run := func(table float64) (state, estimates nn.StateDict) {
		c := scenes(t, "role", 3)
		c.Schedule.Epochs, c.Optim.BatchSize, c.Schedule.Name, c.Method.Params = 4, 64, "cosine", map[string]float64{
			"table": table,
		}
		c.Run.Dir = filepath.Join(t.TempDir(), "run")
		_, err := Run(context.Background(), c, RunOptions{})
		require.NoError(t, err)
		dir := filepath.Join(c.Run.Dir, checkpoints)
		names, err := list(dir)
		require.NoError(t, err)
		m, state, err := load(filepath.Join(dir, names[0]))
		require.NoError(t, err)
		_, lazy := m.Numbers["step"]
		require.Equal(t, table == loss.TableLazy, lazy)
		estimates, _, err = nn.LoadSafetensors(filepath.Join(c.Run.Dir, method.EstimatesFile))
		require.NoError(t, err)
		return state, estimates
	}
	near := func(what string, a, b *torch.Tensor) {
		require.NotNil(t, a, what)
		require.NotNil(t, b, what)
		require.Equal(t, a.Shape(), b.Shape(), what)
		require.NotZero(t, a.Abs().Sum().Item(), what)
		require.Less(t, a.Sub(b).Abs().Max().Item(), 1e-6*a.Abs().Max().Item(), what)
	}
	dense, theta := run(loss.TableDense)
	lazy, same := run(loss.TableLazy)
	for key, x := range dense {
		if len(key) > 6 && key[:6] == "model." {
			near(key, x, lazy[key])
		}
	}
	near("u", dense["estimator.u"], lazy["estimator.u"])
	near("exp_avg", dense["optimizer.state.2.exp_avg"], lazy["estimator.exp_avg"])
	near("exp_avg_sq", dense["optimizer.state.2.exp_avg_sq"], lazy["estimator.exp_avg_sq"])
	near("theta", theta["theta"], same["theta"])
}

// A lazy table wants an optimiser whose steps it knows; a run goes on with the table that it began with.
func TestLazyRoleRefuses(t *testing.T) {
	dir := folder(t, 60)
	c := small(dir, "an")
	c.Method.ID, c.Method.Params, c.Optim.Name = "role", map[string]float64{"table": loss.TableLazy}, "sgd"
	c, err := c.Resolve()
	require.NoError(t, err)
	_, err = Run(context.Background(), c, RunOptions{})
	var setting *config.Error
	require.ErrorAs(t, err, &setting)
	require.ErrorContains(t, err, "table=lazy of role: it wants Adam without weight decay")

	setup := &method.Setup{Resumed: true, Saved: map[string]float64{"step": 3}, Rows: []int{0}}
	ds, err := c.Data.Open()
	require.NoError(t, err)
	defer ds.Close()
	m, err := method.Lookup("role")
	require.NoError(t, err)
	setup.Data, setup.Note = ds, func(string) {}
	_, err = m.New(setup)
	require.True(t, errors.As(err, &setting), "%v", err)
	require.ErrorContains(t, err, "the run began with ROLE's lazy table")
	setup.PlainAdam, setup.Values = true, loss.Values{"table": loss.TableDense}
	e, err := m.New(setup)
	require.NoError(t, err)
	require.Empty(t, e.Groups(), "a lazy table, whatever the parameter says now")
	setup.Saved, setup.Values = nil, loss.Values{"table": loss.TableLazy}
	e, err = m.New(setup)
	require.NoError(t, err)
	require.Len(t, e.Groups(), 1, "dense")
}
