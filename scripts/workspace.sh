#!/usr/bin/env bash
# workspace.sh FOLDER RELEASE: a second workspace of this checkout, with RELEASE as its release file.
# A rerun copies this checkout's files over it and deletes none: out/, caches and files of your own
# stay.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
folder=$1 release=$2
mkdir -p "$folder"
for part in calib configs evalsets; do
  mkdir -p "$folder/$part"
  cp -R "$part/." "$folder/$part/"
done
cp dvc.yaml .dvcignore "$folder/"
cp "$release" "$folder/configs/release.yaml"
ln -sfn "$PWD/qpipe" "$folder/qpipe"
mkdir -p "$folder/.qpipe" && ln -sfn "$PWD/.qpipe/envs" "$folder/.qpipe/envs"
if [ ! -d "$folder/.dvc" ]; then
  (cd "$folder" && dvc init --quiet --no-scm)
fi
# The checkout's settings, without its git.
sed 's/^\[core\]$/&\n    no_scm = True/' .dvc/config >"$folder/.dvc/config"
