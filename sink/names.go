package sink

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// spellings finds those queues whose names are another's but for the case of letters.
type spellings struct {
	mu     sync.Mutex
	folded map[string][]string // of the queues that have a row, by their name in lower case
}

func (n *spellings) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.folded == nil {
		n.folded = map[string][]string{}
	}
	key := strings.ToLower(name)
	n.folded[key] = append(n.folded[key], name)
}

func (n *spellings) remove(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := strings.ToLower(name)
	rest := slices.DeleteFunc(n.folded[key], func(other string) bool { return other == name })
	if n.folded[key] = rest; len(rest) == 0 {
		delete(n.folded, key)
	}
}

// like is a queue whose name differs from this one in case alone, the first in order; "" = there is none.
func (n *spellings) like(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := ""
	for _, other := range n.folded[strings.ToLower(name)] {
		if other != name && (first == "" || other < first) {
			first = other
		}
	}
	return first
}

var (
	numbers = regexp.MustCompile(`^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:nan|inf|infinity))$`)
	dates   = regexp.MustCompile(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ][0-9:.]+([zZ]|[+-][0-9:]+)?)?$`)
)

// takenFor says what readers make of a name in a path when they guess its type; "" = a text, which it is. Each of them is one for some reader: DuckDB,
// Polars, Spark or pandas.
func takenFor(name string) string {
	switch {
	case strings.EqualFold(name, "null"), name == "__HIVE_DEFAULT_PARTITION__":
		return "NULL"
	case strings.EqualFold(name, "true"), strings.EqualFold(name, "false"):
		return "a boolean"
	case numbers.MatchString(name):
		return "a number"
	case dates.MatchString(name):
		return "a date"
	}
	return ""
}

// noteName warns of a name once, when the queue is adopted first: nothing is wrong with it, but with what readers may make of it.
func (q *queue) noteName() {
	q.mu.Lock()
	noted := q.noted
	q.noted = true
	q.mu.Unlock()
	if noted {
		return
	}
	if as := takenFor(q.name); as != "" {
		q.s.raise(q, nameTaken{as})
	}
	if other := q.s.names.like(q.name); other != "" {
		q.s.raise(q, nameLike{other})
	}
}
