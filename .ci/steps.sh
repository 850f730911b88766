# Steps of .ci/run and .ci/nightly, which source this: each is timed, a failed one does not stop the others, and the summary comes last.
steps=$(mktemp -d)
order=() queued=()

# record NAME COMMAND…: keeps status and seconds. Here `set -e` does not hold: a function's status is that of its last command.
record() {
  local name=$1 start=$SECONDS status=0
  shift
  "$@" || status=$?
  echo "$status $((SECONDS - start))" >"$steps/$name"
}

result() { # of a step: "ok, 12 s"
  local status=1 seconds=0
  if [ -f "$steps/$1" ]; then read -r status seconds <"$steps/$1"; fi
  case $status in
    0) echo "ok, $seconds s" ;;
    124 | 137) echo "FAILED: stopped at its limit, $seconds s" ;;
    *) echo "FAILED, $seconds s" ;;
  esac
}

# step NAME COMMAND…: now; its output as it comes.
step() {
  order+=("$1")
  echo "=== $1"
  record "$@"
  echo "=== $1: $(result "$1")"
}

# beside NAME COMMAND…: a step of the queue that runs beside the others, at low priority, once start_queue is called.
beside() {
  order+=("$1") queued+=("$1")
  local name=$1
  shift
  printf '%q ' "$@" >"$steps/$name.command"
}

start_queue() {
  (
    renice -n 15 "$BASHPID" >/dev/null 2>&1 || true
    for name in "${queued[@]}"; do
      eval "record \"\$name\" $(cat "$steps/$name.command")" >"$steps/$name.log" 2>&1
    done
  ) &
  queue_job=$!
}

finish_queue() { # waits and shows what the queue's steps said
  wait "$queue_job" || true
  for name in "${queued[@]}"; do
    echo "=== $name (beside the steps above)"
    cat "$steps/$name.log" 2>/dev/null || true
    echo "=== $name: $(result "$name")"
  done
}

# summary prints a line for each step and fails when one failed.
summary() {
  local name bad=0
  echo "=== time per step"
  for name in "${order[@]}"; do
    printf '%-28s %s\n' "$name" "$(result "$name")"
    case $(result "$name") in FAILED*) bad=1 ;; esac
  done
  return $bad
}
