package main

import (
	"slices"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	o, err := parse(nil)
	if err != nil || o.sizes.BackfillMB != quick().BackfillMB || len(o.only) != 9 || o.results != "" {
		t.Errorf("%+v %v", o, err)
	}
	o, err = parse([]string{"-push", "7s", "-full", "-records", "5,6", "-only", "push"})
	if err != nil || o.sizes.BackfillMB != 2000 || o.sizes.Push != 7*time.Second || !slices.Equal(o.sizes.Records, []int{5, 6}) || o.title != "full profile" {
		t.Errorf("%+v %v", o, err)
	}
	o, err = parse([]string{"-budgets", "64", "-targets", "2048", "-appends", "1", "-results", "d", "-profile", "p", "-only", "memory,lag"})
	if s := o.sizes; err != nil || !slices.Equal(s.Budgets, []int{64}) || !slices.Equal(s.Targets, []int{2048}) || !slices.Equal(s.Appends, []int{1}) ||
		o.results != "d" || o.profile != "p" || !slices.Equal(o.only, []string{"memory", "lag"}) {
		t.Errorf("%+v %v", o, err)
	}
	for _, bad := range [][]string{{"-mb", "0"}, {"-records", "1,x"}, {"-records", "0"}, {"extra"}, {"-runs", "-1"}, {"-only", "push,nothing"}, {"-lag", "1ms"}, {"-budgets", ""}} {
		if o, err := parse(bad); err == nil {
			t.Errorf("%v: %+v", bad, o)
		}
	}
}
