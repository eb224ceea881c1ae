package lake

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"queen/stages"
)

// Place is where a reader finds a lake.
type Place struct {
	Bucket   string // "" = a folder
	Endpoint string // of the store, https://...; "" = AWS
	Region   string
	Folder   string // path of the folder, where Bucket is ""
}

// Engines are what DDL knows, by the name that --for takes.
func Engines() []string { return slices.Sorted(maps.Keys(dialects())) }

// dialects write the statements for one queue.
func dialects() map[string]func(t *table) string {
	return map[string]func(*table) string{"duckdb": duckDB, "clickhouse": clickHouse, "spark": spark, "athena": athena, "trino": trino}
}

// DDL prints the statements that make each queue of a lake a view or a table of the engine: what stands in the manifests decides, so a queue whose format or
// alignment was changed is read whole. Columns are those of docs/formats.md section 7, and dt and hour of the path.
func DDL(ctx context.Context, store Store, o Options, engine string, at Place, to io.Writer) (Summary, error) {
	write := dialects()[engine]
	if write == nil {
		return Summary{}, fmt.Errorf("no statements for %q: there are %s", engine, strings.Join(Engines(), ", "))
	}
	a := &audit{store: store, options: o, report: func(Fault) {}}
	queues, err := a.list(ctx)
	if err != nil {
		return a.summary, err
	}
	names := map[string]bool{}
	for _, q := range queues {
		s, err := a.stats(ctx, q)
		if err != nil {
			return a.summary, err
		}
		if len(s.shapes) == 0 { // no window, or none with an object: there is nothing to read
			continue
		}
		t := &table{place: at, path: o.Prefix + "/" + q.String(), name: identifier(unescapeName(q.queue)), first: dayOf(s.first, false),
			shapes: s.shapes}
		if s.first == stages.Beginning {
			t.first = "2000-01-01"
		}
		base := t.name
		for n := 2; names[t.name]; n++ {
			t.name = fmt.Sprintf("%s_%d", base, n)
		}
		names[t.name] = true
		if _, err := fmt.Fprintf(to, "-- %s\n%s\n", q, write(t)); err != nil {
			return a.summary, err
		}
	}
	return a.summary, nil
}

// table is a queue that gets its statements.
type table struct {
	place  Place
	path   string             // key prefix, without a slash at its end
	name   string             // a plain identifier
	first  string             // day of the first window
	shapes map[shape][]string // the extensions of each, sorted
}

// identifier makes a queue's name one that every engine takes without quotes.
func identifier(name string) string {
	out := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, name)
	if out == "" || out[0] >= '0' && out[0] <= '9' || out[0] == '_' {
		return "queue_" + strings.TrimLeft(out, "_")
	}
	return out
}

// quoted is a text as SQL has it.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// url is the path behind a scheme of s3 (s3, s3a), or in the folder.
func (t *table) url(scheme string) string {
	if t.place.Bucket == "" {
		return strings.TrimSuffix(t.place.Folder, "/") + "/" + t.path
	}
	return scheme + "://" + t.place.Bucket + "/" + t.path
}

// glob matches the objects of a shape with an extension, and nothing under _queen. The extension is whole, since a partition's name in a key may end
// like one.
func (s shape) glob(ext string) string {
	if s.hour {
		return "/dt=*/hour=*/w-*." + ext
	}
	return "/dt=*/w-*." + ext
}

// any is glob for all extensions of a shape, where an engine takes a list in braces.
func (t *table) any(s shape) string {
	if exts := t.shapes[s]; len(exts) > 1 {
		return s.glob("{" + strings.Join(exts, ",") + "}")
	}
	return s.glob(t.shapes[s][0])
}

// suffix tells the tables of one queue apart where an engine needs one for each shape.
func (t *table) suffix(s shape) string {
	if len(t.shapes) == 1 {
		return ""
	}
	suffix := "_" + s.format
	if !s.hour {
		suffix += "_by_day"
	}
	return suffix
}

func (t *table) each(write func(s shape) string) []string {
	var out []string
	for _, s := range slices.SortedFunc(maps.Keys(t.shapes), func(x, y shape) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) }) {
		out = append(out, write(s))
	}
	return out
}

// one writes a table for an engine that takes every object below a location for the table's: it cannot have two over one queue's.
func (t *table) one(engine string, write func(s shape) string) string {
	if len(t.shapes) > 1 {
		return "-- no table: its objects differ in format or alignment, and " + engine + " reads all that lie under one location alike\n"
	}
	return strings.Join(t.each(write), "")
}

// idColumn is what a format calls the transaction id.
func (s shape) idColumn() string {
	if s.format == "parquet" {
		return "transaction_id"
	}
	return "transactionId"
}

// types are an engine's names for the kinds of columns that there are.
type types struct{ text, whole, stamp, json, before, between, after string }

// columns lists the columns of an object, each as the engine writes it: before, name, between, type, after.
func (s shape) columns(y types) string {
	stamp := y.stamp
	if s.format == "jsonl" && stamp == "" {
		stamp = y.text
	}
	var out []string
	for _, c := range [][2]string{{"partition", y.text}, {"offset", y.whole}, {s.idColumn(), y.text}, {"ts", stamp}, {"payload", y.json}} {
		out = append(out, y.before+c[0]+y.between+c[1]+y.after)
	}
	return strings.Join(out, ", ")
}

