package main

import (
	"slices"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	o, err := parse(nil)
	if err != nil || o.sizes.BackfillMB != quick().BackfillMB || len(o.only) != 5 {
		t.Errorf("%+v %v", o, err)
	}
	o, err = parse([]string{"-push", "7s", "-full", "-records", "5,6", "-only", "push"})
	if err != nil || o.sizes.BackfillMB != 2000 || o.sizes.Push != 7*time.Second || !slices.Equal(o.sizes.Records, []int{5, 6}) || o.title != "full profile" {
		t.Errorf("%+v %v", o, err)
	}
	for _, bad := range [][]string{{"-mb", "0"}, {"-records", "1,x"}, {"-records", "0"}, {"extra"}, {"-runs", "-1"}} {
		if o, err := parse(bad); err == nil {
			t.Errorf("%v: %+v", bad, o)
		}
	}
}
