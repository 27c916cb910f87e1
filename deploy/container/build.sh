#!/bin/sh
# Builds the image "dpmarket" from a source distribution that is made first: what is not in it, such as private
# files beside the sources, gets into no image. ENGINE=podman uses another engine.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cd "$here/../.."
"${PYTHON:-python3}" -m build ${BUILD_OPTIONS:-} --sdist --outdir "$context/made"
tar -xzf "$context"/made/*.tar.gz -C "$context" --strip-components=1
rm -r "$context/made"
cp constraints.txt "$context/"
"${ENGINE:-docker}" build -f "$here/Containerfile" -t dpmarket "$context"
