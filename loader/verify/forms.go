package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// sampledKeys is the number of keys of each table that are compared.
const sampledKeys = 64

// Forms shows how both tables write their keys. It is made for a join that matches few rows or
// none.
type Forms struct {
	Training KeyColumns `json:"training"`
	Staging  KeyColumns `json:"staging"`
	// Pairs are a few sampled keys of both tables, next to each other. If Alike is true, the keys
	// of a pair are equal or differ only in Differences. Otherwise, the keys of a pair have nothing
	// to do with each other.
	Pairs []Pair `json:"pairs"`
	// Alike is whether the two keys of each pair are equal except for Differences. If there are no
	// differences, the keys are equal, and files, partitions or times prevent their match.
	Alike       bool            `json:"alike"`
	Differences []KeyDifference `json:"differences"`
}

// KeyColumns names the columns of a key and their types.
type KeyColumns struct {
	Columns []string `json:"columns"`
	Types   []string `json:"types"`
}

// Pair has one key of each table, as text; "" means no key.
type Pair struct {
	Training string `json:"training"`
	Staging  string `json:"staging"`
}

// sampledKey is a key in a sample: the hash of its form, its truncated values, and its text in
// reports.
type sampledKey struct {
	hash   uint64
	values []string
	text   string
}

// keySample keeps the keys whose forms have the lowest hashes, one key for each form. If both
// tables have a form with a low hash, it is therefore in the samples of both.
type keySample struct {
	form func(string) string
	keys []sampledKey // by hash
}

func (s *keySample) add(values []string, text func() string) {
	var forms []byte
	for _, v := range values {
		forms = append(append(forms, s.form(v)...), 0)
	}
	sum := sha256.Sum256(forms)
	hash := binary.BigEndian.Uint64(sum[:])
	at, found := slices.BinarySearchFunc(s.keys, hash, func(k sampledKey, h uint64) int { return cmp.Compare(k.hash, h) })
	if found || at >= sampledKeys {
		return
	}
	k := sampledKey{hash: hash, text: text()}
	for _, v := range values {
		k.values = append(k.values, shorten(v))
	}
	s.keys = slices.Insert(s.keys, at, k)
	s.keys = s.keys[:min(len(s.keys), sampledKeys)]
}

// keySamples has two samples of the keys of one table, for the two forms in which keys are
// compared. The stricter form is first.
type keySamples [2]keySample

func newKeySamples() *keySamples { return &keySamples{{form: fold}, {form: digits}} }

// add adds the keys of some rows of a batch that have no null in the key.
func (s *keySamples) add(rows arrow.RecordBatch, key []int, selected func(row int) bool) {
	values := make([]string, len(key))
	for row := range int(rows.NumRows()) {
		if !selected(row) || slices.ContainsFunc(key, func(at int) bool { return rows.Column(at).IsNull(row) }) {
			continue
		}
		for i, at := range key {
			values[i] = rows.Column(at).ValueStr(row)
		}
		text := func() string { return quotedKey(rows, key, row) }
		for i := range s {
			s[i].add(values, text)
		}
	}
}

// quotedKey returns the key of a row as text, with strings in quotes, so that white space is
// visible.
func quotedKey(rows arrow.RecordBatch, key []int, row int) string {
	values := make([]string, len(key))
	for i, at := range key {
		values[i] = shorten(batch.Text(rows.Column(at), row))
		if arrow.IsBaseBinary(rows.Column(at).DataType().ID()) {
			values[i] = strconv.Quote(values[i])
		}
	}
	return strings.Join(values, ", ")
}

// forms reads the keys of both tables again, and compares how they are written.
func (c *keyCheck) forms(ctx context.Context) (*Forms, error) {
	out := &Forms{Pairs: []Pair{}, Differences: []KeyDifference{}}
	for _, k := range c.staging.Keys {
		out.Training.add(k.Training)
		out.Staging.add(k.Staging)
	}
	training, staging := newKeySamples(), newKeySamples()
	for i, f := range c.files {
		var counted []int32
		_, err := c.read(ctx, c.staging.Name, c.source(i, 0, f.Rows), c.columns.staging, func(rows arrow.RecordBatch, _ int64) (err error) {
			counted, err = c.staging.Rows.Evaluate(rows, counted)
			staging.add(rows, c.columns.stagingKey, func(row int) bool {
				_, found := slices.BinarySearch(counted, int32(row))
				return found
			})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for split := range c.plan.Splits {
		err := c.readSplit(ctx, split, func(rows arrow.RecordBatch, _ int64) error {
			training.add(rows, c.columns.trainingKey, func(int) bool { return true })
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	out.compare(training, staging)
	return out, nil
}

// compare sets Pairs. It pairs keys that are equal in the stricter form or, if there are no such
// keys, in the other form. If there are none either, it pairs the first keys of each sample.
func (f *Forms) compare(training, staging *keySamples) {
	for i := range training {
		f.pairAlike(training[i].keys, staging[i].keys)
		if f.Alike {
			return
		}
	}
	a, b := training[0].keys, staging[0].keys
	for i := range min(max(len(a), len(b)), shownKeys) {
		var p Pair
		if i < len(a) {
			p.Training = a[i].text
		}
		if i < len(b) {
			p.Staging = b[i].text
		}
		f.Pairs = append(f.Pairs, p)
	}
}

// pairAlike adds the first pairs of keys that are equal in one form. It adds pairs of equal keys,
// which may match, only if there are no pairs of different keys.
func (f *Forms) pairAlike(training, staging []sampledKey) {
	var equal []Pair
	for _, a := range training {
		at, found := slices.BinarySearchFunc(staging, a.hash, func(k sampledKey, h uint64) int { return cmp.Compare(k.hash, h) })
		if !found {
			continue
		}
		b := staging[at]
		different := differences(a.values, b.values)
		if len(different) == 0 {
			equal = append(equal, Pair{a.text, b.text})
			continue
		}
		if len(f.Pairs) < shownKeys {
			f.Pairs = append(f.Pairs, Pair{a.text, b.text})
		}
		for _, d := range different {
			if !slices.Contains(f.Differences, d) {
				f.Differences = append(f.Differences, d)
			}
		}
	}
	if len(f.Pairs) == 0 {
		f.Pairs = append(f.Pairs, equal[:min(len(equal), shownKeys)]...)
	}
	f.Alike = len(f.Pairs) > 0
}

func (k *KeyColumns) add(f catalog.Field) {
	k.Columns, k.Types = append(k.Columns, f.Name), append(k.Types, f.Type.String())
}

// String returns the columns and types as "req_id (utf8)".
func (k *KeyColumns) String() string {
	parts := make([]string, len(k.Columns))
	for i := range k.Columns {
		parts[i] = fmt.Sprintf("%s (%s)", k.Columns[i], k.Types[i])
	}
	return strings.Join(parts, ", ")
}

// readSplit is like read, for the training columns of the check in a split.
func (c *keyCheck) readSplit(ctx context.Context, split int, do func(rows arrow.RecordBatch, first int64) error) error {
	whole := c.plan.Training(plan.Range{Split: split, To: c.plan.Splits[split].Rows})
	whole.Checked = nil
	whole.Planned = slices.Concat(whole.Planned, c.probing) // the plan may not have these columns, if the query does not need the entry
	slices.Sort(whole.Planned)
	for _, file := range whole.Files {
		source := whole
		source.Files = []plan.FileRange{file}
		if _, err := c.read(ctx, trainingName, source, c.columns.training, do); err != nil {
			return err
		}
	}
	return nil
}
