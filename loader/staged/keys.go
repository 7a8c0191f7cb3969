package staged

import (
	"context"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/keyset"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/stage"
)

// keysShare limits the memory for the keys of a training table to a quarter of the budget. Sorting
// the staged rows takes half of the budget.
const keysShare = 4

// Keys reads the keys of the training rows of a dataset or a table. Of the rows that are staged,
// only those with one of these keys are kept.
type Keys struct {
	Datasets
	Of     string        // a dataset, or a table
	Staged string        // the staging table
	Rights policy.Rights // to the training table
}

// Read reads the keys of the training rows. Key has the columns of the staging table's key. Callers
// set OnlyKeys of stage.CallOptions to Read.
//
// It returns NotFound for an unknown dataset or table, Invalid for keys that cannot be compared,
// Exhausted if the keys take more than a quarter of the budget, and the errors of reading rows.
func (k Keys) Read(ctx context.Context, key []arrow.Field) (stage.KeptKeys, error) {
	keys, err := k.all(ctx, key)
	if err != nil {
		return nil, fault.Op(err, "read the keys of %s", k.Of)
	}
	return keys, nil
}

func (k Keys) all(ctx context.Context, key []arrow.Field) (*keyset.DistinctKeys, error) {
	training, names, err := k.columns(key)
	if err != nil {
		return nil, err
	}
	query := dataset.Query{
		Rows:    dataset.Rows{Inline: &dataset.Dataset{Training: training}},
		Reading: dataset.Reading{Shard: dataset.Shard{Of: 1}},
	}
	var at []int // positions of the key's columns in query.Columns, which has no duplicates
	for _, name := range names {
		i := slices.IndexFunc(query.Columns, func(c dataset.Column) bool { return c.Column == name })
		if i < 0 {
			i = len(query.Columns)
			query.Columns = append(query.Columns, dataset.Column{Column: name})
		}
		at = append(at, i)
	}
	plan, err := k.Loader.PlanFor(ctx, loader.PlanRequest{Query: query.Defaults(), Rights: k.Rights})
	if err != nil {
		return nil, err
	}
	for i, f := range key {
		if err := comparableKeys(f, names[i], plan.Outputs[at[i]].Type()); err != nil {
			return nil, err
		}
	}
	return k.collect(ctx, plan, at)
}

// comparableKeys checks that the types of a key column in the staging table and in the training
// table can be compared.
func comparableKeys(staged arrow.Field, name string, training arrow.DataType) error {
	if keyset.Comparable(staged.Type, training) {
		return nil
	}
	return fault.New(fault.Invalid, "column %s has type %s, and column %s of the training table %s: keys of these types cannot be compared",
		staged.Name, staged.Type, name, training).WithRemedy("cast the column of the files to the type of the training table")
}

// columns returns the training table, and the names that the key's columns have in it.
func (k Keys) columns(key []arrow.Field) (dataset.Training, []string, error) {
	names := make([]string, len(key))
	for i, f := range key {
		names[i] = f.Name
	}
	configured := k.Loader.Datasets()
	at := slices.IndexFunc(configured, func(d dataset.Dataset) bool { return d.Name == k.Of })
	if at < 0 && strings.Contains(k.Of, ".") {
		return dataset.Training{Table: k.Of}, names, nil
	}
	if at < 0 {
		var known []string
		for _, d := range configured {
			known = append(known, d.Name)
		}
		return dataset.Training{}, nil, fault.As(dataset.Unknown(k.Of, known)).WithRemedy("name a dataset of the config file, or a training table as namespace.table")
	}
	d := configured[at]
	d.Training.Distinct, d.Training.RequestLevel = nil, nil // these do not affect the keys
	mapped, err := k.mapped(d, key)
	if err != nil {
		return dataset.Training{}, nil, err
	}
	if mapped != nil {
		names = mapped
	}
	return d.Training, names, nil
}

// mapped returns the names of the training columns that the dataset joins with the columns of the
// key. It returns nil if the dataset does not join the staging table.
func (k Keys) mapped(d dataset.Dataset, key []arrow.Field) ([]string, error) {
	var names []string
	for _, s := range d.Staging {
		if !k.Same(s.Table, k.Staged) {
			continue
		}
		var of []string
		for _, f := range key {
			pair := slices.IndexFunc(s.Key, func(p dataset.KeyPair) bool { return p.Staging == f.Name })
			if pair < 0 {
				return nil, fault.New(fault.Invalid, "dataset %s does not join table %s by column %s of its key", d.Name, k.Staged, f.Name).
					WithRemedy("name the key with --key, or the training table instead of the dataset")
			}
			of = append(of, s.Key[pair].Training)
		}
		if names != nil && !slices.Equal(names, of) {
			return nil, fault.New(fault.Invalid, "dataset %s joins table %s by several columns of the training table: %s and %s",
				d.Name, k.Staged, strings.Join(names, ", "), strings.Join(of, ", ")).WithRemedy("stage the table without --only-keys-of")
		}
		names = of
	}
	return names, nil
}

// collect reads the keys of all rows of a plan.
func (k Keys) collect(ctx context.Context, plan loader.Planned, at []int) (*keyset.DistinctKeys, error) {
	limit := k.Budget.Limit()
	if limit > 0 {
		limit /= keysShare
	}
	keys, err := keyset.New(k.Budget, "the keys of training rows", limit)
	if err != nil {
		return nil, tooManyKeys(err, 0, plan.StoredRows)
	}
	if err := k.add(ctx, keys, plan, at); err != nil {
		keys.Release()
		return nil, err
	}
	keys.Freeze()
	return keys, nil
}

// add adds the keys of all rows of a plan.
func (k Keys) add(ctx context.Context, keys *keyset.DistinctKeys, plan loader.Planned, at []int) error {
	stream, err := k.Loader.Open(ctx, plan, loader.StreamOptions{})
	if err != nil {
		return err
	}
	defer stream.Release()
	read := int64(0)
	for stream.Next() {
		b := stream.RecordBatch()
		if err := addKeys(ctx, keys, b, at); err != nil {
			return tooManyKeys(err, read, plan.StoredRows)
		}
		read += b.NumRows()
	}
	return stream.Err()
}

// tooManyKeys adds the amount of memory that would suffice to an Exhausted error.
func tooManyKeys(err error, read, rows int64) error {
	if fault.KindOf(err) != fault.Exhausted {
		return err
	}
	need, all := keyset.BytesFor(rows), fault.Count(rows, "training row")
	return fault.Op(fault.As(err).WithRemedy("set memory to %d bytes, which is enough for the keys of all %s", keysShare*need, all),
		"hold the keys of more than %d of %s, which need up to %d bytes", read, all, need)
}

// addKeys adds the keys of a batch, given the positions of the key's columns.
func addKeys(ctx context.Context, keys *keyset.DistinctKeys, b arrow.RecordBatch, at []int) error {
	fields, columns := make([]arrow.Field, len(at)), make([]arrow.Array, len(at))
	for i, from := range at {
		fields[i], columns[i] = b.Schema().Field(from), b.Column(from)
	}
	of := array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, b.NumRows())
	defer of.Release()
	return keys.Add(ctx, of)
}
