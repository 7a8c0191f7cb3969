package resolve_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// kind is a type of key columns in random tables.
type kind struct {
	arrow      arrow.DataType
	draw       func(r *rand.Rand) iceberg.Literal
	bound      func(v iceberg.Literal) expr.Value
	transforms []catalog.TransformKind
}

func kinds() []kind {
	const second = 1_000_000
	return []kind{
		{
			arrow.PrimitiveTypes.Int64,
			func(r *rand.Rand) iceberg.Literal { return iceberg.Int64Literal(r.IntN(21) - 10) },
			func(v iceberg.Literal) expr.Value { return expr.Int(int64(v.(iceberg.Int64Literal))) },
			[]catalog.TransformKind{catalog.Bucket, catalog.Truncate, catalog.Identity},
		},
		{
			arrow.BinaryTypes.String,
			func(r *rand.Rand) iceberg.Literal {
				texts := []string{"", "a", "aa", "ab", "aé", "é", "日本x", "日本語", "b", "\U0010ffff", "\U0010ffffz"}
				return iceberg.StringLiteral(texts[r.IntN(len(texts))])
			},
			func(v iceberg.Literal) expr.Value { return expr.Text(string(v.(iceberg.StringLiteral))) },
			[]catalog.TransformKind{catalog.Bucket, catalog.Truncate, catalog.Identity},
		},
		{
			arrow.FixedWidthTypes.Date32,
			func(r *rand.Rand) iceberg.Literal { return iceberg.DateLiteral(r.IntN(90) - 45) },
			func(v iceberg.Literal) expr.Value { return expr.Int(int64(v.(iceberg.DateLiteral))) },
			[]catalog.TransformKind{catalog.Bucket, catalog.Identity, catalog.Year, catalog.Month, catalog.Day},
		},
		{
			&arrow.TimestampType{Unit: arrow.Microsecond},
			func(r *rand.Rand) iceberg.Literal {
				return iceberg.TimestampLiteral((r.Int64N(200)-100)*1800*second - r.Int64N(2))
			},
			func(v iceberg.Literal) expr.Value { return expr.Int(int64(v.(iceberg.TimestampLiteral))) },
			[]catalog.TransformKind{catalog.Bucket, catalog.Identity, catalog.Year, catalog.Month, catalog.Day, catalog.Hour},
		},
		{
			&arrow.Decimal128Type{Precision: 9, Scale: 2},
			func(r *rand.Rand) iceberg.Literal {
				return iceberg.DecimalLiteral{Val: decimal128.FromI64(int64(r.IntN(41) - 20)), Scale: 2}
			},
			func(v iceberg.Literal) expr.Value {
				d := v.(iceberg.DecimalLiteral)
				return expr.Decimal(d.Val.BigInt(), d.Scale)
			},
			[]catalog.TransformKind{catalog.Bucket, catalog.Truncate, catalog.Identity},
		},
	}
}

// transformed applies a transform with iceberg-go, in the form that catalog.File
// documents.
func transformed(t *testing.T, f catalog.Transform, v iceberg.Literal) any {
	t.Helper()
	if v == nil {
		return nil
	}
	transform := map[catalog.TransformKind]iceberg.Transform{
		catalog.Bucket: iceberg.BucketTransform{NumBuckets: f.N}, catalog.Truncate: iceberg.TruncateTransform{Width: f.N},
		catalog.Identity: iceberg.IdentityTransform{}, catalog.Year: iceberg.YearTransform{}, catalog.Month: iceberg.MonthTransform{},
		catalog.Day: iceberg.DayTransform{}, catalog.Hour: iceberg.HourTransform{},
	}[f.Kind]
	out := transform.Apply(iceberg.Optional[iceberg.Literal]{Val: v, Valid: true})
	require.True(t, out.Valid)
	switch v := out.Val.(type) {
	case iceberg.Int32Literal:
		return int64(v)
	case iceberg.Int64Literal:
		return int64(v)
	case iceberg.DateLiteral:
		return int64(v)
	case iceberg.TimestampLiteral:
		return int64(v)
	case iceberg.StringLiteral:
		return string(v)
	case iceberg.DecimalLiteral:
		return v.Val.ToString(int32(v.Scale))
	}
	require.Failf(t, "unknown literal", "%T", out.Val)
	return nil
}

// drawn is a random table: its rows' keys, by file.
type drawn struct {
	table  *catalog.Table
	files  []catalog.File
	keys   [][][]iceberg.Literal // of each file, per row, per key column
	plain  bool                  // only buckets narrow the match
	ranges bool
}

