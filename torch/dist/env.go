package dist

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Env is the place of a process among the others.
type Env struct {
	Rank, WorldSize           int
	LocalRank, LocalWorldSize int // among the processes of this machine
	MasterAddr                string
	MasterPort                int
	Restart                   int    // how often torchrun has started the group anew
	RunID                     string // of the job, "" where the launcher gives none
	AgentStore                bool   // the launcher hosts the store: every rank is a client
	Launcher                  string // torchrun, slurm, openmpi, kubernetes or alone
}

// FromEnv reads the variables of the launcher: torchrun's and PyTorchJob's RANK, WORLD_SIZE, MASTER_ADDR, …; Slurm's
// SLURM_PROCID, …; Open MPI's and PMI's; Kubeflow's PET_*. A process without any of them is alone: rank 0 of 1.
func FromEnv() (Env, error) { return fromEnv(os.Getenv) }

// Card is the number of the card that this process takes of those that it sees: its own number among the processes of
// the machine, 0 without a launcher. Slurm and Open MPI can show each process its card alone: then it is that one.
func Card(cards int) (int, error) { return card(os.Getenv, cards) }

func card(get func(string) string, cards int) (int, error) {
	e, err := fromEnv(get)
	switch {
	case err != nil:
		return 0, err
	case e.LocalRank < cards:
		return e.LocalRank, nil
	case cards == 1 && (e.Launcher == "slurm" || e.Launcher == "openmpi"):
		return 0, nil
	}
	return 0, fmt.Errorf("there is no card for process %d of this machine, counted from 0: it shows %d; start at most as "+
		"many processes on it", e.LocalRank, cards)
}

const defaultPort = 29500 // torchrun's

func fromEnv(get func(string) string) (Env, error) {
	e := Env{WorldSize: 1, LocalWorldSize: 1, MasterAddr: "127.0.0.1", MasterPort: defaultPort, Launcher: "alone"}
	r := &reader{get: get}
	switch {
	case get("RANK") != "" || get("WORLD_SIZE") != "":
		e.Launcher = "torchrun"
		e.Rank, e.WorldSize = r.number("RANK"), r.number("WORLD_SIZE")
		e.LocalRank = r.or("LOCAL_RANK", 0)
		e.LocalWorldSize = r.or("LOCAL_WORLD_SIZE", 1)
		e.MasterAddr, e.MasterPort = r.text("MASTER_ADDR"), r.number("MASTER_PORT")
		e.Restart = r.or("TORCHELASTIC_RESTART_COUNT", 0)
		e.RunID = get("TORCHELASTIC_RUN_ID")
		e.AgentStore = get("TORCHELASTIC_USE_AGENT_STORE") == "True"
	case get("SLURM_PROCID") != "":
		e.Launcher = "slurm"
		e.Rank, e.WorldSize = r.number("SLURM_PROCID"), r.number("SLURM_NTASKS")
		e.LocalRank = r.or("SLURM_LOCALID", 0)
		e.LocalWorldSize = r.tasksOnNode(e.WorldSize)
		e.RunID = get("SLURM_JOB_ID")
		e.Restart = r.or("SLURM_RESTART_COUNT", 0)
		e.MasterAddr, e.MasterPort = get("MASTER_ADDR"), r.or("MASTER_PORT", slurmPort(get("SLURM_JOB_ID")))
		if e.MasterAddr == "" {
			list := get("SLURM_STEP_NODELIST")
			if list == "" {
				list = get("SLURM_JOB_NODELIST")
			}
			host, err := firstHost(list)
			if err != nil {
				r.fail("SLURM_JOB_NODELIST: " + err.Error())
			}
			e.MasterAddr = host
		}
	case get("OMPI_COMM_WORLD_RANK") != "":
		e.Launcher = "openmpi"
		e.Rank, e.WorldSize = r.number("OMPI_COMM_WORLD_RANK"), r.number("OMPI_COMM_WORLD_SIZE")
		e.LocalRank, e.LocalWorldSize = r.or("OMPI_COMM_WORLD_LOCAL_RANK", 0), r.or("OMPI_COMM_WORLD_LOCAL_SIZE", 1)
		e.MasterAddr, e.MasterPort = r.text("MASTER_ADDR"), r.or("MASTER_PORT", defaultPort)
	case get("PMI_RANK") != "":
		e.Launcher = "openmpi"
		e.Rank, e.WorldSize = r.number("PMI_RANK"), r.number("PMI_SIZE")
		e.LocalRank, e.LocalWorldSize = r.or("MPI_LOCALRANKID", 0), r.or("MPI_LOCALNRANKS", 1)
		e.MasterAddr, e.MasterPort = r.text("MASTER_ADDR"), r.or("MASTER_PORT", defaultPort)
	case get("PET_NNODES") != "":
		e.Launcher = "kubernetes"
		if n := get("PET_NPROC_PER_NODE"); n != "1" {
			return e, fmt.Errorf("PET_NPROC_PER_NODE is %q: several processes on a node need torchrun (command: torchrun --no-python PROGRAM); set it to 1 to run without", n)
		}
		e.Rank, e.WorldSize = r.number("PET_NODE_RANK"), r.number("PET_NNODES")
		e.MasterAddr, e.MasterPort = r.text("PET_MASTER_ADDR"), r.number("PET_MASTER_PORT")
	}
	if r.errs == nil {
		switch {
		case e.WorldSize < 1:
			r.fail(fmt.Sprintf("the number of processes is %d", e.WorldSize))
		case e.Rank < 0 || e.Rank >= e.WorldSize:
			r.fail(fmt.Sprintf("rank %d is not among %d processes", e.Rank, e.WorldSize))
		case e.LocalWorldSize < 1 || e.LocalRank < 0 || e.LocalRank >= e.LocalWorldSize && e.LocalWorldSize > 1:
			r.fail(fmt.Sprintf("local rank %d is not among %d processes of this machine", e.LocalRank, e.LocalWorldSize))
		case e.MasterPort < 1 || e.MasterPort > 65535:
			r.fail(fmt.Sprintf("the master's port is %d", e.MasterPort))
		}
	}
	if r.errs != nil {
		return e, fmt.Errorf("the launcher's variables (%s): %w", e.Launcher, errors.Join(r.errs...))
	}
	return e, nil
}

