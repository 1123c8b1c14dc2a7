#!/usr/bin/env bash
# Installs the package into .build/lib, compiling only what changed, from a copy, so that the checkout
# stays free of objects. With --user: then also into the library that R itself would choose, with vignettes.
# CLUTCH_BUILD: another folder than .build. CLUTCH_PORTABLE: see configure.
set -euo pipefail
cd "$(dirname "$0")/.."
R=${R:-R}
build=${CLUTCH_BUILD:-.build}
mkdir -p "$build/lib" "$build/pkg"
if command -v flock >/dev/null; then exec 9>"$build/lock"; flock 9; fi # two builds at a time would clash

# What make and R CMD leave in the environment is not for the compiler's make.
unset MAKELEVEL MFLAGS
MAKEFLAGS=-j$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); export MAKEFLAGS

# R CMD check compiles the same once more
if [ -d /usr/lib/ccache ]; then
  export PATH="/usr/lib/ccache:$PATH" CCACHE_DIR="$PWD/$build/ccache" CCACHE_NOHASHDIR=1
fi

# Objects of other compiler settings, or of another R, are of no use.
"$R" --version | head -n 1 >"$build/r-version.new"
if ! cmp -s "$build/r-version.new" "$build/r-version" || ! cmp -s src/Makevars.in "$build/pkg/src/Makevars.in" ||
  ! cmp -s configure "$build/pkg/configure"; then
  find "$build/pkg" \( -name '*.o' -o -name '*.so' \) -delete
fi
mv "$build/r-version.new" "$build/r-version"
find "$build/pkg" -type f -not -name '*.o' -not -name '*.so' -delete
parts=()
for f in DESCRIPTION NAMESPACE LICENSE NEWS.md configure cleanup R src man inst data; do
  [ ! -e "$f" ] || parts+=("$f")
done
tar -cf - --exclude='*.o' --exclude='*.so' --exclude=src/Makevars "${parts[@]}" | tar -xf - -C "$build/pkg" # keeps times: make needs them

rm -rf "$build"/lib/00LOCK-* # of a build that was killed
log=$build/install.log
if ! "$R" CMD INSTALL --library="$PWD/$build/lib" "$build/pkg" >"$log" 2>&1 9>&-; then
  cat "$log" >&2
  exit 1
fi
grep -iE 'warning' -A 4 "$log" >&2 || true
touch "$build/installed"

if [ "${1:-}" = --user ]; then
  cp -R vignettes "$build/pkg/"
  R_LIBS="$PWD/$build/lib${R_LIBS:+:$R_LIBS}" "${RSCRIPT:-Rscript}" tools/vignettes.R "$build/pkg" 9>&- || true
  exec "$R" CMD INSTALL "$build/pkg" 9>&-
fi
