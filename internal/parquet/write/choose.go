package write

import (
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
)

// rounds is the number of encodings that are tried for each column.
const rounds = 4

// candidate returns the encoding that a round tries for a type, or false if it tries none. Later
// rounds try encodings that cost more to decode.
func candidate(t arrow.DataType, round int, split bool) (parquet.Encoding, bool) {
	known := parquet.Encodings
	tried := []parquet.Encoding{known.Plain, known.RLEDict}
	switch t := t.(type) {
	case *arrow.BooleanType:
		tried = tried[:1]
	case *arrow.Int32Type, *arrow.Int64Type, *arrow.Date32Type, *arrow.Time64Type, *arrow.TimestampType:
		tried = append(tried, known.DeltaBinaryPacked)
	case *arrow.Decimal128Type:
		if t.Precision <= 18 {
			tried = append(tried, known.DeltaBinaryPacked)
		}
	case *arrow.Float32Type, *arrow.Float64Type:
		if split {
			tried = append(tried, known.ByteStreamSplit)
		}
	case *arrow.StringType, *arrow.BinaryType:
		tried = append(tried, known.DeltaLengthByteArray, known.DeltaByteArray)
	}
	if round >= len(tried) {
		return known.Plain, false
	}
	return tried[round], true
}

// candidates returns the encoding that a round tries for each leaf, and for which leaves it tries
// one.
func candidates(leaves []*fieldNode, round int, split bool) (encodings []parquet.Encoding, has []bool) {
	encodings, has = make([]parquet.Encoding, len(leaves)), make([]bool, len(leaves))
	for i, l := range leaves {
		encodings[i], has[i] = candidate(l.wanted, round, split)
	}
	return encodings, has
}

// weight returns the weight, in percent, of a compressed byte of an encoding. The weights follow
// the time that Penstock's reader takes to decode the encoding, because a column is encoded once
// and decoded in every epoch. The reader decodes lists with plain values itself, but lists with
// deltas with the library, which takes more than twice the time
// (benchmarks/results/2026-11-26-encodings.md).
func weight(encoding parquet.Encoding, inList bool) int64 {
	switch encoding {
	case parquet.Encodings.RLEDict: // the reader returns these values as codes
		return 95
	case parquet.Encodings.DeltaLengthByteArray:
		return 95
	case parquet.Encodings.DeltaBinaryPacked, parquet.Encodings.ByteStreamSplit:
		if inList {
			return 150
		}
		if encoding == parquet.Encodings.DeltaBinaryPacked {
			return 115
		}
		return 100
	case parquet.Encodings.DeltaByteArray:
		return 125
	default:
		return 100
	}
}

// choose returns the setting of each column: for each leaf the encoding with the fewest weighted
// bytes in the rows held back, and pages of approximately PageRows rows. Encodings are compared at
// the fast level of compression. The encodings of one column are measured at the same time, and so
// are different columns, because a long list may take more time than all other columns.
func (w *DataWriter) choose() ([]setting, error) {
	var all []*trial
	for i, c := range w.columns {
		leaves := c.leaves(nil)
		for round := range rounds {
			encodings, has := candidates(leaves, round, w.opts.ByteStreamSplit)
			if !slices.Contains(has, true) {
				break
			}
			tried := setting{encodings: encodings, bloom: make([]bool, len(leaves)), pageBytes: w.opts.pageBytes, level: fastLevel}
			all = append(all, &trial{column: i, setting: tried, has: has})
		}
	}
	if err := w.each(len(all), func(i int) (err error) {
		all[i].sizes, err = measure(w.columns[all[i].column], w.sample(all[i].column), all[i].setting, w.opts.PageRows)
		return err
	}); err != nil {
		return nil, err
	}
	settings := make([]setting, len(w.columns))
	return settings, w.each(len(w.columns), func(i int) (err error) {
		own := slices.DeleteFunc(slices.Clone(all), func(t *trial) bool { return t.column != i })
		settings[i], err = chooseFrom(own, w.columns[i], w.sample(i), w.opts)
		return err
	})
}

// sample returns the values of a column in the rows that are held back.
func (w *DataWriter) sample(column int) []arrow.ArrayData {
	out := make([]arrow.ArrayData, len(w.first.batches))
	for k, b := range w.first.batches {
		out[k] = b[column]
	}
	return out
}

