#!/bin/sh
# Runs the checks of docs/gpu-open.md on a machine with a GPU: run.sh [GROUP…], in the order below; without a name all of them.
#
#   facts    the card, its driver, libturbojpeg; package cuda's own tests
#   order    a seed and a CPU model before the card is used
#   kernels  losses, input, pseudo-labels, golden numbers beside the CPU's
#   graphs   captures: fresh threads, failures, recorded steps
#   memory   the allocator, its cap, the question for unused tensors
#   train    3 steps beside the CPU's, precision, resume, synchronisations
#   clip     towers and graphs of CLIP
#   figures  times, beside PyTorch (eager, compiled) where python3 has it: losses, training steps, LAC's step, CLIP,
# DAMP
#
# Every test runs alone with a limit of time, so that one which hangs or panics does not end the others. Logs and tables go to the folder that OUT names, else to out beside
# this script: summary.tsv has a line for each (group, test, result, seconds), <group>/<test>.log what it said, *.csv the figures.
# Ends with 0 when all passed, 1 when one failed, 2 when no GPU was used. LIMIT=<seconds> for a test (default 120), LIBTORCH=<torch's folder>, PYTHON.
# DRY=1 tries the script itself on any machine: every program runs, small and on the CPU, what needs a card skips, the
# peers say what they would measure, and where PYTHON has torch they run too, tiny and on the CPU.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here/out}
limit=${LIMIT:-120}
dry=${DRY:-}
python=${PYTHON:-python3}
all="facts order kernels graphs memory train clip figures"
mkdir -p "$out" || exit 1
if [ -z "${LIBTORCH:-}" ]; then
	LIBTORCH=$("$python" -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")' 2>/dev/null || true)
	[ -n "$LIBTORCH" ] || unset LIBTORCH
fi
[ -n "${LIBTORCH:-}" ] && export LIBTORCH
export GOSPML_LIB="$here/lib" GOSPML_GPU_OUT="$out"
[ -z "$dry" ] || export GOSPML_GPU_DRY=1
summary=$out/summary.tsv
failed=0

say() { # GROUP TEST RESULT SECONDS
	printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" | tee -a "$summary"
	case $3 in fail | limit) failed=1 ;; esac
}

# one GROUP NAME COMMAND…: a command of its own log and limit. A Go test that skipped all it had says "skip".
one() {
	group=$1 name=$2
	shift 2
	mkdir -p "$out/$group"
	log=$out/$group/$(printf '%s' "$name" | tr '/ ' '__').log
	start=$(date +%s)
	timeout -k 10 "$limit" "$@" >"$log" 2>&1
	code=$?
	case $code in
	0) result=pass; grep -q '^--- SKIP' "$log" && ! grep -q '^--- PASS' "$log" && result=skip ;;
	124 | 137) result=limit ;;
	*) result=fail ;;
	esac
	say "$group" "$name" "$result" $(($(date +%s) - start))
	[ "$result" = fail ] && tail -n 5 "$log" | sed 's/^/    /'
	return 0
}

# tests GROUP PROGRAM PATTERN: each test of a program whose name matches, one at a time.
tests() {
	[ -x "$here/$2" ] || { say "$1" "$2" fail 0; return; }
	names=$("$here/$2" -test.list "$3" 2>"$out/$2.list.log" | grep '^Test' || true)
	[ -n "$names" ] || { say "$1" "$2 $3" fail 0; return; }
	for t in $names; do one "$1" "$t" "$here/$2" -test.run "^$t\$" -test.v -test.count 1; done
}

# rows LOG: a benchmark's lines as CSV: name, then each number with its unit.
rows() { awk '/^Benchmark/ { line = $1; for (i = 3; i + 1 <= NF; i += 2) line = line "," $i "," $(i + 1); print line }' "$1"; }

# bench NAME PROGRAM PATTERN ARGUMENTS…: benchmarks into NAME.csv.
bench() {
	name=$1 program=$2 pattern=$3
	shift 3
	one figures "$name" "$here/$program" -test.run '^$' -test.bench "$pattern" "$@"
	rows "$out/figures/$name.log" >"$out/$name.csv"
}

