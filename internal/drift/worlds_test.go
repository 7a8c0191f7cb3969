package drift_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/stats"
)

// world draws the values of the columns of a table: floats, except for the columns category, few, list, clock and key.
type world struct {
	columns                    []string
	shape, share, scale, nulls float64 // of the distributions
	keys                       int     // the kind of keys
}

func newWorld(rng *rand.Rand, columns ...string) world {
	return world{columns: columns, shape: 0.7 + 2*rng.Float64(), share: 0.02 + 0.9*rng.Float64(), scale: math.Pow(10, 8*rng.Float64()-4), nulls: 0.005 + 0.4*rng.Float64(), keys: rng.IntN(keyKinds)}
}

// keyKinds is the number of kinds of keys.
const keyKinds = 6

// key draws a key, which is hardly ever the same.
func (w world) key(rng *rand.Rand) string {
	n := rng.Uint64()
	switch w.keys {
	case 0:
		return fmt.Sprintf("%08x-%04x-%04x-%016x", n>>32, n>>16&0xffff, n&0xffff, rng.Uint64())
	case 1:
		return fmt.Sprintf("user_%d", n>>(40+rng.IntN(4)))
	case 2:
		return fmt.Sprintf("%09d", n%1_000_000_000)
	case 3:
		return strconv.FormatUint(n>>20, 36)
	case 4: // a case-sensitive code
		return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, n))
	default: // free texts
		var words []string
		for range 1 + rng.IntN(6) {
			word := strconv.FormatUint(rng.Uint64()>>(64-5*(2+rng.IntN(6))), 36)
			if rng.IntN(5) == 0 {
				word = strings.ToUpper(word)
			}
			words = append(words, word+[]string{"", "", "", ",", ".", "!", "'s"}[rng.IntN(7)])
		}
		return strings.Join(words, " ")
	}
}

// respellings are faults of keys, by the kind of keys.
func respellings(kind int) []func(string) string {
	all := []func(string) string{
		strings.ToUpper,
		func(key string) string { return key + "  " },
		func(key string) string { return "id:" + key },
	}
	switch kind {
	case 0:
		return append(all, func(key string) string { return strings.ReplaceAll(key, "-", "") })
	case 1:
		return append(all, func(key string) string { return strings.TrimPrefix(key, "user_") })
	case 2:
		return []func(string) string{
			func(key string) string { return strings.TrimLeft(key, "0123") },
			func(key string) string { return key + ".0" },
			func(key string) string { return "000" + key },
		}
	}
	return all
}

// The columns of worlds.
var names = []string{"normal", "lognormal", "pareto", "cauchy", "two", "inflated", "nullable", "few", "category", "list", "clock", "key"}

// draw returns a number of a column of floats.
func (w world) draw(column string, rng *rand.Rand) float64 {
	switch column {
	case "lognormal":
		return w.scale * math.Exp(2*w.shape*rng.NormFloat64())
	case "pareto":
		return w.scale * math.Pow(1-rng.Float64(), -1/w.shape)
	case "cauchy":
		return w.scale * math.Tan(math.Pi*(rng.Float64()-0.5))
	case "two":
		if rng.Float64() < w.share {
			return w.scale
		}
		return 1000 * w.scale
	case "inflated":
		if rng.Float64() < w.share {
			return 0
		}
		return rng.ExpFloat64()
	default:
		return w.scale * (rng.NormFloat64() + 3)
	}
}

// fault is a fault of a column in rows from a number to another.
type fault struct {
	column   string
	from, to int
	factor   float64             // of values
	shift    float64             // of values
	nulls    float64             // probability of another null
	hours    float64             // added to times
	respell  func(string) string // another spelling of some keys; nil: none
}

// schemaOf returns the schema of columns.
func schemaOf(names []string) *arrow.Schema {
	out := make([]arrow.Field, len(names))
	for i, name := range names {
		out[i] = arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float64, Nullable: true}
		switch name {
		case "few":
			out[i].Type = arrow.PrimitiveTypes.Int64
		case "category", "key":
			out[i].Type = arrow.BinaryTypes.String
		case "list":
			out[i].Type = arrow.ListOf(arrow.PrimitiveTypes.Float32)
		case "clock":
			out[i].Type = arrow.FixedWidthTypes.Timestamp_ms
		}
	}
	return arrow.NewSchema(out, nil)
}

