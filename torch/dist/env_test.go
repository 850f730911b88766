package dist

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFromEnv(t *testing.T) {
	torchrun := map[string]string{
		"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "gpu7", "MASTER_PORT": "29501",
		"TORCHELASTIC_RESTART_COUNT": "2", "TORCHELASTIC_RUN_ID": "job", "TORCHELASTIC_USE_AGENT_STORE": "True",
	}
	with := func(base map[string]string, more ...string) map[string]string {
		m := map[string]string{}
		for k, v := range base {
			m[k] = v
		}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	slurm := map[string]string{"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "123456", "SLURM_NNODES": "2",
		"SLURM_JOB_NODELIST": "gpu[03-04]", "SLURM_TASKS_PER_NODE": "4(x2)", "SLURM_NODEID": "1"}
	mpi := map[string]string{"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "MASTER_ADDR": "a"}
	pet := map[string]string{"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "m-0", "PET_MASTER_PORT": "29400"}
	for name, c := range map[string]struct {
		env  map[string]string
		want Env
		err  string
	}{
		"alone":    {want: Env{WorldSize: 1, LocalWorldSize: 1, MasterAddr: "127.0.0.1", MasterPort: 29500, Launcher: "alone"}},
		"torchrun": {env: torchrun, want: Env{3, 4, 1, 2, "gpu7", 29501, 2, "job", true, "torchrun"}},
		"PyTorchJob": {env: map[string]string{"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "m", "MASTER_PORT": "23456"},
			want: Env{1, 2, 0, 1, "m", 23456, 0, "", false, "torchrun"}},
		"torchrun beats Slurm": {env: with(slurm, "RANK", "0", "WORLD_SIZE", "1", "MASTER_ADDR", "x", "MASTER_PORT", "1"),
			want: Env{0, 1, 0, 1, "x", 1, 0, "", false, "torchrun"}},
		"slurm":           {env: slurm, want: Env{5, 8, 1, 4, "gpu03", 20000 + 123456%20000, 0, "123456", false, "slurm"}},
		"slurm uneven":    {env: with(slurm, "SLURM_TASKS_PER_NODE", "5,3"), want: Env{5, 8, 1, 3, "gpu03", 23456, 0, "123456", false, "slurm"}},
		"slurm a node":    {env: with(slurm, "SLURM_TASKS_PER_NODE", "", "SLURM_NNODES", "1"), want: Env{5, 8, 1, 8, "gpu03", 23456, 0, "123456", false, "slurm"}},
		"slurm per node":  {env: with(slurm, "SLURM_TASKS_PER_NODE", "", "SLURM_NTASKS_PER_NODE", "4"), want: Env{5, 8, 1, 4, "gpu03", 23456, 0, "123456", false, "slurm"}},
		"slurm master":    {env: with(slurm, "MASTER_ADDR", "h", "MASTER_PORT", "7"), want: Env{5, 8, 1, 4, "h", 7, 0, "123456", false, "slurm"}},
		"slurm restarted": {env: with(slurm, "SLURM_RESTART_COUNT", "1"), want: Env{5, 8, 1, 4, "gpu03", 23456, 1, "123456", false, "slurm"}},
		"slurm step list": {env: with(slurm, "SLURM_STEP_NODELIST", "gpu09"), want: Env{5, 8, 1, 4, "gpu09", 23456, 0, "123456", false, "slurm"}},
		"mpi":             {env: mpi, want: Env{1, 2, 1, 2, "a", 29500, 0, "", false, "openmpi"}},
		"pmi": {env: map[string]string{"PMI_RANK": "1", "PMI_SIZE": "3", "MPI_LOCALRANKID": "0", "MASTER_ADDR": "a", "MASTER_PORT": "9"},
			want: Env{1, 3, 0, 1, "a", 9, 0, "", false, "openmpi"}},
		"kubeflow": {env: pet, want: Env{1, 2, 0, 1, "m-0", 29400, 0, "", false, "kubernetes"}},

		"kubeflow many":       {env: with(pet, "PET_NPROC_PER_NODE", "8"), err: "need torchrun"},
		"kubeflow auto":       {env: with(pet, "PET_NPROC_PER_NODE", "auto"), err: `PET_NPROC_PER_NODE is "auto"`},
		"no world":            {env: map[string]string{"RANK": "0"}, err: "WORLD_SIZE is not set"},
		"no rank":             {env: map[string]string{"WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, err: "RANK is not set"},
		"no master":           {env: map[string]string{"RANK": "0", "WORLD_SIZE": "2"}, err: "MASTER_ADDR is not set"},
		"rank is text":        {env: with(torchrun, "RANK", "x"), err: `RANK is "x", a number is expected`},
		"rank too large":      {env: with(torchrun, "RANK", "4"), err: "rank 4 is not among 4 processes"},
		"negative":            {env: with(torchrun, "RANK", "-1"), err: "rank -1 is not among 4"},
		"local rank":          {env: with(torchrun, "LOCAL_RANK", "2"), err: "local rank 2 is not among 2"},
		"port":                {env: with(torchrun, "MASTER_PORT", "70000"), err: "the master's port is 70000"},
		"no processes":        {env: with(torchrun, "WORLD_SIZE", "0"), err: "the number of processes is 0"},
		"slurm without nodes": {env: with(slurm, "SLURM_JOB_NODELIST", ""), err: "set MASTER_ADDR"},
		"slurm open bracket":  {env: with(slurm, "SLURM_JOB_NODELIST", "gpu[03"), err: "open bracket"},
		"mpi without master":  {env: with(mpi, "MASTER_ADDR", ""), err: "MASTER_ADDR is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fromEnv(func(k string) string { return c.env[k] })
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// TestCard: the process's own number, or the only card that a launcher shows it.
func TestCard(t *testing.T) {
	torchrun := map[string]string{
		"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "1",
	}
	slurm := map[string]string{
		"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "3", "MASTER_ADDR": "a", "SLURM_NTASKS_PER_NODE": "4",
	}
	for _, c := range []struct {
		env   map[string]string
		cards int
		want  int
		err   string
	}{
		{nil, 1, 0, ""},
		{torchrun, 4, 1, ""},
		{torchrun, 1, 0, "no card for process 1 of this machine"},
		{slurm, 4, 3, ""},
		{slurm, 1, 0, ""},
		{map[string]string{"RANK": "x"}, 4, 0, "a number is expected"},
	} {
		got, err := card(func(k string) string { return c.env[k] }, c.cards)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.env)
			continue
		}
		require.NoError(t, err, c.env)
		require.Equal(t, c.want, got, c.env)
	}
}

func TestFirstHost(t *testing.T) {
	for list, want := range map[string]string{
		"node1": "node1", "a,b": "a", "n[01-04,7]": "n01", "n[7]": "n7", "n[9,1-2],m": "n9", "x,n[1-2]": "x", "n[01-02]-ib": "n01-ib",
		"r[1-2]n[03-04]": "r1n03", "n[1-2]x,y[1]": "n1x",
	} {
		got, err := firstHost(list)
		require.NoError(t, err)
		require.Equal(t, want, got, list)
	}
	for _, list := range []string{"", "n[", "n[]", "r[1]n["} {
		_, err := firstHost(list)
		require.Error(t, err, list)
	}
}
