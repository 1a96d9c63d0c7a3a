#!/usr/bin/env bash
# Add a folder's files to a branch of their own, and push it: keep_series.sh FOLDER BRANCH
# What the branch has already stays, so that the records of every week are there.
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
cp -r "$folder/." "$tree/"
git -C "$tree" add --all --force
if git -C "$tree" diff --cached --quiet; then
  echo "nothing new for $branch"
  exit 0
fi
git -C "$tree" -c user.name=framebench -c user.email=framebench@localhost commit --quiet --message "Add a week's records"
git -C "$tree" push --quiet origin "HEAD:refs/heads/$branch"