// rows returns rows of the world with a fault.
func (w world) rows(rows, first int, rng *rand.Rand, bad fault) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schemaOf(w.columns))
	defer b.Release()
	for i, name := range w.columns {
		for r := range rows {
			broken := bad.column == name && first+r >= bad.from && first+r < bad.to
			if broken && rng.Float64() < bad.nulls || (name == "nullable" || name == "two") && rng.Float64() < w.nulls {
				b.Field(i).AppendNull()
				continue
			}
			switch f := b.Field(i).(type) {
			case *array.Int64Builder:
				f.Append(int64(10 * math.Pow(rng.Float64(), w.shape)))
			case *array.StringBuilder:
				if name == "key" {
					key := w.key(rng)
					if broken && bad.respell != nil && rng.IntN(10) < 3 {
						key = bad.respell(key)
					}
					f.Append(key)
					continue
				}
				f.Append(strconv.Itoa(int(3 * rng.ExpFloat64() * w.shape)))
			case *array.TimestampBuilder:
				hour := 24 * rng.Float64()
				if rng.Float64() > 0.4*w.share { // most of them are near one time of the day
					hour = 24*w.share + 2*rng.NormFloat64()
				}
				if broken {
					hour += bad.hours
				}
				f.Append(arrow.Timestamp(1_790_000_000_000 + int64(3_600_000*hour)))
			case *array.ListBuilder:
				f.Append(true)
				elements, _ := f.ValueBuilder().(*array.Float32Builder)
				all := rng.NormFloat64() // the elements of a list are alike
				for range int(rng.ExpFloat64() * 4) {
					elements.Append(float32(all))
				}
			case *array.Float64Builder:
				v := w.draw(name, rng)
				if broken {
					v = v*bad.factor + bad.shift
				}
				f.Append(v)
			}
		}
	}
	return b.NewRecordBatch()
}

// partitions is the number of partitions of a table.
const partitions = 20

// table returns a table of a world, with equal partitions.
func (w world) table(t *testing.T, rows int, rng *rand.Rand, bad fault) drift.Table {
	t.Helper()
	sampling := stats.Sampling{Seed: rng.Uint64(), Level: stats.LevelFor(int64(rows), 1<<16)}
	fields := schemaOf(w.columns).Fields()
	whole, out := stats.NewPart(fields, sampling), drift.Table{}
	for p := range partitions {
		from, to := rows*p/partitions, rows*(p+1)/partitions
		b := w.rows(to-from, from, rng, bad)
		numbers := make([]int64, b.NumRows())
		for i := range numbers {
			numbers[i] = int64(from + i)
		}
		part := stats.NewPart(fields, sampling)
		_, err := part.Select(b, numbers)
		require.NoError(t, err)
		require.NoError(t, part.Add(b, memory.DefaultAllocator))
		out.Partitions = append(out.Partitions, drift.Partition{Name: day(p), Rows: part.Outline()})
		whole.Merge(part)
	}
	out.Rows = whole.Outline()
	return out
}

func day(p int) string { return fmt.Sprintf("2026-10-%02d", p+1) }

// alarms compares two tables of the world.
func (w world) alarms(t *testing.T, base, of drift.Table) []drift.Change {
	t.Helper()
	var columns []drift.Column
	for i, name := range w.columns {
		columns = append(columns, drift.Column{Name: name, Base: i, Of: i})
	}
	out, err := drift.Tables(base, of, columns, nil, func(int64) error { return nil })
	require.NoError(t, err)
	return drift.Alarms(out)
}

// clustered returns a table of a world whose rows join the rows of a staging table: in each partition, each of many keys has one staging
// row, and some keys are much more frequent than others.
func (w world) clustered(t *testing.T, rows int, rng *rand.Rand, bad fault) drift.Table {
	t.Helper()
	const keys, skew = 2000, 0.8
	weights := make([]float64, keys)
	total := 0.0
	for k := range weights {
		total += math.Pow(float64(k+1), -skew)
		weights[k] = total
	}
	sampling := stats.Sampling{Seed: rng.Uint64(), Level: stats.LevelFor(int64(rows), 1<<16)}
	fields := schemaOf(w.columns).Fields()
	whole, all, out := stats.NewPart(fields, sampling), &stats.Clusters{}, drift.Table{}
	effects := func(c *stats.Clusters) []float64 { return slices.Repeat([]float64{c.Effect()}, len(fields)) }
	for p := range partitions {
		at, number, clusters := make([]int32, rows/partitions), make([]int64, rows/partitions), &stats.Clusters{}
		for i := range at {
			k, _ := slices.BinarySearch(weights, rng.Float64()*total)
			at[i], number[i] = int32(k), int64(p*len(at)+i)
			clusters.Add(xxhash.Sum64(binary.LittleEndian.AppendUint64(nil, uint64(p*keys+k))))
		}
		slices.Sort(at)
		here := bad
		if from := p * len(at); from < bad.from || from >= bad.to {
			here = fault{}
		}
		here.from, here.to = 0, keys
		b, err := batch.Filter(w.rows(keys, 0, rng, here), at, memory.DefaultAllocator)
		require.NoError(t, err)
		part := stats.NewPart(fields, sampling)
		_, err = part.Select(b, number)
		require.NoError(t, err)
		require.NoError(t, part.Add(b, memory.DefaultAllocator))
		out.Partitions = append(out.Partitions, drift.Partition{Name: day(p), Rows: part.Outline(), Effects: effects(clusters)})
		whole.Merge(part)
		all.Merge(clusters)
	}
	out.Rows, out.Effects = whole.Outline(), effects(all)
	return out
}

