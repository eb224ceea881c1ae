package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"queen/bench/fill"
	"queen/bench/numbers"
	"queen/bench/report"
	"queen/bench/roofline"
	"queen/upload"
)

// backfillTarget is the least share of the roofline (contract 4), by format and records an append.
func backfillTarget(format string, perAppend int) float64 {
	switch {
	case format == "parquet" && perAppend >= 100:
		return 0.90
	case format == "parquet" && perAppend >= 10:
		return 0.85
	case format == "parquet":
		return 0.80
	case perAppend >= 100:
		return 0.95
	case perAppend >= 10:
		return 0.92
	}
	return 0.85
}

// statedMB is the payload that the targets of backfill and memory are stated for, MB.
const statedMB = 2000

// encoderTarget is the least share of the bare compressor, scaleTarget the most that a record may cost with many partitions.
const (
	encoderTarget = 0.90
	scaleTarget   = 1.5
)

// Ceiling is what the roofline's process prints.
type Ceiling struct {
	Send roofline.Cost `json:"send"`
	Bare roofline.Bare `json:"bare"`
}

// sample is one backfill and the rooflines right before and right after it.
type sample struct {
	fill          mirrored
	before, after Ceiling
}

// roof is what the sample's backfill is compared with: the mean of the two, since a machine that gets slower or faster meanwhile does so
// for the backfill too.
func (s sample) roof() roofline.Cost {
	return roofline.Cost{Wall: (s.before.Send.Wall + s.after.Send.Wall) / 2, CPU: (s.before.Send.CPU + s.after.Send.CPU) / 2}
}

func (s sample) ratio() float64 {
	return numbers.Ratio(s.roof().Wall.Seconds(), s.fill.cost.Wall.Seconds())
}

func (s sample) byCPU() float64 {
	return numbers.Ratio(s.roof().CPU.Seconds(), s.fill.cost.CPU.Seconds())
}

func (b *Bench) backfills(ctx context.Context) error {
	s, err := b.store(ctx)
	if err != nil {
		return err
	}
	defer s.Kill()
	for _, perAppend := range b.Sizes.Records {
		var walls []float64 // seconds a record, by number of partitions
		for _, partitions := range b.Sizes.Partitions {
			wall, err := b.backfill(ctx, s, perAppend, partitions)
			if err != nil {
				return fmt.Errorf("%d records an append, %d partitions: %w", perAppend, partitions, err)
			}
			walls = append(walls, wall)
		}
		if len(walls) < 2 || b.format != "jsonl" {
			continue
		}
		if err := b.scaleLine(walls, perAppend); err != nil {
			return err
		}
	}
	return nil
}

// scaleLine compares the wall times of the most and the fewest partitions; both had as many records.
func (b *Bench) scaleLine(walls []float64, perAppend int) error {
	few, many := b.Sizes.Partitions[0], b.Sizes.Partitions[len(walls)-1]
	records := float64(b.Sizes.BackfillMB) * 1e6 / backfillPayload
	least, most := walls[0], walls[len(walls)-1]
	ratio := numbers.Ratio(most, least)
	return b.add(report.Line{Row: "scale.partitions", What: fmt.Sprintf("time a record, appends of %d, %d against %d partitions", perAppend, many, few),
		Target: fmt.Sprintf("<= %.2f", scaleTarget), Measured: fmt.Sprintf("%.0f ns against %.0f ns", 1e9*most/records, 1e9*least/records),
		Ratio: fmt.Sprintf("%.2f", ratio), Result: report.AtMost(ratio, scaleTarget, b.Sizes.BackfillMB >= statedMB && many >= 100_000),
		Notes: []string{fmt.Sprintf("wall time of the two backfills: %.2f s against %.2f s", most, least)}},
		"-only backfill -mb", strconv.Itoa(b.Sizes.BackfillMB), "-records", strconv.Itoa(perAppend), "-partitions", fmt.Sprintf("%d,%d", few, many))
}

