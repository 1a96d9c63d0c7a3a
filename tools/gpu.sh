#!/bin/sh
# Measure on a machine with an NVIDIA GPU by the frameworks that its Python has already; nothing is installed.
#
#   tools/gpu.sh [SECONDS]        all of it, for at most so many seconds (default: no limit)
#
# Interrupted or out of time, the same command goes on where it stopped: records are kept one by one. PYTHON names another
# interpreter, FRAMEBENCH_MACHINE the machine's name in the results, FRAMEBENCH_CASE_SECONDS the limit of each worker.
set -u
cd "$(dirname "$0")/.." || exit 1
python=${PYTHON:-python3}
limit=${1:-0}
each=${FRAMEBENCH_CASE_SECONDS:-240}
began=$(date +%s)
failed=0

bench() { "$python" -m framebench.cli "$@"; }

# Says no when the time is over; the rest of it is the limit of the next part. A part that fails does not stop the others.
part() {
    left=$((limit - $(date +%s) + began))
    if [ "$limit" -gt 0 ] && [ "$left" -le 30 ]; then
        echo "out of time before: $*"
        failed=1
        return
    fi
    echo "== $*"
    if [ "$limit" -gt 0 ]; then
        timeout --signal=INT "$left" "$python" -m framebench.cli "$@" || failed=1
    else
        bench "$@" || failed=1
    fi
}

bench doctor --no-calibrate --env installed
# 1. the code, verified against float64 on this device
part run '*/torch' '*/jax' --profile tiny --env installed --time-limit "$each"
# 2. full sizes: the baselines first (they are the references of all others), every strategy after them
part run 'resnet50/torch' 'resnet50/jax' 'transformer/torch' 'transformer/jax' 'unet3d/torch' 'unet3d/jax' \
    --profile full --env installed --time-limit "$each"
# 3. the larger transformers: baselines and what makes room for them
for size in full-2k full-350m full-1b; do
    part run "transformer/*/train/fp32/*/$size" "transformer/*/train/amp_bf16/*/$size" "transformer/*/train/checkpoint/*/$size" \
        --env installed --time-limit "$each"
done
# 4. Jittor, if it is there: one case says whether it can be built against this CUDA, and if not why
part run 'transformer/jittor/train/fp32/b4/tiny' --env installed --time-limit 900
"$python" -m analysis.reports.gpu
exit $failed