// partitions are the columns that the path gives.
func (s shape) partitions() []string {
	if s.hour {
		return []string{"dt", "hour"}
	}
	return []string{"dt"}
}

func view(t *table, selects []string) string {
	return "CREATE OR REPLACE VIEW " + t.name + " AS\n" + strings.Join(selects, "\nUNION ALL\n") + ";\n"
}

func duckDB(t *table) string {
	return view(t, t.each(func(s shape) string {
		hour, hive := "NULL::VARCHAR AS hour", "hive_partitioning = true, hive_types = {tenant: VARCHAR, queue: VARCHAR, dt: DATE"
		if s.hour {
			hour, hive = "hour", hive+", hour: VARCHAR"
		}
		var globs []string
		for _, ext := range t.shapes[s] {
			globs = append(globs, quoted(t.url("s3")+s.glob(ext)))
		}
		read := "read_parquet([" + strings.Join(globs, ", ") + "]"
		if s.format == "jsonl" {
			read = "read_json([" + strings.Join(globs, ", ") + "], format = 'newline_delimited', maximum_object_size = 134217728,\n    columns = {" +
				s.columns(types{"VARCHAR", "BIGINT", "TIMESTAMPTZ", "JSON", "\"", "\": '", "'"}) + "}"
		}
		return fmt.Sprintf("SELECT partition, \"offset\", %s AS transaction_id, ts, payload::JSON AS payload, dt, %s\n  FROM %s,\n    %s})", s.idColumn(), hour, read, hive)
	}))
}

func clickHouse(t *table) string {
	return view(t, t.each(func(s shape) string {
		source, format := "file("+quoted(t.url("")+t.any(s)), "JSONEachRow"
		if t.place.Bucket != "" {
			source = "s3(" + quoted(t.place.address()+"/"+strings.ReplaceAll(t.path, "%", "%25")+t.any(s)) // a key is part of a URL there
		}
		if s.format == "parquet" {
			format = "Parquet"
		}
		columns := s.columns(types{"String", "Int64", "DateTime64(6, 'UTC')", "Nullable(String)", "", " ", ""})
		return fmt.Sprintf("SELECT partition, offset, %s AS transaction_id, ts, payload, extract(_path, 'dt=([0-9-]+)') AS dt, extract(_path, 'hour=([0-9]+)') AS hour\n"+
			"  FROM %s, '%s', %s)\n  SETTINGS date_time_input_format = 'best_effort'", s.idColumn(), source, format, quoted(columns))
	}))
}

// address is where ClickHouse finds the bucket.
func (p Place) address() string {
	if p.Endpoint == "" {
		return "https://" + p.Bucket + ".s3." + p.Region + ".amazonaws.com"
	}
	return strings.TrimSuffix(p.Endpoint, "/") + "/" + p.Bucket
}

func spark(t *table) string {
	return strings.Join(t.each(func(s shape) string {
		using := map[string]string{"jsonl": "json", "parquet": "parquet"}[s.format]
		columns := s.columns(types{"STRING", "BIGINT", "TIMESTAMP", "STRING", "`", "` ", ""})
		return fmt.Sprintf("CREATE OR REPLACE TEMPORARY VIEW %s (%s)\nUSING %s\nOPTIONS (path %s,\n  basePath %s);\n",
			t.name+t.suffix(s), columns, using, quoted(t.url("s3a")+t.any(s)), quoted(t.url("s3a")))
	}), "")
}

func athena(t *table) string {
	return t.one("Athena", func(s shape) string {
		kind, y := "ROW FORMAT SERDE 'org.openx.data.jsonserde.JsonSerDe'", types{"string", "bigint", "", "string", "`", "` ", ""}
		if s.format == "parquet" {
			kind, y.stamp = "STORED AS PARQUET", "timestamp"
		}
		template := t.url("s3") + "/dt=${dt}"
		projected := "\n  'projection.enabled' = 'true', 'projection.dt.type' = 'date', 'projection.dt.format' = 'yyyy-MM-dd', 'projection.dt.range' = '" + t.first + ",NOW',"
		if s.hour {
			template += "/hour=${hour}"
			projected += "\n  'projection.hour.type' = 'integer', 'projection.hour.range' = '0,23', 'projection.hour.digits' = '2',"
		}
		return fmt.Sprintf("CREATE EXTERNAL TABLE %s (%s)\nPARTITIONED BY (%s string)\n%s\nLOCATION %s\nTBLPROPERTIES (%s\n  'storage.location.template' = %s);\n",
			t.name, s.columns(y), strings.Join(s.partitions(), " string, "), kind, quoted(t.url("s3")+"/"), projected, quoted(template+"/"))
	})
}

func trino(t *table) string {
	return t.one("Trino", func(s shape) string {
		format, y := "OPENX_JSON", types{"varchar", "bigint", "", "varchar", "\"", "\" ", ""}
		if s.format == "parquet" {
			format, y.stamp = "PARQUET", "timestamp(6)"
		}
		return fmt.Sprintf("CREATE TABLE hive.default.%s (%s, %s varchar)\nWITH (external_location = %s, format = '%s', partitioned_by = ARRAY['%s']);\n"+
			"CALL hive.system.sync_partition_metadata('default', '%s', 'ADD');\n",
			t.name, s.columns(y), strings.Join(s.partitions(), " varchar, "), quoted(t.url("s3")), format, strings.Join(s.partitions(), "', '"), t.name)
	})
}
