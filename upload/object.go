package upload

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"

	"queen/stages"
)

// object streams one data object into a bucket: one PUT while it is not above the limit, else parts that travel while the next
// ones are still being made.
//
// Invariants:
//   - The bytes are hashed in the order in which they came, so the hash is that of the object however it travelled. Nothing is hashed
//     behind the last byte: whatever a request says of its body is known when the body is whole. (One guess is in that: an MD5 ahead of
//     time is wasted on an object that goes up in parts, so it is made when the window before went in one PUT.)
//   - No request leaves before begin has returned nil.
//   - At most Memory bytes are held. Chunks are kept, not copied, and are released when the request that carries them is over and
//     nothing can read them any more, or when the object is given up.
//   - The first failing part fails the object. Every goroutine ends before finish or abort returns, and no chunk is held then.
//   - A failed object aborts the upload it created, and no other.
//
// Outline:
//
//	write   -> keep the chunk; above the limit cut parts and send them
//	finish  -> PUT everything, or send the last part, wait, complete
//	abort   -> cancel, wait, abort the upload
type object struct {
	c           *Client
	key         string
	contentType string
	part        int64                           // bytes of a part
	limit       int64                           // bytes up to which one PUT carries all
	begin       func(ctx context.Context) error // once, right before the first request
	hook        func(point string)              // the crash point between two parts
	alone       bool                            // one part travels at a time, and write waits for it

	sha    hash.Hash
	md5    hash.Hash // only one PUT says it; of no use above the limit; nil = made when the PUT is
	size   int64
	held   []*span // parts not sent yet; all but the last are whole
	upload *parts  // nil until the limit is passed
}

// put1 is the most that one PUT carries, in bytes: what would take more memory than parts on their way do goes up in parts.
func put1(part, threshold int64) int64 { return min(threshold, (partsInFlight+1)*part) }

// Memory is how many bytes of chunks a stage with these options holds at most: what one PUT may carry and the chunk that is too much for it, or
// the parts that travel and the one that is filled. What the encoder and the edge in front of the stage hold is not in it, nor are the buffers of
// connections (some 50 KB a request).
func Memory(part, threshold int64) int64 {
	return max(put1(part, threshold)/stages.ChunkBytes+1, (partsInFlight+1)*part/stages.ChunkBytes) * stages.ChunkBytes
}

// newObject starts an object; small says that it is expected to go in one PUT.
func newObject(o StageOptions, key, contentType string, small bool, begin func(context.Context) error) *object {
	obj := &object{c: o.Client, key: key, contentType: contentType, part: o.Part, limit: put1(o.Part, o.Threshold), begin: begin, hook: o.Hook,
		sha: sha256.New()}
	if small {
		obj.md5 = md5.New()
	}
	return obj
}

// write takes a chunk over, whether it fails or not. It blocks while as many parts travel as may.
func (o *object) write(ctx context.Context, chunk stages.Chunk) error {
	if len(chunk.Data) == 0 {
		chunk.Release()
		return nil
	}
	o.sha.Write(chunk.Data)
	o.size += int64(len(chunk.Data))
	if o.md5 != nil && o.size <= o.limit {
		o.md5.Write(chunk.Data)
	}
	o.keep(chunk)
	if o.upload == nil {
		if o.size <= o.limit {
			return nil
		}
		if err := o.open(ctx); err != nil {
			return err
		}
	}
	for len(o.held) > 0 && o.held[0].size >= o.part {
		if err := o.upload.send(o.next()); err != nil {
			return err
		}
		if o.alone {
			o.upload.group.Wait() // how it went is what the next send, or wait, says
		}
	}
	if len(o.held) > 0 && !o.held[0].first {
		o.held[0].digest()
	}
	return nil
}

// keep puts a chunk into the part that it belongs to.
func (o *object) keep(chunk stages.Chunk) {
	if n := len(o.held); n == 0 || o.held[n-1].size >= o.part {
		o.held = append(o.held, &span{first: o.size == int64(len(chunk.Data))})
	}
	last := o.held[len(o.held)-1]
	last.add(chunk)
	if last.first && last.size >= o.part {
		last.sum = o.sum()
	}
}

// sum is the hash of all bytes so far.
func (o *object) sum() string { return hex.EncodeToString(o.sha.Sum(nil)) }

// next removes the first part of what is held.
func (o *object) next() *span {
	out := o.held[0]
	o.held = o.held[1:]
	return out
}

func (o *object) open(ctx context.Context) error {
	if err := o.begin(ctx); err != nil {
		return err
	}
	id, err := o.c.create(ctx, o.key, o.contentType)
	if err != nil {
		return err
	}
	o.upload = newParts(ctx, o.c, o.key, id, o.hook)
	return nil
}

// sent is what a manifest says of an object.
type sent struct {
	bytes  int64
	sha256 string
}

// whole is what a manifest says of an object whose last chunk has come.
func (o *object) whole() sent { return sent{bytes: o.size, sha256: o.sum()} }

// chunks is how many chunks are held and not on their way.
func (o *object) chunks() (n int64) {
	for _, s := range o.held {
		n += int64(len(s.chunks))
	}
	return n
}

// finish sends what is left. When it returns nil, the store has the object. parts is how many requests carried it.
func (o *object) finish(ctx context.Context) (parts int, err error) {
	sum := o.sum()
	if o.upload == nil {
		return 1, o.single(ctx, sum)
	}
	for len(o.held) > 0 {
		last := o.next()
		if last.first {
			last.sum = sum
		}
		if err := o.upload.send(last); err != nil {
			return 0, err
		}
	}
	etags, err := o.upload.wait()
	if err != nil {
		return 0, err
	}
	if err := o.c.complete(ctx, o.key, o.upload.id, etags, o.size); err != nil {
		return 0, err
	}
	o.upload = nil // there is nothing to abort any more
	return len(etags), nil
}

// single sends everything in one PUT.
func (o *object) single(ctx context.Context, sha256Hex string) error {
	if err := o.begin(ctx); err != nil {
		return err
	}
	var all [][]byte
	for _, s := range o.held {
		all = append(all, s.data()...)
	}
	if o.md5 == nil {
		o.md5 = md5.New()
		for _, data := range all {
			o.md5.Write(data)
		}
	}
	err := o.c.put(ctx, o.key, o.contentType, all, digests{sha256Hex, base64.StdEncoding.EncodeToString(o.md5.Sum(nil))})
	o.drop()
	return err
}

// drop releases what is not sent.
func (o *object) drop() {
	for _, s := range o.held {
		s.release()
	}
	o.held = nil
}

// abort ends an object that is not finished. It is safe on any object and works although ctx has ended.
func (o *object) abort(ctx context.Context) {
	o.drop()
	if u := o.upload; u != nil {
		o.upload = nil
		u.cancel(errAborted)
		u.group.Wait()
		o.c.tryAbort(ctx, o.key, u.id)
	}
}

var errAborted = errors.New("the upload was given up")