// Of 100 pairs of tables whose rows share the rows of a staging table, at most one has an alarm if the staging rows have equal
// distributions. If rows counted as independent, most pairs would have alarms. Faults of one day are found.
//
// spec: stats-33
func TestRowsOfTheSameStagingRowAreNotIndependent(t *testing.T) {
	const rows = 100_000
	var found, naive, missed []string
	for seed := range pairs(6) {
		rng := rand.New(rand.NewPCG(seed, 23))
		w := newWorld(rng, "normal", "lognormal", "nullable", "few", "category", "two")
		base, of := w.clustered(t, rows, rng, fault{}), w.clustered(t, rows, rng, fault{})
		if a := w.alarms(t, base, of); len(a) > 0 {
			found = append(found, fmt.Sprintf("seed %d: %s %s: %s", seed, a[0].Column, a[0].Partition, a[0].Text()))
		}
		bad := oneDay(rng, rows, fault{column: []string{"normal", "lognormal"}[seed%2], factor: 1000})
		measure := drift.Unit
		if seed%3 == 0 {
			bad.factor, bad.nulls, measure = 1, 0.6, drift.Nulls
		}
		if a := w.alarms(t, base, w.clustered(t, rows, rng, bad)); !named(a, bad.column, day(bad.from*partitions/rows), measure) {
			missed = append(missed, fmt.Sprintf("seed %d: %+v: %+v", seed, bad, a))
		}
		for _, side := range []*drift.Table{&base, &of} {
			side.Effects = nil
			for i := range side.Partitions {
				side.Partitions[i].Effects = nil
			}
		}
		if a := w.alarms(t, base, of); len(a) > 0 {
			naive = append(naive, a[0].Text())
		}
	}
	t.Logf("%d of %d pairs have alarms, %d if rows counted as independent; %d faults missed", len(found), pairs(6), len(naive), len(missed))
	require.LessOrEqual(t, len(found), 1, "%v", found)
	require.Greater(t, len(naive), int(pairs(6)/2))
	require.LessOrEqual(t, len(missed), int(pairs(6)/100), "%v", missed)
}

// pairs returns the number of pairs of tables of each kind: 100 with PENSTOCK_LONG, otherwise a share.
func pairs(share uint64) uint64 {
	if os.Getenv("PENSTOCK_LONG") == "1" {
		return 100
	}
	return share
}

// size returns a number of rows from 2,000 to 100,000.
func size(rng *rand.Rand) int { return int(2000 * math.Pow(50, rng.Float64())) }

// Of 100 pairs of tables with equal distributions, at most one has an alarm. A third of the pairs have other partitions.
//
// spec: stats-27
func TestEqualDistributionsHaveNoAlarms(t *testing.T) {
	var found []string
	for seed := range pairs(15) {
		rng := rand.New(rand.NewPCG(seed, 21))
		w := newWorld(rng, names...)
		base, of := w.table(t, size(rng), rng, fault{}), w.table(t, size(rng), rng, fault{})
		if seed%3 == 0 {
			for i := range of.Partitions {
				of.Partitions[i].Name = "2027" + of.Partitions[i].Name
			}
		}
		if a := w.alarms(t, base, of); len(a) > 0 {
			found = append(found, fmt.Sprintf("seed %d: %s %s: %s", seed, a[0].Column, a[0].Partition, a[0].Text()))
		}
	}
	require.LessOrEqual(t, len(found), 1, "%v", found)
}

