package verify

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/catalog"
)

// leastUnmatched is the reciprocal of the least share of training rows without a match whose keys
// are sought in another spelling.
const leastUnmatched = 100

// manyUnmatched reports whether enough training rows with a key have no match that their keys are
// sought in another spelling, which only texts have.
func (c *keyCheck) manyUnmatched() bool {
	unmatched := c.join.Missing - c.join.NullKeys
	return unmatched > 0 && unmatched*leastUnmatched >= c.join.TrainingRows &&
		slices.ContainsFunc(c.columns.staging[:c.keyEnd()], func(f catalog.Field) bool { return isText(f.Type) })
}

// keyEnd returns the number of columns of the key, which are the first of the columns of the check.
func (c *keyCheck) keyEnd() int { return slices.Max(c.columns.stagingKey) + 1 }

// forms reads the keys of all staging files once, since a key in another spelling is in another
// bucket. It seeks the sampled training keys without a match, and compares how both tables write
// their keys.
func (c *keyCheck) forms(ctx context.Context) (*Forms, error) {
	out := &Forms{Pairs: []Pair{}, Differences: []KeyDifference{}}
	for _, k := range c.staging.Keys {
		out.Training.add(k.Training)
		out.Staging.add(k.Staging)
	}
	// The sample of training keys has its memory already. A sought key may have as many twins as
	// there are forms.
	held, err := c.options.Budget.Reserve("the compared keys of staging table "+c.staging.Name, int64(numForms+1)*sampleBytes(len(c.staging.Keys)))
	if err != nil {
		return nil, err
	}
	defer held.Release()
	sought, staging := newSoughtKeys(c.unmatched), keySample{}
	for _, f := range c.files {
		c.expect(f.Rows)
	}
	for i := range c.files {
		if err := c.seek(ctx, i, sought, &staging); err != nil {
			return nil, err
		}
	}
	out.compare(sought, staging)
	return out, nil
}

// seek compares the keys of one staging file with the sought keys, and offers them to the sample of
// staging keys.
func (c *keyCheck) seek(ctx context.Context, file int, sought *soughtKeys, staging *keySample) error {
	columns := slices.Clone(c.columns.staging[:c.keyEnd()])
	for _, name := range c.staging.Rows.Columns() {
		if f, ok := c.staging.Pinned.Field(name); ok {
			columns = withField(columns, f)
		}
	}
	var counted []int32
	var hasher keyHasher
	var digests keyDigester
	_, err := c.read(ctx, c.staging.Name, c.source(file, 0, c.files[file].Rows), columns, func(rows arrow.RecordBatch, _ int64) (err error) {
		if counted, err = c.counted(rows, counted); err != nil {
			return err
		}
		digests.load(rows, c.columns.stagingKey)
		for _, at := range counted {
			row := int(at)
			if digests.null(row) {
				continue
			}
			key, err := digests.digest(row)
			if err != nil {
				return err
			}
			staging.offer(key, rows, c.columns.stagingKey, row)
			sought.find(key, hasher.hashes(rows, c.columns.stagingKey, row), func() sampledKey {
				return newSampledKey(key, rows, c.columns.stagingKey, row)
			})
		}
		return nil
	})
	return err
}
