package snapshot

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// Names in a snapshot's folder.
const (
	manifestName = "SNAPSHOT"
	formatName   = "FORMAT"
	stateName    = "state"
	segmentsName = "segments"

	firstLine = "queen snapshot 1"
)

// Manifest is the file SNAPSHOT.
type Manifest struct {
	Seed      [16]byte // of the cluster
	Applied   uint64   // raft index of the last entry that the state has applied
	Term      uint64   // of that entry
	MembersAt uint64   // raft index of the entry that named the members of the cluster
	Members   []byte   // data of that entry
	Files     []File   // in path order
}

// File is one file of a snapshot.
type File struct {
	Path   string // in the folder, with slashes
	Length int64  // bytes; a segment may be longer
	Summed bool   // false: its content has checksums of its own
	Sum    uint32 // CRC32C of it all
}

func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// encode returns the text.
func (m *Manifest) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\nseed %x\napplied %d\nterm %d\nmembers %d %x\n", firstLine, m.Seed, m.Applied, m.Term, m.MembersAt, m.Members)
	for _, f := range m.Files {
		word := "-"
		if f.Summed {
			word = fmt.Sprintf("%08x", f.Sum)
		}
		fmt.Fprintf(&b, "file %d %s %s\n", f.Length, word, f.Path)
	}
	return append(b.Bytes(), endOf(b.Bytes())...)
}

// endOf is the last line of a text that begins so.
func endOf(text []byte) string { return fmt.Sprintf("end %08x\n", sum(text)) }

// decode reads what encode writes, and nothing else.
func decode(text []byte) (*Manifest, error) {
	if line, _, found := bytes.Cut(text, []byte("\n")); found && string(line) != firstLine && strings.HasPrefix(string(line), "queen snapshot ") {
		return nil, fmt.Errorf("version %q is not known, this binary reads %q", line, firstLine)
	}
	body := bytes.TrimSuffix(text, []byte("\n"))
	last := bytes.LastIndexByte(body, '\n') + 1
	if string(text[last:]) != endOf(text[:last]) {
		return nil, errors.New("its checksum differs, the file is cut or damaged")
	}
	lines := strings.Split(strings.TrimSuffix(string(text[:last]), "\n"), "\n")
	const head = 5
	if len(lines) < head {
		return nil, errors.New("it has too few lines")
	}
	m := &Manifest{}
	var seed, members string
	for i, read := range []struct {
		format string
		into   []any
	}{
		{"seed %s", []any{&seed}},
		{"applied %d", []any{&m.Applied}},
		{"term %d", []any{&m.Term}},
		{"members %d %s", []any{&m.MembersAt, &members}},
	} {
		if _, err := fmt.Sscanf(lines[i+1], read.format, read.into...); err != nil {
			return nil, fmt.Errorf("line %d, %q: %w", i+2, lines[i+1], err)
		}
	}
	if n, err := hex.Decode(m.Seed[:], []byte(seed[:min(len(seed), 32)])); err != nil || n != len(m.Seed) {
		return nil, fmt.Errorf("seed %q", seed)
	}
	var err error
	if m.Members, err = hex.DecodeString(members); err != nil {
		return nil, fmt.Errorf("members %q: %w", members, err)
	}
	for i, line := range lines[head:] {
		f, err := parseFile(line)
		if err != nil {
			return nil, fmt.Errorf("line %d, %q: %w", head+i+1, line, err)
		}
		m.Files = append(m.Files, f)
	}
	if !bytes.Equal(m.encode(), text) {
		return nil, errors.New("it is not written as a snapshot's is")
	}
	return m, nil
}

func parseFile(line string) (f File, err error) {
	var word string
	if _, err := fmt.Sscanf(line, "file %d %s %s", &f.Length, &word, &f.Path); err != nil {
		return f, err
	}
	for part := range strings.SplitSeq(f.Path, "/") {
		if part == "" || part == "." || part == ".." {
			return f, errors.New("a path that leads out of the folder")
		}
	}
	if f.Summed = word != "-"; f.Summed {
		_, err = fmt.Sscanf(word, "%08x", &f.Sum)
	}
	return f, err
}