// Of 100 pairs with a fault, at least 99 have a first alarm of the column, the partition and a measure of the fault, and no alarm of
// another column.
//
// spec: stats-28, stats-31, stats-34
func TestFaultsAreFoundAndNamed(t *testing.T) {
	const rows = 100_000
	numbers := []string{"normal", "lognormal", "pareto", "inflated", "nullable"}
	for name, c := range map[string]struct {
		columns []string
		make    func(rng *rand.Rand, w world) fault
		measure drift.Measure
	}{
		"a shift by 0.1 standard deviations": {[]string{"normal", "nullable"}, func(_ *rand.Rand, w world) fault {
			return fault{to: rows, factor: 1, shift: 0.1 * w.scale}
		}, drift.Mean},
		"twice as many nulls": {[]string{"nullable", "two"}, func(_ *rand.Rand, w world) fault {
			return fault{to: rows, factor: 1, nulls: w.nulls / (1 - w.nulls)}
		}, drift.Nulls},
		"another unit": {numbers, func(rng *rand.Rand, _ world) fault {
			return fault{to: rows, factor: []float64{1000, 60, 100, 0.001, 1. / 60}[rng.IntN(5)]}
		}, drift.Unit},
		"another unit in one partition": {numbers, func(rng *rand.Rand, _ world) fault {
			return oneDay(rng, rows, fault{factor: []float64{1000, 60, 100}[rng.IntN(3)]})
		}, drift.Unit},
		"nulls in one partition": {names, func(rng *rand.Rand, _ world) fault {
			return oneDay(rng, rows, fault{factor: 1, nulls: 0.3})
		}, drift.Nulls},
		"a shift by half a standard deviation in one partition": {[]string{"normal", "nullable"}, func(rng *rand.Rand, w world) fault {
			return oneDay(rng, rows, fault{factor: 1, shift: 0.5 * w.scale})
		}, drift.Mean},
		"times in another zone": {[]string{"clock"}, func(rng *rand.Rand, _ world) fault {
			return fault{to: rows, factor: 1, hours: []float64{-8, -5, -3, -1, 1, 2, 5.5, 9}[rng.IntN(8)]}
		}, drift.Shift},
		"times in another zone in one partition": {[]string{"clock"}, func(rng *rand.Rand, _ world) fault {
			return oneDay(rng, rows, fault{factor: 1, hours: []float64{-8, -5, -4, 5.5, 9}[rng.IntN(5)]})
		}, drift.Shift},
		"keys in another spelling": {[]string{"key"}, func(rng *rand.Rand, w world) fault {
			return respelling(rng, w, fault{to: rows})
		}, drift.Form},
		"keys in another spelling in one partition": {[]string{"key"}, func(rng *rand.Rand, w world) fault {
			return respelling(rng, w, oneDay(rng, rows, fault{}))
		}, drift.Form},
	} {
		t.Run(name, func(t *testing.T) {
			var missed []string
			for seed := range pairs(3) {
				rng := rand.New(rand.NewPCG(seed, 22))
				column := c.columns[rng.IntN(len(c.columns))]
				w := newWorld(rng, column, names[rng.IntN(5)], "list")
				if w.columns[1] == column {
					w.columns[1] = "few"
				}
				bad := c.make(rng, w)
				bad.column = column
				base, of := w.table(t, rows, rng, fault{}), w.table(t, rows, rng, bad)
				if partition := bad.to-bad.from < rows; seed%2 == 0 && !(partition && bad.hours != 0) {
					base.Partitions = nil // the base has none of the partitions
				}
				partition := ""
				if bad.to-bad.from < rows {
					partition = day(bad.from * partitions / rows)
				}
				all := w.alarms(t, base, of)
				shifted := func(a drift.Change) bool { return a.Measure == drift.Shift && a.Change != 3600*bad.hours }
				if !named(all, column, partition, c.measure) || slices.ContainsFunc(all, shifted) {
					missed = append(missed, fmt.Sprintf("seed %d: %+v: %+v", seed, bad, all))
				}
			}
			require.LessOrEqual(t, len(missed), int(pairs(3)/100), "%v", missed)
		})
	}
}

// respelling returns a fault that writes three tenths of the keys in another spelling.
func respelling(rng *rand.Rand, w world, of fault) fault {
	all := respellings(w.keys)
	of.factor, of.respell = 1, all[rng.IntN(len(all))]
	return of
}

// named reports whether the first alarms are of a column and partition, with a measure among them, and none is of another column.
func named(all []drift.Change, column, partition string, measure drift.Measure) bool {
	return len(all) > 0 && all[0].Partition == partition &&
		slices.ContainsFunc(all, func(a drift.Change) bool { return a.Partition == partition && a.Measure == measure }) &&
		!slices.ContainsFunc(all, func(a drift.Change) bool { return strings.Split(a.Column, ".")[0] != column })
}

// oneDay returns a fault in one of the partitions.
func oneDay(rng *rand.Rand, rows int, of fault) fault {
	p := rng.IntN(partitions)
	of.from, of.to = rows*p/partitions, rows*(p+1)/partitions
	return of
}
