package codec

import (
	"io"
	"sync"
)

// Pace keeps compressors from taking every processor while others need one. A broker that mirrors a backlog takes pushes too, and a push that
// waits for a processor at each of its steps takes five times as long. So while there are pushes, no more jobs are compressed at once than leave
// one processor free; without pushes a compressor takes what it can get. No byte of an object depends on it: only when a job begins does.
//
// Invariants:
//   - A compressor that has no job in flight may always begin one, so none waits for ever, and each is at least as fast as one processor.
//   - Only a job that is being compressed counts: the library has written nothing of it yet.
//   - A stream that has failed or ended has no job in flight.
type Pace struct {
	pushes     func() uint64 // how many there were so far
	processors func() int    // how many the process may use

	mu     sync.Mutex
	moved  sync.Cond // a job ended, or a stream did
	flying int       // jobs in flight, of all streams
}

// NewPace returns the pace of a process. pushes is how many there were so far, and processors how many it may use: they are asked often, from
// any goroutine.
func NewPace(pushes func() uint64, processors func() int) *Pace {
	p := &Pace{pushes: pushes, processors: processors}
	p.moved.L = &p.mu
	return p
}

// waryJobs is for how many jobs a push counts, that is for about a tenth of a second.
const waryJobs = 16

// paced is one object on its way through a compressor that cuts its input into jobs of the same size and writes once when it begins the object and
// once for each job, in order. (The library does, at the pinned version: TestJobsAreSeen.)
type paced struct {
	Writer
	p   *Pace
	w   io.Writer
	job int // bytes of input of a job
	fed int // bytes of the job that is being filled

	seen uint64 // pushes
	wary int    // jobs for which those count

	// Under p.mu.
	flying int // jobs in flight
	writes int // of the compressor
	over   bool
}

// writer starts an object with a compressor that fresh makes.
func (p *Pace) writer(w io.Writer, job int, fresh func(w io.Writer) (Writer, error)) (Writer, error) {
	s := &paced{p: p, w: w, job: job, seen: p.pushes()}
	var err error
	s.Writer, err = fresh(output{s})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Write feeds the compressor, and waits before the byte that begins a job. What is before it is taken while the last one is compressed.
func (s *paced) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		part := b[:min(len(b), s.job-s.fed)]
		whole := s.fed+len(part) == s.job
		if whole {
			s.begin()
		}
		var m int
		m, err = s.Writer.Write(part)
		n, b = n+m, b[len(part):]
		if s.fed += len(part); whole {
			s.fed = 0
		}
	}
	return n, err
}

// begin counts a job, once it may begin.
func (s *paced) begin() {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.listen()
	for !s.over && s.wary > 0 && s.flying > 0 && s.p.flying >= max(1, s.p.processors()-1) {
		s.p.moved.Wait()
	}
	if !s.over {
		s.flying++
		s.p.flying++
	}
}

// listen looks for pushes. Those that find no processor are not seen, so a stream stays wary for a while.
func (s *paced) listen() {
	if now := s.p.pushes(); now != s.seen {
		s.seen, s.wary = now, waryJobs
	} else if s.wary > 0 {
		s.wary--
	}
}

// output is what the compressor writes to.
type output struct{ s *paced }

func (o output) Write(b []byte) (int, error) {
	o.s.wrote()
	n, err := o.s.w.Write(b)
	if err != nil {
		o.s.end()
	}
	return n, err
}

// wrote counts down the job that this write is of.
func (s *paced) wrote() {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.writes++; s.writes > 1 && s.flying > 0 { // the last job, which Close begins, is not counted
		s.flying--
		s.p.flying--
		s.p.moved.Broadcast()
	}
}

// end takes back what the stream has in flight.
func (s *paced) end() {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.over = true
	s.p.flying -= s.flying
	s.flying = 0
	s.p.moved.Broadcast()
}

func (s *paced) Close() error {
	defer s.end()
	return s.Writer.Close()
}

func (s *paced) Abort() {
	s.end()
	s.Writer.Abort()
}