// trial is a setting that was tried for a column, and the resulting sizes.
type trial struct {
	setting
	column int        // its position
	has    []bool     // for which leaves the trial has an encoding that no earlier trial had
	sizes  []measured // of each leaf
}

// chooseFrom returns the setting of a column, given its trials in the order of the cost to decode.
func chooseFrom(trials []*trial, column *fieldNode, sample []arrow.ArrayData, opts Options) (setting, error) {
	leaves, inList := column.leaves(nil), column.inLists(false, nil)
	chosen := setting{encodings: make([]parquet.Encoding, len(leaves)), bloom: make([]bool, len(leaves)), level: fastLevel, tables: &sync.Pool{}}
	stored := make([]int64, len(leaves)) // bytes of each leaf in the encoding chosen so far
	best, perRow := make([]int64, len(leaves)), make([]int64, len(leaves))
	for round, tried := range trials {
		for i, size := range tried.sizes {
			if score := size.stored * weight(tried.encodings[i], inList[i]); tried.has[i] && (round == 0 || score < best[i]) {
				best[i], chosen.encodings[i], stored[i] = score, tried.encodings[i], size.stored
				if tried.encodings[i] != parquet.Encodings.RLEDict { // pages of dictionary indices end by their plain size instead
					perRow[i] = size.perRow
				}
			}
		}
	}
	demand(leaves, opts, chosen.encodings)
	chosen.pageBytes = 1
	for i := range leaves {
		chosen.pageBytes = max(chosen.pageBytes, min(opts.pageBytes, perRow[i]*opts.PageRows/perRowUnit))
	}
	if err := chosen.chooseLevel(column, sample, opts, stored); err != nil {
		return setting{}, err
	}
	for i, l := range leaves {
		chosen.bloom[i] = opts.wantsBloom(l.id)
	}
	return chosen, nil
}

// Levels of Zstandard. The fast level takes about two thirds of the time of the usual level, and
// for most columns hardly more bytes: identifiers and hashes have few repetitions that either level
// could find, and sorted histories have long repetitions that both levels find.
const (
	fastLevel    = 1
	usualLevel   = 3
	levelPercent = 2 // by how much the fast level's bytes may exceed the usual level's, in percent
)

// chooseLevel sets the usual level of compression if that takes clearly fewer bytes than the fast
// level, whose bytes by leaf are given.
func (s *setting) chooseLevel(column *fieldNode, sample []arrow.ArrayData, opts Options, fast []int64) error {
	tried := *s
	tried.level, tried.pageBytes = usualLevel, opts.pageBytes // the page size with which the fast level was measured
	sizes, err := measure(column, sample, tried, opts.PageRows)
	if err != nil {
		return err
	}
	slow, sum := int64(0), int64(0)
	for i, size := range sizes {
		slow, sum = slow+size.stored, sum+fast[i]
	}
	if sum > slow+slow*levelPercent/100 {
		s.level = usualLevel
	}
	return nil
}

// demand sets the dictionary encoding for the leaves in Options.Dictionary, even if another
// encoding is smaller.
func demand(leaves []*fieldNode, opts Options, encodings []parquet.Encoding) {
	for i, l := range leaves {
		if slices.Contains(opts.Dictionary, l.id) {
			encodings[i] = parquet.Encodings.RLEDict
		}
	}
}

// perRowUnit is the denominator of the numbers of bytes per row, which are fractions.
const perRowUnit = 1 << 10

// measured has the sizes of the encoded sample of a leaf.
type measured struct {
	stored int64 // compressed
	perRow int64 // uncompressed, in units of perRowUnit
}

// measure encodes the first rows of a sample, at most limit rows, and returns the sizes of each
// leaf.
func measure(column *fieldNode, sample []arrow.ArrayData, s setting, limit int64) ([]measured, error) {
	e, err := newEncoder(column, s)
	if err != nil {
		return nil, err
	}
	rows := int64(0)
	for _, data := range sample {
		n := min(int64(data.Len()), limit-rows)
		rows += n
		if err := e.write(data, 0, int(n)); err != nil {
			return nil, err
		}
	}
	chunks, err := e.close()
	if err != nil {
		return nil, err
	}
	out := make([]measured, len(chunks))
	for i, c := range chunks {
		described := c.Of.RowGroups[0].Columns[c.Column].MetaData
		out[i] = measured{stored: described.TotalCompressedSize, perRow: described.TotalUncompressedSize * perRowUnit / max(rows, 1)}
	}
	return out, nil
}
