#!/usr/bin/env bash
# workspace.sh FOLDER RELEASE: a second workspace of this checkout, with RELEASE as its release file.
# Its out/ and caches are its own; a rerun keeps them.
set -euo pipefail
folder=$1 release=$2
mkdir -p "$folder"
for part in calib configs evalsets; do
  rm -rf "${folder:?}/$part"
  cp -R "$part" "$folder/$part"
done
cp dvc.yaml .dvcignore "$folder/"
cp "$release" "$folder/configs/release.yaml"
ln -sfn "$PWD/qpipe" "$folder/qpipe"
if [ ! -d "$folder/.dvc" ]; then
  (cd "$folder" && dvc init --quiet --no-scm)
fi
# The checkout's settings, without its git.
sed 's/^\[core\]$/&\n    no_scm = True/' .dvc/config >"$folder/.dvc/config"
