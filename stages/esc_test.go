package stages

import (
	"net/url"
	"regexp"
	"testing"
)

func TestEsc(t *testing.T) {
	tests := []struct{ name, want string }{
		{"", ""},
		{"orders", "orders"},
		{"a.b_c-1", "a.b_c-1"},
		{"AZaz09", "AZaz09"},
		{"a b", "a%20b"},
		{"a/b", "a%2Fb"},
		{"a=b", "a%3Db"},
		{"a:b", "a%3Ab"},
		{"a+b", "a%2Bb"},
		{"a~b", "a%7Eb"},
		{"a%20b", "a%2520b"},
		{"50%", "50%25"},
		{".", "."},
		{"..", ".."},
		{"../../etc", "..%2F..%2Fetc"},
		{"ключ", "%D0%BA%D0%BB%D1%8E%D1%87"},
		{"注文", "%E6%B3%A8%E6%96%87"},
		{"🛒", "%F0%9F%9B%92"},
		{"\u00e9", "%C3%A9"},
		{"e\u0301", "e%CC%81"},
		{"007", "007"},
		{"__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"},
		{"\x00\n\"{}<script>", "%00%0A%22%7B%7D%3Cscript%3E"},
		{"tenant=x", "tenant%3Dx"},
		{"_queen", "_queen"},
		{"\xff\x7f", "%FF%7F"},
	}
	for _, tt := range tests {
		if got := Esc(tt.name); got != tt.want {
			t.Errorf("Esc(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Whatever the bytes of a name, its escaped form holds only kept bytes and % with two upper-case digits, decodes to the name, so no other name
// has it, and is made of the forms of its parts.
func FuzzEsc(f *testing.F) {
	f.Add("a b/ключ%2F~\x00")
	escaped := regexp.MustCompile(`^([A-Za-z0-9._-]|%[0-9A-F]{2})*$`)
	f.Fuzz(func(t *testing.T, name string) {
		esc := Esc(name)
		if !escaped.MatchString(esc) {
			t.Fatalf("Esc(%q) = %q", name, esc)
		}
		if back, err := url.PathUnescape(esc); err != nil || back != name {
			t.Fatalf("Esc(%q) = %q decodes to %q, %v", name, esc, back, err)
		}
		if cut := len(name) / 2; Esc(name[:cut])+Esc(name[cut:]) != esc {
			t.Fatalf("Esc(%q) = %q is not made of its parts", name, esc)
		}
	})
}
