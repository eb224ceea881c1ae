package command_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"queen/broker/command"
)

func checksum(b []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// FuzzDecode: whatever is accepted is what the encoder writes for it.
func FuzzDecode(f *testing.F) {
	f.Add(exampleEntry())
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, entry []byte) {
		commands, err := command.Decode(entry)
		if err != nil {
			return
		}
		again := command.AppendEntry(nil)
		for _, c := range commands {
			again = command.AppendCommand(again, c)
		}
		if !bytes.Equal(again, entry) {
			t.Fatalf("accepted %x, which is %x", entry, again)
		}
	})
}

// FuzzBodies: the same for the bodies, whose checksum the fuzzer need not guess.
func FuzzBodies(f *testing.F) {
	f.Add(byte(0), examplePush().Append(nil))
	f.Add(byte(1), exampleKV().Append(nil))
	f.Add(byte(2), exampleConfigure().Append(nil))
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		var again []byte
		switch kind % 3 {
		case 0:
			p, err := command.DecodePush(body)
			if err != nil {
				return
			}
			again = p.Append(nil)
		case 1:
			k, err := command.DecodeKV(body)
			if err != nil {
				return
			}
			again = k.Append(nil)
		case 2:
			c, err := command.DecodeConfigure(body)
			if err != nil {
				return
			}
			again = c.Append(nil)
		}
		if !bytes.Equal(again, body) {
			t.Fatalf("accepted %x, which is %x", body, again)
		}
	})
}
