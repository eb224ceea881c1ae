package command_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"queen/broker/command"
	"queen/internal/hostile"
)

func checksum(b []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

const commandHead = 36 // bytes before the body

// sealed puts the checksums of the commands of an entry right, as far as their lengths make sense: the fuzzer need not guess them.
func sealed(entry []byte) []byte {
	out := bytes.Clone(entry)
	for at := 1; len(out)-at >= commandHead; {
		n := int(binary.BigEndian.Uint32(out[at+4:]))
		if n > len(out)-at-commandHead {
			break
		}
		body := out[at+commandHead:][:n]
		copy(out[at+commandHead-4:], checksum(append(bytes.Clone(out[at:at+commandHead-4]), body...)))
		at += commandHead + n
	}
	return out
}

// FuzzDecode: whatever is accepted is what the encoder writes for it, allocates a few times its own size, and with one bit changed,
// wherever it is, is refused.
func FuzzDecode(f *testing.F) {
	f.Add(exampleEntry(), uint32(0))
	f.Add([]byte{1}, uint32(3))
	f.Fuzz(func(t *testing.T, entry []byte, bit uint32) {
		if commands, err := command.Decode(entry); err == nil {
			same(t, commands, entry)
		}
		entry = sealed(entry)
		var commands []command.Command
		var err error
		hostile.Bounded(t, len(entry), 8, func() { commands, err = command.Decode(entry) })
		if err != nil {
			return
		}
		same(t, commands, entry)
		bad := hostile.Flip(entry, bit)
		if len(commands) > 0 || bad[0] != entry[0] { // an entry without commands is its version byte
			if c, err := command.Decode(bad); err == nil {
				t.Fatalf("%x with bit %d changed is accepted as %+v", entry, bit, c)
			}
		}
	})
}

func same(t *testing.T, commands []command.Command, entry []byte) {
	t.Helper()
	again := command.AppendEntry(nil)
	for _, c := range commands {
		again = command.AppendCommand(again, c)
	}
	if !bytes.Equal(again, entry) {
		t.Fatalf("accepted %x, which is %x", entry, again)
	}
}

// FuzzBodies: whatever is accepted as a body is what the encoder writes for it, and allocates a few times its own size. A checksum is
// beside a body and not in it.
func FuzzBodies(f *testing.F) {
	f.Add(byte(0), examplePush().Append(nil))
	f.Add(byte(1), exampleKV().Append(nil))
	f.Add(byte(2), exampleConfigure().Append(nil))
	f.Add(byte(3), exampleRetain().Append(nil))
	f.Add(byte(4), exampleDelete().Append(nil))
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		again := body
		hostile.Bounded(t, len(body), 64, func() {
			switch kind % 5 {
			case 0:
				if p, err := command.DecodePush(body); err == nil {
					again = p.Append(nil)
				}
			case 1:
				if k, err := command.DecodeKV(body); err == nil {
					again = k.Append(nil)
				}
			case 2:
				if c, err := command.DecodeConfigure(body); err == nil {
					again = c.Append(nil)
				}
			case 3:
				if r, err := command.DecodeRetain(body); err == nil {
					again = r.Append(nil)
				}
			case 4:
				if d, err := command.DecodeDelete(body); err == nil {
					again = d.Append(nil)
				}
			}
		})
		if !bytes.Equal(again, body) {
			t.Fatalf("accepted %x, which is %x", body, again)
		}
	})
}
