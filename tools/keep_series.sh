#!/usr/bin/env bash
# Add a results folder to a branch of its own, and push it: keep_series.sh FOLDER BRANCH
# Records are added to those that the branch has, so that the records of every week are there.
set -euo pipefail
folder=$(realpath "$1")
branch=$2
tree=$(mktemp -d)
trap 'git worktree remove --force "$tree"' EXIT
if git fetch --quiet origin "$branch" 2> /dev/null; then
  git worktree add --quiet --detach "$tree" FETCH_HEAD
else
  git worktree add --quiet --detach "$tree"
  git -C "$tree" checkout --quiet --orphan "$branch"
  git -C "$tree" rm --quiet -r --force .
fi
for entry in "$folder"/*; do
  [ "$(basename "$entry")" = records ] || cp -r "$entry" "$tree/"
done
# shellcheck disable=SC2086  # a command and its arguments
${FRAMEBENCH:-.venv/bin/framebench} collect "$folder" --results "$tree" || echo "not every record was added"
rm -f "$tree/.collect.lock"
git -C "$tree" add --all --force
if git -C "$tree" diff --cached --quiet; then
  echo "nothing new for $branch"
  exit 0
fi
git -C "$tree" -c user.name=framebench -c user.email=framebench@localhost commit --quiet --message "Add a week's records"
git -C "$tree" push --quiet origin "HEAD:refs/heads/$branch"
