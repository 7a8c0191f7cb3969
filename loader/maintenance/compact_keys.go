package maintenance

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/compact"
	"github.com/penstock/penstock/loader/plan"
)

// Memory for counting keys: bytes per row, and the reciprocal of the share of the budget.
const (
	rowKeyBytes  = 16
	rowKeysShare = 8
	maxRowKeys   = 1 << 26 // rows, if the budget has no limit
)

// choose selects the files to rewrite. If some files would stay because of the order of their rows,
// choose counts the keys of the files that may share keys with them. The order does not matter for
// keys that occur once.
func (g *compactGroup) choose(ctx context.Context, o compact.Options) error {
	layout := g.layout()
	g.selected = compact.Select(layout, o, g.files)
	if len(g.selected.Kept) > 0 {
		if err := g.countKeys(ctx, compact.WithKeysOf(layout, g.selected.Kept, g.files)); err != nil {
			return err
		}
		o.Once = func(f catalog.File) bool { return g.once[f.Location] }
		g.selected = compact.Select(layout, o, g.files)
	}
	g.sets = g.selected.First(groupBytes)
	return nil
}

// countKeys counts the keys of each list of files. Lists that were counted before are not read
// again, even if some of their files were rewritten since.
func (g *compactGroup) countKeys(ctx context.Context, lists [][]catalog.File) error {
	var key []catalog.Field
	for _, at := range g.target.Layout.Key {
		f, ok := g.read.ByID(g.target.FieldID(at))
		if !ok || !bucket.Supported(f.Type) {
			return nil // equal values of such types may have different bytes
		}
		key = append(key, f)
	}
	if len(key) == 0 {
		return nil
	}
	for _, files := range lists {
		counted := !slices.ContainsFunc(files, func(f catalog.File) bool {
			_, ok := g.once[f.Location]
			return !ok && !g.made[f.Location]
		})
		if counted {
			continue
		}
		if err := g.countList(ctx, key, files); err != nil {
			return err
		}
	}
	return nil
}

// rowKey is the hash of a row's key, and the number of the row's file. Different keys with the same
// hash count as the same key. This is harmless: their files are not rewritten.
type rowKey struct {
	hash uint64
	file int
}

// countList counts the keys of files. If the keys do not fit in their share of the budget, no key
// counts as occurring once.
func (g *compactGroup) countList(ctx context.Context, key []catalog.Field, files []catalog.File) error {
	rows, most := int64(0), int64(maxRowKeys)
	for _, f := range files {
		g.once[f.Location] = false
		rows += f.Rows
	}
	if limit := g.options.Rows.Budget.Limit(); limit >= 0 {
		most = limit / rowKeysShare / rowKeyBytes
	}
	if rows > most {
		return nil
	}
	held, err := g.options.Rows.Budget.Reserve("keys of files to compact", 0)
	if err != nil {
		return err
	}
	defer held.Release()
	if err := held.GrowWait(ctx, rows*rowKeyBytes); err != nil {
		return err
	}
	keys := keysOfRows{rows: make([]rowKey, 0, rows), seed: maphash.MakeSeed()}
	for i, f := range files {
		if err := keys.read(ctx, g, key, i, f); err != nil {
			return err
		}
	}
	for i, once := range keys.once(len(files)) {
		g.once[files[i].Location] = once
	}
	return nil
}

// keysOfRows are the keys of the rows of some files.
type keysOfRows struct {
	rows  []rowKey
	seed  maphash.Seed
	bytes []byte // of one key
}

// read adds the keys of a file's rows, except for deleted rows.
func (k *keysOfRows) read(ctx context.Context, g *compactGroup, key []catalog.Field, number int, f catalog.File) error {
	source := plan.Source{Table: g.read, Planned: catalog.FieldIDs(g.columns), Files: []plan.FileRange{{File: f, To: f.Rows}}}
	rows, err := g.options.Read(ctx, source, key)
	if err != nil {
		return err
	}
	defer rows.Release()
	for rows.Next() {
		b := rows.RecordBatch()
		for row := range int(b.NumRows()) {
			hash, err := k.hash(b, row)
			if err != nil {
				return err
			}
			k.rows = append(k.rows, rowKey{hash: hash, file: number})
		}
	}
	return rows.Err()
}

// hash returns the hash of the key of a row. Nulls are equal.
func (k *keysOfRows) hash(b arrow.RecordBatch, row int) (_ uint64, err error) {
	k.bytes = k.bytes[:0]
	for _, column := range b.Columns() {
		if column.IsNull(row) {
			k.bytes = append(k.bytes, 0)
			continue
		}
		if k.bytes, err = batch.AppendValue(append(k.bytes, 1), column, row); err != nil {
			return 0, err
		}
	}
	return maphash.Bytes(k.seed, k.bytes), nil
}

// once reports for each file whether every key of its rows occurs in only one row.
func (k *keysOfRows) once(files int) []bool {
	out := slices.Repeat([]bool{true}, files)
	slices.SortFunc(k.rows, func(a, b rowKey) int { return cmp.Compare(a.hash, b.hash) })
	for i := 1; i < len(k.rows); i++ {
		if a, b := k.rows[i-1], k.rows[i]; a.hash == b.hash {
			out[a.file], out[b.file] = false, false
		}
	}
	return out
}
