#!/usr/bin/env bash
# Runs every fuzz target of the module for a time each, FUZZERS (default 2) side by side with one worker each, and prints a line a target. What
# fails is printed whole, and its input is left in testdata/fuzz of the package: it belongs in the commit that mends it.
# usage: test/fuzz.sh TIME [package folder ...]
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:?usage: test/fuzz.sh TIME [package folder ...]}
shift
packages=("$@")
if ((${#packages[@]} == 0)); then
	mapfile -t packages < <(go list -f '{{.Dir}}' ./... | sed "s|^$PWD/||" | while read -r dir; do
		if grep -qs '^func Fuzz' "$dir"/*_test.go; then echo "$dir"; fi
	done)
fi
bins=$(mktemp -d)
trap 'rm -rf "$bins"' EXIT

# one FOLDER TARGET: the binary is built once a package, so that two targets of it do not build it twice. By default the search for the shortest
# input with the same coverage may take a minute, which here is all there is.
one() {
	local out bin cache
	bin=$BINS/${1//\//-}
	cache=$(go env GOCACHE)/fuzz/$(go list "./$1")
	if out=$(cd "$1" && "$bin" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$TIME" -test.fuzzminimizetime 2s \
		-test.fuzzcachedir "$cache" -test.parallel 1 2>&1); then
		printf 'ok    %-20s %-20s %s, %s\n' "$1" "$2" "$TIME" "$(grep -o 'execs: [0-9]*' <<<"$out" | tail -1)"
	else
		printf 'FAIL  %-20s %s\n%s\n' "$1" "$2" "$out"
		return 1
	fi
}
export -f one
export BINS=$bins TIME=$time

for package in "${packages[@]}"; do
	go test -c -fuzz . -o "$bins/${package//\//-}" "./$package"
	grep -ho '^func Fuzz[A-Za-z0-9_]*' "$package"/*_test.go | sed "s|^func |$package |" >>"$bins/targets"
done
echo "$(wc -l <"$bins/targets") fuzz targets, $time each"
xargs -P "${FUZZERS:-2}" -n 2 bash -c 'one "$0" "$1"' <"$bins/targets"
