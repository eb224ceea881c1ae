package machine

import "testing"

func TestParse(t *testing.T) {
	if got := ParseModel("processor\t: 0\nmodel name\t: AMD  EPYC 7B13\nmodel name\t: other\n"); got != "AMD EPYC 7B13" {
		t.Errorf("%q", got)
	}
	if got := ParseModel("no such line\n"); got == "" {
		t.Error("no name at all")
	}
	if got, err := ParseTotal("MemFree: 1 kB\nMemTotal:       1024 kB\n"); err != nil || got != 1<<20 {
		t.Errorf("%d %v", got, err)
	}
	for _, bad := range []string{"", "MemTotal: 5 MB\n", "MemTotal: x kB\n"} {
		if got, err := ParseTotal(bad); err == nil {
			t.Errorf("%q: %d", bad, got)
		}
	}
}

func TestString(t *testing.T) {
	m := Machine{CPU: "X 1", Cores: 2, RAM: 24 << 30, Kernel: "6.1", Go: "go1.26", Commit: "abc-dirty"}
	if got := m.String(); got != "X 1, 2 cores, 24 GiB, Linux 6.1, go1.26, commit abc-dirty" {
		t.Error(got)
	}
}

func TestSlug(t *testing.T) {
	m := Machine{CPU: "Intel(R) Xeon(R) CPU @ 2.20GHz/x", Cores: 8}
	if got := m.Slug(); got != "intel-r-xeon-r-cpu-2-20ghz-x-8-cores" {
		t.Error(got)
	}
}
