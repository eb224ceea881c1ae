// Package rounds says how often a test repeats what it repeats: as often as it takes to meet rare cases, or, with -short, as often as it takes to
// meet each kind of case once. `make race` is short: the detector slows a round down ten times, and one round shows a race as well as twenty.
package rounds

import "testing"

// Of is whole, or with -short the smaller number.
func Of(whole, short int) int {
	if testing.Short() {
		return short
	}
	return whole
}