// reader reads variables and keeps what is wrong with them.
type reader struct {
	get  func(string) string
	errs []error
}

func (r *reader) fail(msg string) { r.errs = append(r.errs, errors.New(msg)) }

func (r *reader) text(name string) string {
	s := r.get(name)
	if s == "" {
		r.fail(name + " is not set")
	}
	return s
}

func (r *reader) number(name string) int {
	s := r.text(name)
	if s == "" {
		return 0
	}
	return r.or(name, 0)
}

func (r *reader) or(name string, otherwise int) int {
	s := r.get(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		r.fail(fmt.Sprintf("%s is %q, a number is expected", name, s))
		return otherwise
	}
	return n
}

// tasksOnNode is this node's number in SLURM_TASKS_PER_NODE, such as "4(x2),3"; without it, what SLURM_NTASKS_PER_NODE says.
func (r *reader) tasksOnNode(world int) int {
	node := r.or("SLURM_NODEID", 0)
	for part := range strings.SplitSeq(r.get("SLURM_STEP_TASKS_PER_NODE")+","+r.get("SLURM_TASKS_PER_NODE"), ",") {
		if part == "" {
			continue
		}
		count, times, repeated := strings.Cut(strings.TrimSuffix(part, ")"), "(x")
		n, err := strconv.Atoi(count)
		if err != nil {
			break
		}
		m := 1
		if repeated {
			if m, err = strconv.Atoi(times); err != nil {
				break
			}
		}
		if node < m {
			return n
		}
		node -= m
	}
	if n := r.or("SLURM_NTASKS_PER_NODE", 0); n > 0 {
		return n
	}
	if r.or("SLURM_NNODES", 1) == 1 {
		return world
	}
	return 1
}

// slurmPort is a port that every task of a job computes alike and that differs between jobs on a shared machine.
func slurmPort(job string) int {
	n, err := strconv.Atoi(job)
	if err != nil || n < 0 {
		return defaultPort
	}
	return 20000 + n%20000
}

// firstHost is the first name of a Slurm host list such as "gpu[03-05,9],login1".
func firstHost(list string) (string, error) {
	if list == "" {
		return "", errors.New("it is not set; set MASTER_ADDR")
	}
	open := strings.IndexByte(list, '[')
	if comma := strings.IndexByte(list, ','); open < 0 || comma >= 0 && comma < open {
		host, _, _ := strings.Cut(list, ",")
		return host, nil
	}
	prefix, rest := list[:open], list[open+1:]
	end := strings.IndexByte(rest, ']')
	if end < 0 {
		return "", fmt.Errorf("%q has an open bracket", list)
	}
	inside, suffix := rest[:end], rest[end+1:]
	if i := strings.IndexByte(suffix, ','); i >= 0 {
		suffix = suffix[:i]
	}
	first := strings.FieldsFunc(inside, func(r rune) bool { return r == ',' || r == '-' })
	if len(first) == 0 {
		return "", fmt.Errorf("%q has empty brackets", list)
	}
	if strings.Contains(suffix, "[") { // rack[1-2]n[01-04]
		tail, err := firstHost(suffix)
		if err != nil {
			return "", fmt.Errorf("%q has an open bracket", list)
		}
		suffix = tail
	}
	return prefix + first[0] + suffix, nil
}
