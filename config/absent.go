package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// absent lists variables of the product whose wire contract this broker matches, for which there is nothing here. One that is
// set gets one warning (contract R1), because silence would let its owner believe that it works.
func absent() []string {
	return []string{
		"DEFAULT_SUBSCRIPTION_MODE", "JWT_ALGORITHM", "JWT_AUDIENCE", "JWT_CLOCK_SKEW", "JWT_ISSUER", "JWT_JWKS_URL",
		"JWT_PUBLIC_KEY", "JWT_ROLES_ARRAY_CLAIM", "JWT_ROLES_CLAIM", "JWT_ROLE_ADMIN", "JWT_ROLE_READ_ONLY",
		"JWT_ROLE_READ_WRITE", "JWT_ROLE_WRITE_ONLY", "JWT_SECRET", "JWT_SKIP_PATHS", "PARTITION_CLEANUP_DAYS",
		"POP_DEFAULT_TIMEOUT_MS", "RETENTION_INTERVAL",
		"QUEEN_CONSUME_CHECKPOINT_MS", "QUEEN_CONSUME_FAST", "QUEEN_KV_TRUSTED_PROXY",
		"QUEEN_POP_AUTOPILOT", "QUEEN_PROXY_CP_TOKEN", "QUEEN_PROXY_EMBEDDED", "QUEEN_PROXY_PORT",
		"QUEEN_PROXY_SHARED_HOSTS", "QUEEN_PROXY_TENANT_HEADER", "QUEEN_QLOG_LANES", "QUEEN_QLOG_SHARDS",
		"QUEEN_QLOG_ZSTD_LEVEL", "QUEEN_RAFT_APPLY_SHARDS", "QUEEN_RAFT_APPLY_SKIP", "QUEEN_RAFT_BATCH_MAX_BYTES",
		"QUEEN_RAFT_BATCH_MAX_CMDS", "QUEEN_RAFT_CLIENT_OFFLOAD", "QUEEN_RAFT_CLUSTER_VERSION_MS",
		"QUEEN_RAFT_DISK_HIGH_PCT", "QUEEN_RAFT_DISK_LOW_PCT", "QUEEN_RAFT_DURABLE_EVERY_BYTES",
		"QUEEN_RAFT_DURABLE_EVERY_MS", "QUEEN_RAFT_ELECTION_MS", "QUEEN_RAFT_ENTRY_MAX_BYTES", "QUEEN_RAFT_FORCE_RECOVER",
		"QUEEN_RAFT_FWD_STREAMS", "QUEEN_RAFT_GROUPS", "QUEEN_RAFT_IDLE_UNLOAD_S", "QUEEN_RAFT_LANES",
		"QUEEN_RAFT_LEADER_LEASE_MS", "QUEEN_RAFT_MAX_CLOCK_SKEW_MS",
		"QUEEN_RAFT_PIPELINE", "QUEEN_RAFT_PROMOTE_MAX_LAG", "QUEEN_RAFT_PURGE_HOLD_S", "QUEEN_RAFT_READY_LAG_ENTRIES",
		"QUEEN_RAFT_READY_LAG_MS", "QUEEN_RAFT_READY_QUORUM_MS", "QUEEN_RAFT_REPLICATOR",
		"QUEEN_RAFT_REQUEST_ID_WINDOW_S", "QUEEN_RAFT_RETENTION_SCAN_PER_S", "QUEEN_RAFT_SEAL_AGE_S",
		"QUEEN_RAFT_SEGMENT_BYTES", "QUEEN_RAFT_TIMER_TICK_MS", "QUEEN_RAFT_TRACE_RETENTION_S",
		"QUEEN_RAFT_TXN_WINDOW_MIN_S", "QUEEN_STMT_TIMEOUT_MS", "QUEEN_TENANCY_HEADER", "QUEEN_TENANT_GROUPS",
	}
}

// absentFamilies are prefixes of such variables.
func absentFamilies() []string { return []string{"QUEEN_RAFT_ADMIT_", "QUEEN_RAFT_SCRUB_"} }

// Leftovers of the standalone sink: named in one warning and ignored (contract S11).
func leftovers() []string { return []string{"QUEEN_S3_LISTEN", "QUEEN_S3_LOG_FORMAT"} }