// backfill measures one shape and returns the median wall time in seconds. One backfill goes before and is not counted: it fills the page
// cache, and its manifests are what the first roofline sends. From then on rooflines and backfills take turns.
func (b *Bench) backfill(ctx context.Context, s *store, perAppend, partitions int) (wall float64, err error) {
	dir, records, err := b.log(ctx, b.Sizes.BackfillMB, perAppend, partitions)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var all []sample
	var last []*upload.Manifest
	var before Ceiling
	var settings map[string]string
	var notes []string
	for run := range 1 + b.Sizes.Runs {
		settings = with(sinkOn(s, "run"+strconv.Itoa(run)), "QUEEN_S3_TARGET_MB", strconv.Itoa(b.Sizes.TargetMB), "QUEEN_S3_FORMAT", b.format)
		one, profile, err := b.backfillOnce(ctx, s, dir, settings, records)
		if err != nil {
			return 0, err
		}
		if last, err = s.manifests(ctx); err != nil {
			return 0, err
		}
		roof, err := b.roofline(ctx, s, dir, last)
		if err != nil {
			return 0, err
		}
		if run > 0 {
			all = append(all, sample{one, before, roof})
		}
		before = roof
		if notes, err = b.summary(ctx, profile); err != nil {
			return 0, err
		}
	}
	return b.backfillLines(all, last, settings, perAppend, partitions, notes)
}

func (b *Bench) backfillOnce(ctx context.Context, s *store, dir string, settings map[string]string, records int64) (m mirrored, profile string, err error) {
	if _, err := s.manifests(ctx); err != nil { // what was sent before is forgotten
		return m, "", err
	}
	q, err := b.start(ctx, dir, settings)
	if err != nil {
		return m, "", err
	}
	defer q.Kill()
	if m, err = mirror(ctx, q, fill.Queue, records, b.backfillLimit()); err != nil {
		return m, "", err
	}
	return m, q.file, q.Stop(stopLimit)
}

// backfillLimit is far above what a backfill takes: 2 MB a second, and a minute.
func (b *Bench) backfillLimit() time.Duration {
	return time.Minute + time.Duration(max(b.Sizes.BackfillMB, b.Sizes.BusyMB, b.Sizes.MemoryMB))*time.Second/2
}

// roofline sends the same windows from memory and makes sure that the objects are the same.
func (b *Bench) roofline(ctx context.Context, s *store, dir string, manifests []*upload.Manifest) (Ceiling, error) {
	var c Ceiling
	list := b.folder("manifests") + ".json"
	text, err := json.Marshal(manifests)
	if err == nil {
		err = os.WriteFile(list, text, 0o600)
	}
	if err != nil {
		return c, err
	}
	defer os.Remove(list)
	threshold := int64(64 << 20) // of QUEEN_S3_MULTIPART_THRESHOLD_MB
	err = b.helper(ctx, &c, "roofline", "-format", b.format, "-dir", dir, "-manifests", list, "-endpoint", s.url, "-threshold", strconv.FormatInt(threshold, 10))
	if err != nil {
		return c, err
	}
	sent, err := s.manifests(ctx)
	if err != nil {
		return c, err
	}
	if len(sent) != len(manifests) {
		return c, fmt.Errorf("the roofline sent %d windows, the backfill %d", len(sent), len(manifests))
	}
	for i, m := range sent {
		if m.Objects[0].SHA256 != manifests[i].Objects[0].SHA256 {
			return c, fmt.Errorf("window %d: the roofline's object is not the backfill's", m.K)
		}
	}
	return c, nil
}

// column takes one number of each sample.
func column[T any](all []T, of func(T) float64) []float64 {
	var out []float64
	for _, s := range all {
		out = append(out, of(s))
	}
	return out
}

// around is one number of each roofline in the order in which they were taken.
func around(all []sample, of func(Ceiling) float64) []float64 {
	return append([]float64{of(all[0].before)}, column(all, func(s sample) float64 { return of(s.after) })...)
}