// draw returns a table of one or two specs with random rows.
func draw(t *testing.T, r *rand.Rand, name string, columns []kind, plain bool) drawn {
	t.Helper()
	d := drawn{table: &catalog.Table{Name: name, Specs: map[int]catalog.Spec{}}, plain: plain, ranges: !plain && r.IntN(2) == 0}
	for i, k := range columns {
		d.table.Fields = append(d.table.Fields, catalog.Field{ID: i + 1, Name: fmt.Sprint("k", i), Type: k.arrow})
	}
	d.table.Fields = append(d.table.Fields, catalog.Field{ID: len(columns) + 1, Name: name[len(name)-1:], Type: arrow.PrimitiveTypes.Int64})
	specs := 1 + r.IntN(2)
	for s := range specs {
		var spec catalog.Spec
		for i, k := range columns {
			for range r.IntN(3) {
				f := catalog.Transform{Kind: k.transforms[r.IntN(len(k.transforms))], N: 1 + r.IntN(6)}
				if plain {
					f.Kind = catalog.Bucket
				}
				if f.Kind != catalog.Bucket && f.Kind != catalog.Truncate {
					f.N = 0
				}
				spec = append(spec, catalog.PartitionField{ID: 1000 + len(spec), Source: i + 1, Name: fmt.Sprint("p", len(spec)), Transform: f})
			}
		}
		d.table.Specs[s] = spec
		byPartition := map[string]int{}
		for range 5 + r.IntN(40) {
			key := make([]iceberg.Literal, len(columns))
			for i, k := range columns {
				if r.IntN(8) > 0 {
					key[i] = k.draw(r)
				}
			}
			partition := make([]any, len(spec))
			for i, p := range spec {
				partition[i] = transformed(t, p.Transform, key[p.Source-1])
			}
			id := fmt.Sprintf("%#v %d", partition, r.IntN(2))
			at, ok := byPartition[id]
			if !ok {
				at = len(d.files)
				byPartition[id] = at
				d.files = append(d.files, catalog.File{Location: fmt.Sprint(name, at), Spec: s, Partition: partition})
				d.keys = append(d.keys, nil)
			}
			d.keys[at] = append(d.keys[at], key)
		}
	}
	if d.ranges {
		for i := range d.files {
			d.files[i].Ranges = ranges(columns, d.keys[i])
		}
	}
	return d
}

// ranges returns the statistics of a file's keys.
func ranges(columns []kind, rows [][]iceberg.Literal) map[int]expr.Range {
	all := map[int]expr.Range{}
	for i, k := range columns {
		out := expr.Range{Rows: int64(len(rows))}
		for _, row := range rows {
			if row[i] == nil {
				out.Nulls++
				continue
			}
			v := k.bound(row[i])
			if order, ok := v.Compare(out.Lower); !ok || order < 0 {
				out.Lower, out.HasLower = v, true
			}
			if order, ok := v.Compare(out.Upper); !ok || order > 0 {
				out.Upper, out.HasUpper = v, true
			}
		}
		all[i+1] = out
	}
	return all
}

// mayShareKeys reports whether two files can hold equal keys by their buckets.
func mayShareKeys(training, staging drawn, i, j int) bool {
	a, b := training.files[i], staging.files[j]
	for x, p := range training.table.Specs[a.Spec] {
		for y, q := range staging.table.Specs[b.Spec] {
			if p.Source != q.Source {
				continue
			}
			if a.Partition[x] == nil || b.Partition[y] == nil {
				return false
			}
			for hash := range p.Transform.N * q.Transform.N {
				if int64(hash%p.Transform.N) == a.Partition[x] && int64(hash%q.Transform.N) == b.Partition[y] {
					goto next
				}
			}
			return false
		next:
		}
	}
	null := func(v any) bool { return v == nil }
	return !slices.ContainsFunc(a.Partition, null) && !slices.ContainsFunc(b.Partition, null)
}

// equal reports whether two keys match: no part is null, and all are equal.
func equal(a, b []iceberg.Literal) bool {
	for i := range a {
		if a[i] == nil || b[i] == nil || !a[i].Equals(b[i]) {
			return false
		}
	}
	return true
}

// TestEqualKeysShareAFileGroup draws tables of any layout and compares with the rows: a staging
// row whose key equals a training row's is always in a file of the training row's file group.
// If only buckets narrow the match, a file group has no file that cannot hold such a key.
//
// spec: resolve-1, resolve-17, resolve-18, resolve-19, resolve-20, resolve-21
func TestEqualKeysShareAFileGroup(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for seed := range uint64(800) {
		r := rand.New(rand.NewPCG(seed, 7))
		columns := []kind{kinds()[r.IntN(5)]}
		if r.IntN(2) == 0 {
			columns = append(columns, kinds()[r.IntN(5)])
		}
		plain := r.IntN(3) == 0
		training, staging := draw(t, r, "ml.t", columns, plain), draw(t, r, "ml.s", columns, plain)
		s := tables{training: training.table, staging: staging.table, trainingFiles: training.files, stagingFiles: staging.files}
		s.entry = dataset.Staging{Table: "ml.s", Key: []dataset.KeyPair{{Training: "k0", Staging: "k0"}}}
		if len(columns) > 1 {
			s.entry.Key = append(s.entry.Key, dataset.KeyPair{Training: "k1", Staging: "k1"})
		}
		if r.IntN(10) == 0 {
			s.entry.Strategy = rule.StrategyBroadcast
			seen["broadcast"]++
		}
		for i, found := range s.names(t) {
			for j, f := range staging.files {
				has := slices.Contains(found, f.Location)
				if plain && s.entry.Strategy == rule.StrategyAuto {
					require.Equal(t, mayShareKeys(training, staging, i, j), has, "seed %d: %v and %v", seed, training.files[i], f)
					seen["exact"]++
				}
				if has {
					seen["kept"]++
					continue
				}
				seen["left out"]++
				for _, key := range training.keys[i] {
					for _, other := range staging.keys[j] {
						require.False(t, equal(key, other), "seed %d: %v of %v, by %v, lies in %v, by %v, too", seed, key, training.files[i], training.table.Specs, f, staging.table.Specs)
					}
				}
			}
		}
	}
	for _, what := range []string{"exact", "kept", "left out", "broadcast"} {
		require.Greater(t, seen[what], 40, what)
	}
}
