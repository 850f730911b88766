"""What both comparisons share: pinned threads, our side as a process, and paired ratios."""
import os, random, statistics, subprocess, sys


def pin_threads():
    """One thread on both sides; before torch is imported."""
    for v in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[v] = "1"
    os.environ["GOMAXPROCS"] = "2"  # one for the work, one for the collector


class Side:
    """The Go process: one line `case iterations` in, one line out, seconds per call or what the case answers."""

    def __init__(self, program, data):
        self.program = program
        self.p = subprocess.Popen([program, "serve", data], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        answer = self.p.stdout.readline()
        if not answer:
            sys.exit(f"{self.program} ended in case {line}")
        return answer.strip()

    def __call__(self, case, n):
        return float(self.ask(f"{case} {n}"))


def interval(ratios):
    """95 % bootstrap interval of the median of paired ratios."""
    r = random.Random(0)
    ms = sorted(statistics.median(r.choices(ratios, k=len(ratios))) for _ in range(2000))
    return ms[50], ms[1949]