func (b *Bench) backfillLines(all []sample, last []*upload.Manifest, settings map[string]string, perAppend, partitions int, notes []string) (float64, error) {
	gb := float64(b.Sizes.BackfillMB) / 1000
	walls := column(all, func(s sample) float64 { return s.fill.cost.Wall.Seconds() })
	roofs := around(all, func(c Ceiling) float64 { return c.Send.Wall.Seconds() })
	cpus := column(all, func(s sample) float64 { return s.fill.cost.CPU.Seconds() / gb })
	roofCPUs := around(all, func(c Ceiling) float64 { return c.Send.CPU.Seconds() / gb })
	ratios, byCPU := column(all, sample.ratio), column(all, sample.byCPU)
	readies := column(all, func(s sample) float64 { return s.fill.ready.Seconds() })
	firsts := column(all, func(s sample) float64 { return s.fill.first.Seconds() })
	wall, ratio, target := numbers.Median(walls), numbers.Median(ratios), backfillTarget(b.format, perAppend)
	var stored int64
	for _, m := range last {
		stored += m.Bytes
	}
	lines := float64(all[0].after.Bare.Lines)
	size := fmt.Sprintf("%.3f GB of payload, %.2f GB of lines, stored %.1f times smaller, in %d windows", gb, lines/1e9, lines/float64(stored), len(last))
	if b.format == "parquet" {
		size = fmt.Sprintf("%.3f GB of payload, stored %.1f times smaller than that, in %d windows", gb, gb*1e9/float64(stored), len(last))
	}
	shape := fmt.Sprintf("appends of %d, %d partitions", perAppend, partitions)
	flags := []string{"-only", b.kind, "-mb", strconv.Itoa(b.Sizes.BackfillMB), "-target-mb", strconv.Itoa(b.Sizes.TargetMB),
		"-records", strconv.Itoa(perAppend), "-partitions", strconv.Itoa(partitions)}
	err := b.add(report.Line{
		Row: "backfill." + b.format, What: map[string]string{"jsonl": "backfill, ", "parquet": "backfill, Parquet, "}[b.format] + shape, Target: fmt.Sprintf(">= %.2f of the roofline", target),
		Measured: fmt.Sprintf("%.0f MB/s, %.1f CPU-s/GB", gb*1000/wall, numbers.Median(cpus)),
		Ratio:    fmt.Sprintf("%.2f, by CPU %.2f", ratio, numbers.Median(byCPU)), Result: report.AtLeast(ratio, target, b.Sizes.BackfillMB >= statedMB),
		Notes: append([]string{
			size,
			"counted from the line that the queue's rows are read, before its first record is, to the line of its last pointer; roofline, backfill and roofline take turns",
			fmt.Sprintf("wall s: %s; rooflines around them: %s; ratios: %s", numbers.List(walls, 2), numbers.List(roofs, 2), numbers.List(ratios, 2)),
			fmt.Sprintf("CPU-s/GB of payload: %s; rooflines around them: %s; ratios by CPU: %s (median %.2f)", numbers.List(cpus, 2), numbers.List(roofCPUs, 2), numbers.List(byCPU, 2), numbers.Median(byCPU)),
			fmt.Sprintf("s until the first pointer: %s; not counted: from the sink's start until the queue's rows were read: %s", numbers.List(firsts, 2), numbers.List(readies, 2)),
			shown(settings)}, notes...),
	}, flags...)
	if err != nil {
		return 0, err
	}
	if b.format != "jsonl" { // there is no compressor to compare with: each page is one frame
		return wall, nil
	}
	return wall, b.encoderLine(all, shape, flags)
}

// encoderLine reports the encoder alone, from records in memory to nowhere, against the library on the finished lines.
func (b *Bench) encoderLine(all []sample, shape string, flags []string) error {
	lines := float64(all[0].after.Bare.Lines)
	walls := column(all, func(s sample) float64 { return s.after.Bare.Encode.Wall.Seconds() })
	bares := column(all, func(s sample) float64 { return s.after.Bare.Bare.Wall.Seconds() })
	ratios := column(all, func(s sample) float64 {
		return numbers.Ratio(s.after.Bare.Bare.Wall.Seconds(), s.after.Bare.Encode.Wall.Seconds())
	})
	byCPU := column(all, func(s sample) float64 {
		return numbers.Ratio(s.after.Bare.Bare.CPU.Seconds(), s.after.Bare.Encode.CPU.Seconds())
	})
	ratio := numbers.Median(ratios)
	return b.add(report.Line{
		Row: "encoder.jsonl", What: "encoder alone, " + shape, Target: ">= 0.90 of bare zstd", Measured: fmt.Sprintf("%.0f MB/s of lines", lines/1e6/numbers.Median(walls)),
		Ratio: fmt.Sprintf("%.2f", ratio), Result: report.AtLeast(ratio, encoderTarget, b.Sizes.BackfillMB >= statedMB),
		Notes: []string{
			fmt.Sprintf("wall s: %s; bare: %s; ratios: %s", numbers.List(walls, 2), numbers.List(bares, 2), numbers.List(ratios, 2)),
			fmt.Sprintf("ratios by CPU: %s (median %.2f)", numbers.List(byCPU, 2), numbers.Median(byCPU)),
			fmt.Sprintf("bare zstd: %.0f MB/s of lines", lines/1e6/numbers.Median(bares))},
	}, flags...)
}
