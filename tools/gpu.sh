#!/bin/sh
# Measure on a machine with an NVIDIA GPU by the frameworks that its Python has already; nothing is installed there. docs/gpu.md
#
#   tools/gpu.sh --pack [3.12]     before: put into gpu-session/ what such a Python may lack, and the commit's name
#   tools/gpu.sh [MINUTES]         there: the cases of tools/gpu_cases.csv in order, as far as the minutes go; says what is left
#   tools/gpu.sh --rehearse        here, without a GPU: the same list at the smallest size, and all that is made of records
#
# The folder gpu-session/ travels with the checkout in both directions: the same command goes on where the last one stopped. PYTHON
# names another interpreter, FRAMEBENCH_MACHINE the GPU's name in the results.
set -u
cd "$(dirname "$0")/.." || exit 1
python=${PYTHON:-python3}

if [ "${1:-}" = --pack ]; then
    [ -z "$(git status --porcelain -- . ':!results')" ] || { echo "commit first: records name the commit that measured"; exit 2; }
    rm -rf gpu-session/site && mkdir -p gpu-session || exit 1
    git rev-parse HEAD > gpu-session/commit
    # shellcheck disable=SC2046
    exec "$python" -m pip install --quiet --target gpu-session/site --no-deps --no-compile --only-binary=:all: --implementation cp \
        --platform manylinux_2_17_x86_64 --python-version "${2:-3.12}" \
        $(grep -E '^(pydantic|pydantic_core|annotated-types|typing-inspection|typing_extensions)==' requirements/control.txt | cut -d' ' -f1)
fi
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
"$python" -c "import pydantic" 2> /dev/null || export PYTHONPATH="$PWD/gpu-session/site:$PYTHONPATH"
case " $* " in *" --rehearse "*)
    # a compiler may be here all the same, and Jittor would build for a GPU with it
    export PYTHONPATH="$PWD/tools/pretended:$PYTHONPATH" FRAMEBENCH_MACHINE="${FRAMEBENCH_MACHINE:-made-up-gpu}" nvcc_path= ;;
*)
    if [ -r gpu-session/commit ]; then
        FRAMEBENCH_COMMIT=$(cat gpu-session/commit)
        export FRAMEBENCH_COMMIT
    fi ;;
esac
exec "$python" -m tools.gpu "$@"
