package stages_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"queen/stages"
)

// taker asks for memory on a goroutine of its own.
type taker struct {
	charged int64
	err     error
	done    bool
	cancel  context.CancelCauseFunc
}

func take(t *testing.T, b *stages.Budget, owner string, bytes int64, then func()) *taker {
	ctx, cancel := context.WithCancelCause(t.Context())
	x := &taker{cancel: cancel}
	go func() {
		x.charged, x.err = b.Take(ctx, owner, bytes)
		x.done = true
		if then != nil {
			then()
		}
	}()
	synctest.Wait()
	return x
}

// One bucket's requests pile up; another's is served as soon as what is held is given back.
func TestBudgetGoesRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := stages.NewBudget(100, nil)
		var order []string
		held := take(t, b, "dead", 100, nil)
		for i := range 3 {
			take(t, b, "dead", 60, func() { order = append(order, fmt.Sprint("dead", i)) })
		}
		take(t, b, "well", 60, func() { order = append(order, "well") })
		if !held.done || !b.Waiting() || b.Used() != 100 {
			t.Fatalf("held %v, waiting %v, used %d", held.done, b.Waiting(), b.Used())
		}
		b.Give(held.charged)
		for range 4 {
			synctest.Wait()
			b.Give(60)
		}
		if got := strings.Join(order, " "); got != "well dead0 dead1 dead2" || b.Used() != 0 || b.Waiting() {
			t.Errorf("order %s, used %d", got, b.Used())
		}
	})
}

// A large request is passed by small ones that would fit once for each other owner at most, and one above the limit gets all of it.
func TestBudgetDoesNotStarveTheLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := stages.NewBudget(100, nil)
		small := take(t, b, "a", 30, nil)
		large := take(t, b, "a", 1000, nil)
		same := take(t, b, "a", 10, nil)
		other := take(t, b, "b", 10, nil)
		again := take(t, b, "b", 10, nil)
		if large.done || same.done || !other.done || again.done {
			t.Fatalf("large %v, same owner %v, other owner %v and %v", large.done, same.done, other.done, again.done)
		}
		b.Give(small.charged)
		b.Give(other.charged)
		synctest.Wait()
		if !large.done || large.charged != 100 || same.done || again.done {
			t.Errorf("large %v with %d, later ones %v %v", large.done, large.charged, same.done, again.done)
		}
		b.Give(large.charged)
		synctest.Wait()
		if !same.done || !again.done || b.Used() != 20 {
			t.Errorf("later ones %v %v, used %d", same.done, again.done, b.Used())
		}
	})
}

// Who gives up waiting holds nothing and is in nobody's way.
func TestBudgetCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held []int64
		b, gone := stages.NewBudget(100, func(bytes int64) { held = append(held, bytes) }), errors.New("gone")
		first := take(t, b, "a", 90, nil)
		large := take(t, b, "a", 50, nil)
		small := take(t, b, "b", 10, nil)
		large.cancel(gone)
		synctest.Wait()
		if !errors.Is(large.err, gone) || large.charged != 0 || !small.done || b.Used() != 100 {
			t.Errorf("large %v %d, small %v, used %d", large.err, large.charged, small.done, b.Used())
		}
		b.Give(first.charged)
		b.Give(small.charged)
		if b.Used() != 0 || b.Waiting() || !slices.Equal(held, []int64{90, 100, 10, 0}) {
			t.Errorf("used %d, told %v", b.Used(), held)
		}
		if _, err := b.Take(t.Context(), "a", -1); err == nil {
			t.Error("a negative request was taken")
		}
	})
}

// Whatever is asked for, cancelled and given back: never more than the limit, everyone is served, and in the end nothing is held.
func TestBudgetHolds(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			b := stages.NewBudget(100, nil)
			var most, served, ended atomic.Int64
			var all []context.CancelCauseFunc
			for i := range 200 {
				owner, bytes, holds := fmt.Sprint(rng.IntN(5)), rng.Int64N(150), time.Duration(rng.IntN(1000))*time.Millisecond
				ctx, cancel := context.WithCancelCause(t.Context())
				all = append(all, cancel)
				go func() {
					defer ended.Add(1)
					charged, err := b.Take(ctx, owner, bytes)
					if err != nil {
						return
					}
					for was := most.Load(); b.Used() > was && !most.CompareAndSwap(was, b.Used()); was = most.Load() {
					}
					served.Add(1)
					<-time.After(holds)
					b.Give(charged)
				}()
				if i%7 == 0 {
					all[rng.IntN(len(all))](errors.New("gone"))
				}
				if i%3 == 0 {
					<-time.After(time.Duration(rng.IntN(500)) * time.Millisecond)
				}
			}
			<-time.After(time.Hour)
			if most.Load() > 100 || b.Used() != 0 || b.Waiting() || served.Load() < 150 || ended.Load() != 200 {
				t.Errorf("seed %d: most %d, used %d, served %d, ended %d", seed, most.Load(), b.Used(), served.Load(), ended.Load())
			}
		})
	}
}
