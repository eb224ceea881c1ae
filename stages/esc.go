package stages

// Esc writes a name so that it can stand in an object key and in a KV key of the sink: the bytes A-Z a-z 0-9 . _ - stay, and
// every other byte becomes % and two upper-case hex digits (docs/formats.md section 7). Distinct names stay distinct.
func Esc(name string) string {
	plain := 0
	for i := 0; i < len(name); i++ {
		if kept(name[i]) {
			plain++
		}
	}
	if plain == len(name) {
		return name
	}
	const digits = "0123456789ABCDEF"
	out := make([]byte, 0, plain+3*(len(name)-plain))
	for i := 0; i < len(name); i++ {
		if c := name[i]; kept(c) {
			out = append(out, c)
		} else {
			out = append(out, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(out)
}

func kept(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}