# peer NAME SCRIPT ARGUMENTS…: a Python script that writes NAME.csv; skipped where python3 has no torch.
peer() {
	name=$1 script=$2
	shift 2
	if [ -n "$dry" ]; then
		one figures "$name" "$python" "$here/$script" "$@" --dry
		grep 'would measure' "$out/figures/$name.log" | sed 's/^/    /'
		# The one runs on CPUs anyway, the other wants our side on a card.
		case $script in lac.py | clip_cuda.py) return ;; esac
		"$python" -c 'import torch' 2>/dev/null && one figures "$name-small" "$python" "$here/$script" "$@" --small
	elif "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
		one figures "$name" "$python" "$here/$script" "$@"
	else
		say figures "$name" skip 0
	fi
}

# ours NAME WHAT ARGUMENTS…: a case of our program that writes NAME.csv.
ours() {
	name=$1 what=$2
	shift 2
	[ -z "$dry" ] || set -- dry device=cpu "$@"
	one figures "$name" "$here/side" card "$what" "$out/$name.csv" "$@"
	[ -z "$dry" ] || sed 's/^/    would measure  /' "$out/figures/$name.log"
}

facts() {
	one facts nvidia-smi nvidia-smi
	one facts turbojpeg sh -c "ls -l '$here'/lib/libturbojpeg.so.0"
	tests facts cuda.test '^TestGPU(Device|StreamsAndEvents|Pinned)$'
}
order() { tests order cuda.test '^TestGPUOrder'; }
kernels() {
	tests kernels loss.test '^TestGPU'
	tests kernels input.test '^TestGPU'
	tests kernels label.test '^TestGPU'
	for dtype in float64 float32; do
		[ -z "$dry" ] || { say kernels "golden-$dtype" skip 0; continue; }
		one kernels "golden-$dtype" "$here/golden" check --device cuda --impl fused --dtype $dtype "$here/golden_losses.json"
	done
	if command -v compute-sanitizer >/dev/null; then
		for tool in memcheck racecheck initcheck; do
			one kernels "sanitizer-$tool" compute-sanitizer --tool $tool --error-exitcode 9 \
				"$here/loss.test" -test.run '^TestGPUFused$/./^float32$/^(1x1|5x7)$'
		done
	else
		say kernels compute-sanitizer skip 0
	fi
}
graphs() { tests graphs cuda.test '^TestGPU(Graph|Capture|FailedCapture|Recorded)'; }
memory() { tests memory cuda.test '^TestGPU(Memory|Pressure)'; }
train() {
	tests train cuda.test '^TestGPU(Hooks|Autocast|NCCL)'
	limit=$((limit * 3)) tests train train.test '^TestGPU(Train|Precision|Resume|Processes)'
}
clip() { tests clip clip.test '^TestGPU'; }
figures() {
	slow=$limit
	limit=$((slow * 5))
	times=50x
	[ -z "$dry" ] || times=1x
	bench losses loss.test '^BenchmarkGPULosses$' -test.benchtime $times
	[ -z "$dry" ] || sed 's/^/    would measure  /' "$out/losses.csv"
	peer losses_pytorch losses_cuda.py "$out/losses_pytorch.csv"
	tests figures train.test '^TestGPUSpeed'
	ours train train
	peer train_pytorch train_cuda.py "$out/train_pytorch.csv"
	peer lac lac.py "$here/side" "$out/lac.csv" --device cuda:0 --rounds 20
	one figures photos "$here/side" photos "$out/photos" 32
	ours damp damp photos="$out/photos"
	peer damp_pytorch damp_cuda.py "$out/damp_pytorch.csv" --photos "$out/photos"
	rm -rf "$out/photos"
	peer clip clip_cuda.py "$here/clipbench" "$out/clip.csv"
	limit=$slow
}

groups=${*:-$all}
for g in $groups; do
	case " $all " in *" $g "*) ;; *) echo "run.sh: there is no group $g; there are: $all" >&2; exit 64 ;; esac
done
for g in $groups; do
	echo "== $g"
	$g
done
echo "logs and tables: $out"
awk -F '\t' '{ n[$3]++ } END { for (r in n) printf "%s %d  ", r, n[r]; print "" }' "$summary"
[ -z "$dry" ] || exit $failed
# Without a GPU the tests skip.
if ! grep -q "$(printf '\tpass\t')" "$summary" || ! nvidia-smi >/dev/null 2>&1; then
	echo "gpu-check: no GPU was used" >&2
	exit 2
fi
exit $failed