// warnings says, one line each, what of the environment has no effect. sink tells whether the sink runs.
func warnings(env environment, sink bool) []string {
	known := map[string]bool{"QUEEN_S3_PARTITIONS": true}
	for _, s := range Settings() {
		known[s.Env] = true
	}
	var out, left []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		switch {
		case slices.Contains(leftovers(), name):
			left = append(left, name)
		case known[name]:
		case isAbsent(name):
			out = append(out, name+" is set, but this build has nothing that it would change: ignored")
		case strings.HasPrefix(name, "QUEEN_"):
			out = append(out, name+" is not a setting, and is ignored; did you mean "+nearest(name)+"?")
		}
	}
	if len(left) > 0 {
		out = append(out, strings.Join(left, " and ")+" belonged to the standalone sink: ignored")
	}
	return append(out, noEffect(env, sink)...)
}

// noEffect names settings that exist and change nothing as things are.
func noEffect(env environment, sink bool) []string {
	if _, ok := env["QUEEN_S3_QUEUES"]; ok && !sink {
		return []string{"QUEEN_S3_QUEUES is set, but QUEEN_S3_EMBEDDED is not true: the sink does not run"}
	}
	return nil
}

func isAbsent(name string) bool {
	return slices.Contains(absent(), name) ||
		slices.ContainsFunc(absentFamilies(), func(p string) bool { return strings.HasPrefix(name, p) })
}

// nearest is the setting whose name is the fewest edits away; the first in the order of the table where several are.
func nearest(name string) string {
	best, least := "", -1
	for _, s := range Settings() {
		if d := distance(name, s.Env); least < 0 || d < least {
			best, least = s.Env, d
		}
	}
	return best
}

// distance is the number of bytes to insert, delete or replace that make b out of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// refuseUnsafe ends the boot where ignoring a variable would be worse than not starting: an open door where the owner asked for a
// closed one.
func refuseUnsafe(env environment) error {
	if v, ok := env["JWT_ENABLED"]; ok && !isOff(v) {
		return &Error{Message: "JWT_ENABLED is set, and this build does not check tokens: it would serve everyone"}
	}
	return nil
}

func isOff(v string) bool {
	return slices.Contains([]string{"false", "0", "no", "off"}, strings.ToLower(v))
}

// refusePartitions reads a static partition list so that it can say precisely what it refuses: a window closes only against
// what discovery reports, so no list of partitions can be complete.
func refusePartitions(env environment) error {
	const name = "QUEEN_S3_PARTITIONS"
	v, ok := env[name]
	if !ok {
		return nil
	}
	queues, partitions, err := countPartitions(v)
	if err != nil {
		return fmt.Errorf("%s=%s %w, and a static partition list is refused anyway: unset it", name, oneLine(v), err)
	}
	return fmt.Errorf("%s names %d partitions of %s, but a window can only close against what discovery reports: unset it",
		name, partitions, oneLine(strings.Join(queues, ", ")))
}

// maxRange is the most names that one range of a static partition list may stand for.
const maxRange = 1_000_000

// countPartitions reads queue:0..1023,queue2:a,b: an item without a colon belongs to the queue before it.
func countPartitions(v string) (queues []string, partitions int, err error) {
	for item := range strings.SplitSeq(v, ",") {
		queue, rest, ok := strings.Cut(item, ":")
		if ok {
			if queue = strings.TrimSpace(queue); queue == "" {
				return nil, 0, fmt.Errorf("has a list without a queue name")
			}
			queues = append(queues, queue)
			item = rest
		}
		if len(queues) == 0 {
			return nil, 0, fmt.Errorf("starts without a queue name and a colon")
		}
		n, err := countItem(strings.TrimSpace(item))
		if err != nil {
			return nil, 0, err
		}
		partitions += n
	}
	return queues, partitions, nil
}

func countItem(item string) (int, error) {
	if item == "" {
		return 0, fmt.Errorf("has an empty partition name")
	}
	first, last, ok := strings.Cut(item, "..")
	if !ok {
		return 1, nil
	}
	from, err1 := strconv.ParseUint(first, 10, 63)
	to, err2 := strconv.ParseUint(last, 10, 63)
	switch {
	case err1 != nil || err2 != nil:
		return 1, nil // a name with two dots in it
	case to < from:
		return 0, fmt.Errorf("has a range %s that runs backwards", item)
	case to-from >= maxRange:
		return 0, fmt.Errorf("has a range %s of more than %d names", item, maxRange)
	}
	return int(to-from) + 1, nil
}
